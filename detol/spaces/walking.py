"""Conditions and walks: which choices are open under which decisions, and how complete decisions are put together.

Every operation on decisions (sampling, mutation, crossing, enumeration, checking) is one walk over the choices in their
order, in which each open choice gets an option. So no operation can leave a choice out or take one that is closed.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from detol.errors import SpaceError, unknown
from detol.spaces.decisions import Choice, Decisions, Option


def is_open(choice: Choice, taken: Mapping[str, Option]) -> bool:
    """Return whether ``choice`` is open once ``taken`` holds: all its conditions are met by choices that are open."""
    return all(name in taken and taken[name] in allowed for name, allowed in choice.when.items())


def walk(choices: Sequence[Choice], pick: Callable[[Choice], Option]) -> Decisions:
    """Return complete decisions: ``pick`` is asked once for each open choice, in order."""
    taken: dict[str, Option] = {}
    for choice in choices:
        if is_open(choice, taken):
            taken[choice.name] = pick(choice)
    return Decisions(taken)


def filled(choices: Sequence[Choice], kept: Mapping[str, Option]) -> Decisions:
    """Return complete decisions that hold ``kept`` where its choices are open, and first options elsewhere."""
    return walk(choices, lambda choice: kept.get(choice.name, choice.options[0]))


def first_open(choices: Sequence[Choice], decided: Mapping[str, Option]) -> Choice | None:
    """Return the first open choice that ``decided`` does not hold, or ``None``."""
    return next((choice for choice in choices if choice.name not in decided and is_open(choice, decided)), None)


def checked(space: str, choices: Sequence[Choice], decided: Mapping[str, Option]) -> Decisions:
    """Return ``decided`` as complete decisions in the order of the choices, options as the choices hold them.

    Raises:
        SpaceError: an unknown or closed choice, one that is missing, or an option that the choice has not.
    """

    def pick(choice: Choice) -> Option:
        if choice.name not in decided:
            if choice.before is not None:
                return choice.before
            near = [name for name in decided if name not in known]
            hint = f" (there is {near[0]!r}, which it does not know)" if near else ""
            raise SpaceError(f"space {space!r}: choice {choice.name!r} is missing{hint}: {_options(choice)}")
        return taken_option(space, choice, decided[choice.name])

    known = {choice.name for choice in choices}
    for name in decided:
        if name not in known:
            raise unknown(f"choice of space {space!r}", name, known, SpaceError)
    whole = walk(choices, pick)
    for name in decided:
        if name not in whole:
            choice = next(choice for choice in choices if choice.name == name)
            rule = " and ".join(f"{key} in {_listed(options)}" for key, options in choice.when.items())
            raise SpaceError(f"space {space!r}: choice {name!r} is open only for {rule}: leave it out")
    return whole


def taken_option(space: str, choice: Choice, option: Option) -> Option:
    """Return the option of ``choice`` that equals ``option``.

    Raises:
        SpaceError: it has none; near options are named.
    """
    if option in choice.options:
        return choice.options[choice.options.index(option)]
    raise unknown(f"option of {choice.name!r} in space {space!r}", str(option), map(str, choice.options), SpaceError)


def validate(space: str, choices: Sequence[Choice]) -> None:
    """Check a declaration.

    Raises:
        SpaceError: no choices, a name given twice, no options, an option given twice, a ``before`` that is no option,
            or a condition that can never be met because it names no earlier choice or none of its options.
    """
    if not choices:
        raise SpaceError(f"space {space!r}: a space has at least one choice")
    earlier: dict[str, Choice] = {}
    for choice in choices:
        where = f"space {space!r}, choice {choice.name!r}"
        if choice.name in earlier:
            raise SpaceError(f"{where}: the name is given twice: rename one")
        if not isinstance(choice.options, tuple) or not choice.options:
            raise SpaceError(f"{where}: options are a tuple of at least one value, got {choice.options!r}")
        if len(set(choice.options)) < len(choice.options):
            raise SpaceError(f"{where}: an option is given twice (1, 1.0 and True are equal): {_options(choice)}")
        if choice.before is not None:
            taken_option(space, choice, choice.before)
        for name, allowed in choice.when.items():
            if name not in earlier:
                raise unknown(f"earlier choice in the conditions of {where}:", name, earlier, SpaceError)
            if isinstance(allowed, str) or not allowed:
                raise SpaceError(f"{where}: the condition on {name!r} is a collection of options, got {allowed!r}")
            for option in allowed:
                taken_option(space, earlier[name], option)
        earlier[choice.name] = choice


def _options(choice: Choice) -> str:
    return f"its options are {_listed(choice.options)}"


def _listed(options: Collection[Option]) -> str:
    return ", ".join(map(str, options))
