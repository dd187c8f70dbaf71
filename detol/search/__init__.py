"""The search: records, protocols, controller, limits, resume.

The package can be called: ``detol.search(data="digits", trials=50)`` is :func:`detol.api.search`.
"""

import importlib
import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A module that can be called, since ``detol.search`` names both the package and what a person does with it."""

    def __call__(self, *args: Any, **settings: Any) -> Any:
        """Search; see :func:`detol.api.search`."""
        return importlib.import_module("detol.api").search(*args, **settings)


sys.modules[__name__].__class__ = _Callable
