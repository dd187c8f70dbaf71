"""From named arrays, of whatever container, to the parts of a data set."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from detol.errors import DataError, unknown
from detol.workers.data.lazy import Selection
from detol.workers.data.raw import Array, Part, Raw

ROLES = ("x", "y", "x_train", "y_train", "x_validation", "y_validation", "x_test", "y_test", "classes")
ALIASES: Mapping[str, tuple[str, ...]] = {
    "x": ("X", "data", "images", "signals", "features", "inputs"),
    "y": ("Y", "target", "targets", "labels", "label"),
    "x_train": ("X_train", "train_x", "train_images", "train_data"),
    "y_train": ("Y_train", "train_y", "train_labels", "train_target"),
    "x_validation": ("X_validation", "x_val", "X_val", "val_x", "val_images", "x_valid", "X_valid"),
    "y_validation": ("Y_validation", "y_val", "Y_val", "val_y", "val_labels", "y_valid", "Y_valid"),
    "x_test": ("X_test", "test_x", "test_images", "test_data"),
    "y_test": ("Y_test", "test_y", "test_labels", "test_target"),
    "classes": ("class_names", "label_names", "target_names"),
}


def read(
    name: str,
    form: str,
    shapes: Mapping[str, tuple[int, ...]],
    get: Callable[[str], Array],
    variables: Mapping[str, str] | None,
    target: str | int | None,
    lazy: "Callable[[str], Array | Selection] | None" = None,
) -> Raw:
    """Return the parts that named arrays form.

    Args:
        name: of the data set.
        form: of the container.
        shapes: of the arrays that are there, by name.
        get: reads one of them.
        variables: from role (:data:`ROLES`) to name; roles not named are looked for under their own names and usual
            ones.
        target: name of the labels, for files of ``x`` and labels; same as ``variables={"y": target}``.
        lazy: returns samples that stay where they are until they are read, in place of ``get``.

    Raises:
        DataError: an unknown role or name, or no samples or labels among the arrays; lists what is there.
    """
    roles = _roles(name, shapes, variables, target)
    parts = {}
    for part, x, y in (
        ("train", "x", "y") if "x_train" not in roles or "x" in (variables or {}) else ("train", "x_train", "y_train"),
        ("validation", "x_validation", "y_validation"),
        ("test", "x_test", "y_test"),
    ):
        if x in roles and y in roles:
            samples = _samples((lazy or get)(roles[x]), name, x)
            parts[part] = Part(samples, _samples(get(roles[y]), name, y))
        elif part == "train" or x in roles or y in roles:
            lacking = y if x in roles else x
            raise DataError(
                f"{name!r} needs samples and labels: it has no {lacking!r}, it holds {_listing(shapes)};"
                f" name them by --variables {lacking}=NAME"
            )
    classes = tuple(_text(value) for value in get(roles["classes"]).tolist()) if "classes" in roles else None
    test_from = "given by the source" if "test" in parts else ""
    return Raw(name, form, parts, "", classes, roles.get("y_train", roles.get("y", "y")), test_from)


def _roles(
    name: str, shapes: Mapping[str, Any], variables: Mapping[str, str] | None, target: str | int | None
) -> dict[str, str]:
    chosen = dict(variables or {})
    if target not in (None, "last"):
        chosen["y"] = str(target)
    for role, variable in chosen.items():
        if role not in ROLES:
            raise unknown("role of a variable", role, ROLES, DataError)
        if variable not in shapes:
            raise unknown(f"variable of {name!r}", variable, shapes, DataError)
    for role, usual in ALIASES.items():
        found = [variable for variable in (role, *usual) if variable in shapes]
        if role not in chosen and found:
            chosen[role] = found[0]
    return chosen


def _samples(values: Any, name: str, role: str) -> Any:
    if values.ndim == 0:
        raise DataError(f"{role} of {name!r} must be an array with a row for each sample, got a single value")
    if values.dtype == np.object_ and not role.startswith("y"):
        raise DataError(f"{role} of {name!r} must be numbers of one shape, got objects; save it as a plain array")
    return values


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _listing(shapes: Mapping[str, tuple[int, ...]]) -> str:
    names = [f"{variable} {shape}" for variable, shape in shapes.items()]
    return ", ".join(names[:12]) + (" ..." if len(names) > 12 else "") or "nothing"
