"""``detol spaces``: what can be searched."""

from typing import Annotated, Any

import typer

from detol.commands.common import Json, print_json, print_rows


def spaces(
    space: Annotated[str, typer.Argument(metavar="[NAME|FILE]", help="A space, or a file that declares one.")] = "",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the three sampled examples.")] = 0,
    as_json: Json = False,
) -> None:
    """List the search spaces, or show one: its decisions, its cardinality, its references, three sampled examples."""
    from detol.spaces import catalogue

    if space:
        _one(space, seed, as_json)
        return
    rows = []
    for name in catalogue.names():
        found = catalogue.load(name)
        rows.append(
            {
                "space": name,
                "size": _size(found.size),
                "references": ", ".join(found.references),
                "about": _about(found),
            }
        )
    print_rows(rows, as_json=as_json)


def _one(name: str, seed: int, as_json: bool) -> None:
    import numpy as np

    from detol.graph.digest import digest
    from detol.spaces import catalogue

    space = catalogue.load(name)
    rng = np.random.default_rng(seed)
    examples = [space.sample(rng) for _ in range(3)]
    shown: dict[str, Any] = {
        "name": space.name,
        "about": _about(space),
        "size": space.size,
        "decisions": _decisions(space, [*examples, *space.references.values()]),
        "references": {key: dict(decided) for key, decided in space.references.items()},
        "examples": [{"digest": digest(space.decode(decided)), "decisions": dict(decided)} for decided in examples],
    }
    if as_json:
        print_json(shown)
        return
    from detol.dashboards.tables import console as table_console
    from detol.dashboards.tables import show

    console = table_console()
    console.print(f"{space.name}: {shown['about']}", markup=False, highlight=False)
    console.print(f"{_size(space.size)} decision sequences\n", markup=False, highlight=False)
    show(console, shown["decisions"])
    for key, decided in space.references.items():
        console.print(f"reference {key}: {_line(decided)}", markup=False, highlight=False)
    for example in shown["examples"]:
        console.print(f"example {example['digest'][:19]}: {_line(example['decisions'])}", markup=False, highlight=False)


def _decisions(space: Any, met: list[Any]) -> list[dict[str, Any]]:
    """Return the choices of a space: all that it declares, or those that some decisions meet."""
    choices = list(getattr(space, "choices", ()))
    if not choices:
        found: dict[str, Any] = {}
        for decided in met:
            prefix = type(decided)()
            while (choice := space.next(prefix)) is not None:
                found.setdefault(choice.name, choice)
                prefix = prefix.with_(choice.name, decided[choice.name])
        choices = list(found.values())
    return [
        {
            "decision": choice.name,
            "options": ", ".join(map(str, choice.options)),
            "open when": "; ".join(f"{key} in {', '.join(map(str, values))}" for key, values in choice.when.items()),
        }
        for choice in choices
    ]


def _about(space: Any) -> str:
    return str(getattr(space, "description", ""))


def _size(size: int | None) -> str:
    return "not counted" if size is None else f"{size:,}" if size < 10**9 else f"{float(size):.2e}"


def _line(decisions: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in decisions.items())
