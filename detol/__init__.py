"""detol: automated topology learning.

::

    import detol

    space = detol.space("nasbench201")
    best = detol.optimize(space, evaluate=lambda candidate: 91.2, strategy="guided", trials=50).best   # any callable
    best = detol.search(data="digits", space="image_cell", trials=50).best                          # real training
    search = detol.Search(data="digits", trials=50).run()                 # the same for notebooks: it shows itself
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detol.api import optimize, resume, space
    from detol.notebook.search import Search

__all__ = ["Search", "optimize", "resume", "search", "space"]


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for: the import of detol costs next to nothing."""
    import importlib

    if name == "search":
        return importlib.import_module("detol.search")  # a package that can be called
    if name in ("optimize", "resume", "space"):
        return getattr(importlib.import_module("detol.api"), name)
    if name == "Search":
        return importlib.import_module("detol.notebook.search").Search
    raise AttributeError(f"module 'detol' has no attribute {name!r}")
