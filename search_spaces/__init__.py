"""Installed as ``detol.search_spaces``."""

if __name__ == "search_spaces":
    raise ImportError("import detol.search_spaces instead: this folder installs under that name")
