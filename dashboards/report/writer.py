"""Writes a report and its pictures: whole, or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from detol.dashboards.report.drawings import DRAWN
from detol.dashboards.report.facts import read
from detol.dashboards.report.importance import RESAMPLES
from detol.dashboards.report.page import page, pictures
from detol.errors import UsageError
from detol.results.query import Query


def check_file(target: Path, *, option: str = "--to", force: bool = False) -> Path:
    """Return the absolute path of a file that can be written.

    Args:
        target: to be written.
        option: that named it, for the message.
        force: whether a file that is there may be replaced.

    Raises:
        UsageError: it is a directory, is there already, or its folder is missing or cannot be written.
    """
    target = target.absolute()
    try:
        if target.is_dir():
            raise UsageError(f"a report is a file, {str(target)!r} is a directory: {option} {target / 'report.html'}")
        if target.exists() and not force:
            raise UsageError(f"{str(target)!r} exists already: choose another {option}, or add --force")
        folder = target.parent
        if not folder.is_dir():
            raise UsageError(f"there is no directory {str(folder)!r}: make it, or choose another {option}")
    except OSError as error:  # a name that is too long ...
        raise UsageError(f"{option} {str(target)[:120]!r} cannot be a file: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write into {str(folder)!r}: choose another {option}")
    return target


def check_pictures(target: Path, *, force: bool = False) -> Path:
    """Return the absolute path of the directory for the pictures.

    Raises:
        UsageError: it is a file, holds something and ``force`` is not given, or cannot be made.
    """
    target = target.absolute()
    if target.exists() and not target.is_dir():
        raise UsageError(f"pictures need a directory, {str(target)!r} is a file: choose another --png")
    if target.is_dir() and any(target.iterdir()) and not force:
        raise UsageError(f"{str(target)!r} holds something already: choose another --png, or add --force")
    parent = target if target.is_dir() else target.parent
    if not parent.is_dir():
        raise UsageError(f"there is no directory {str(parent)!r}: make it, or choose another --png")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write into {str(parent)!r}: choose another --png")
    return target


def write_report(
    query: Query,
    name: str,
    target: Path,
    *,
    png: Path | None = None,
    command: str = "",
    force: bool = False,
    resamples: int = RESAMPLES,
    most: int = DRAWN,
) -> Mapping[str, Any]:
    """Write the report of a search; an error leaves nothing behind.

    Args:
        query: of the database.
        name: of the search.
        target: the HTML file.
        png: where the pictures go as PNG: a directory, or a file ``*.png`` for all of them on one sheet.
        command: line that does the search again.
        force: whether what is there is replaced.
        resamples: bootstrap samples behind the importance of decisions; 0 leaves it out.
        most: topologies that can be looked at, besides those that matter.

    Returns:
        ``path``, ``bytes``, ``trials``, and ``pictures``: the paths of the PNG files.

    Raises:
        ResultsError: no such search.
        UsageError: no trial with a score, a destination that cannot be written, a library that is missing.
    """
    target = check_file(target, force=force)
    sheet = png is not None and png.suffix.lower() == ".png" and not png.is_dir()
    if png is not None:
        png = check_file(png, option="--png", force=force) if sheet else check_pictures(png, force=force)
    facts = read(query, name)
    drawn = pictures(facts, resamples=resamples)
    text = page(query, facts, drawn, command=command, most=most)
    files: dict[Path, bytes] = {target: text.encode("utf-8", "replace")}
    if png is not None:
        from detol.dashboards.report import still

        listed = [picture for group in drawn.values() for picture in group]
        made = {picture.key: still.png(picture) for picture in listed}
        if sheet:
            files[png] = still.sheet(list(made.values()))
        else:
            files |= {png / f"{key}.png": content for key, content in made.items()}
    with _one_line(target):
        _put(files, png if png is not None and not sheet else None)
    return {
        "path": str(target),
        "bytes": target.stat().st_size,
        "trials": len(facts.records),
        "pictures": [str(path) for path in files if path != target],
    }


def _put(files: Mapping[Path, bytes], folder: Path | None) -> None:
    """Write files, each beside its place first, so that none is there by half."""
    made = folder is not None and not folder.exists()
    if folder is not None:
        folder.mkdir(exist_ok=True)
    waiting: dict[Path, Path] = {}
    try:
        for path, content in files.items():
            handle, name = tempfile.mkstemp(prefix=".report-", dir=path.parent)
            waiting[path] = Path(name)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            waiting[path].chmod(0o666 & ~_umask())
        for path, scratch in waiting.items():
            scratch.replace(path)
    except BaseException:
        for scratch in waiting.values():
            scratch.unlink(missing_ok=True)
        if made and folder is not None:
            with contextlib.suppress(OSError):
                folder.rmdir()
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def _one_line(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"cannot write {str(target)!r}: {error.strerror}: choose another --to") from None
