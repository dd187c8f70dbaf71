"""Addresses of pages. Names stand in the query, where any character is safe, and not in the path."""

from collections.abc import Mapping
from urllib.parse import urlencode


def url(path: str, **query: object) -> str:
    """Return a path with its query; what is empty or ``None`` is left out."""
    kept = {name: str(value) for name, value in query.items() if value not in ("", None)}
    return f"{path}?{urlencode(kept)}" if kept else path


def changed(path: str, query: Mapping[str, str], **changes: object) -> str:
    """Return a page's address with some of its query changed; the page number starts again unless it is given."""
    return url(path, **{**{name: value for name, value in query.items() if name != "page"}, **changes})


def search_url(name: str) -> str:
    """Return the address of a search."""
    return url("/search", name=name)


def trial_url(search: str, number: int) -> str:
    """Return the address of a trial."""
    return url("/trial", ref=f"{search}/{number}")
