"""Cells as classes: one class for all cells that differ in their widths alone, the widths as its arguments.

In the source of a cell each width is marked as ``«16»`` (``layers.wide``). Cells whose sources are equal but for those
numbers share a class when every number is the same in all of them, or follows from the channels that enter
(``channels``) or leave (``width``); else each gets a class of its own.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from detol.graph.shapes import Shape

_MARK = re.compile(r"«(\d+)»")


@dataclass(frozen=True, slots=True)
class Body:
    """The source of one network or cell: lines of ``__init__`` and of ``forward`` (not indented), widths marked."""

    init: tuple[str, ...]
    forward: tuple[str, ...]
    before: Shape
    after: Shape

    @property
    def text(self) -> str:
        """All of it."""
        return "\n".join([*self.init, "", *self.forward])


@dataclass(frozen=True, slots=True)
class Made:
    """A class of the generated module: its source, and how an instance of it is made (widths marked)."""

    name: str
    source: str
    calls: dict[Body, str]


def bare(text: str) -> str:
    """Return source with the marks taken off."""
    return _MARK.sub(r"\1", text)


def classes(bodies: Sequence[Body], name: Callable[[Body], str]) -> list[Made]:
    """Return the classes that some cells need.

    Args:
        bodies: of the cells; equal ones are one.
        name: returns a new name for the class of a cell each time it is called.
    """
    groups: dict[str, list[Body]] = {}
    for body in dict.fromkeys(bodies):
        groups.setdefault(_MARK.sub("«»", body.text), []).append(body)
    found = []
    for group in groups.values():
        together = _shared(group)
        if together is None:
            found += [_class(name(body), [body], [f"{n}" for n in _numbers(body)]) for body in group]
        else:
            found.append(_class(name(group[0]), group, together))
    return found


def _numbers(body: Body) -> list[int]:
    return [int(text) for text in _MARK.findall(body.text)]


def _shared(group: Sequence[Body]) -> list[str] | None:
    """Return an expression for each marked number that holds in all cells of a group; ``None`` if there is none."""
    columns = list(zip(*(_numbers(body) for body in group), strict=True))
    before, after = [body.before[0] for body in group], [body.after[0] for body in group]
    found = [_expression(column, before, after) for column in columns]
    return None if None in found else [text for text in found if text is not None]


def _expression(column: Sequence[int], before: Sequence[int], after: Sequence[int]) -> str | None:
    if len(set(column)) == 1:
        return str(column[0])
    for name, sizes in (("channels", before), ("width", after)):
        if all(n % size == 0 and n // size == column[0] // sizes[0] for n, size in zip(column, sizes, strict=True)):
            factor = column[0] // sizes[0]
            return name if factor == 1 else f"{factor} * {name}"
        ratio = sizes[0] // column[0]
        if ratio > 1 and all(size // ratio == n for n, size in zip(column, sizes, strict=True)):
            return f"{name} // {ratio}"
    return None


def _class(name: str, group: Sequence[Body], expressions: Sequence[str]) -> Made:
    body = group[0]
    used = [word for word in ("channels", "width") if any(word in text for text in expressions)]
    left = iter(expressions)
    text = _MARK.sub(lambda _: next(left), body.text)
    init, forward = text.split("\n\n", 1) if body.init else ("", text.lstrip("\n"))
    takes = "".join(f", {word}: int" for word in used)
    shapes = [f"{_shape(one.before)} to {_shape(one.after)}" for one in group]
    lines = [
        f"class {name}(nn.Module):",
        f'    """{_listed(shapes)}."""',
        "",
        f"    def __init__(self{takes}) -> None:",
        "        super().__init__()",
        *(f"        {line}" for line in init.splitlines()),
        "",
        "    def forward(self, x: Tensor) -> Tensor:",
        *(f"        {line}" for line in forward.splitlines()),
    ]
    sizes = {"channels": 0, "width": 1}
    calls = {
        one: f"{name}({', '.join(f'«{(one.before, one.after)[sizes[word]][0]}»' for word in used)})" for one in group
    }
    return Made(name, "\n".join(line.rstrip() for line in lines), calls)


def _shape(shape: Shape) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def _listed(parts: Sequence[str]) -> str:
    text = "Maps samples of " + "; ".join(parts)
    return text if len(text) <= 100 else text[:97].rsplit(";", 1)[0] + " ..."
