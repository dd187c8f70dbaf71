"""Installed as ``detol.dashboards``."""

if __name__ == "dashboards":
    raise ImportError("import detol.dashboards instead: this folder installs under that name")
