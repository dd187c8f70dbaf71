"""Installed as ``detol.workers``."""

if __name__ == "workers":
    raise ImportError("import detol.workers instead: this folder installs under that name")
