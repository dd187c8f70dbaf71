"""The pages. Each says what it shows as an ETag, so that a look at what has not changed costs next to nothing."""

import hashlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi import Query as Asked
from fastapi.responses import RedirectResponse, Response

from detol.dashboards.web import trial_view, views
from detol.dashboards.web.links import url
from detol.errors import UsageError
from detol.graph.draw import svg
from detol.results.query import Query

router = APIRouter(include_in_schema=False)

LIVE_SECONDS, IDLE_SECONDS = 2.0, 15.0
"""How often a page asks whether anything changed: while a search runs, and otherwise."""

LAST_PAGE = 1_000_000
_Page = Annotated[int, Asked(ge=1, le=LAST_PAGE)]


def database(request: Request) -> Query:
    """Return what the application asks."""
    query: Query = request.app.state.query
    return query


_Database = Annotated[Query, Depends(database)]


def _answer(request: Request, template: str, pulse: str, view: Callable[[], dict[str, Any]]) -> Response:
    """Return a page, or 304 when nothing it shows has changed since the visitor's last look."""
    build = request.app.state.templates.env.globals["build"]
    tag = hashlib.sha256(f"{build} {request.url} {pulse}".encode()).hexdigest()[:24]
    headers = {"ETag": f'W/"{tag}"', "Cache-Control": "private, no-cache"}
    if tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    shown = view()
    shown["every"] = LIVE_SECONDS if shown.get("live") else IDLE_SECONDS
    answer: Response = request.app.state.templates.TemplateResponse(request, template, shown, headers=headers)
    return answer


@router.get("/")
def searches(request: Request, query: _Database, page: _Page = 1) -> Response:
    """Show all searches."""
    return _answer(request, "searches.html", query.pulse(), lambda: views.searches_view(query, page))


@router.get("/search")
def search(
    request: Request,
    query: _Database,
    name: str,
    state: str = "",
    origin: str = "",
    text: str = "",
    sort: str = "",
    order: Annotated[str, Asked(pattern="^(asc|desc)?$")] = "",
    against: str = "",
    page: _Page = 1,
) -> Response:
    """Show one search."""
    options = {
        "name": name,
        "state": state,
        "origin": origin,
        "text": text,
        "sort": sort,
        "order": order,
        "against": against,
    }
    return _answer(request, "search.html", query.pulse(name), lambda: views.search_view(query, name, options, page))


@router.get("/trial")
def trial(request: Request, query: _Database, ref: str) -> Response:
    """Show one trial; a search or a digest leads to its best one."""
    found = query.resolve(ref)
    if found.ref != ref:
        return RedirectResponse(url("/trial", ref=found.ref), 303)
    pulse = f"{query.pulse(found.search)} {query.embedded()}"
    return _answer(request, "trial.html", pulse, lambda: trial_view.trial_view(query, ref))


@router.get("/trial/topology.svg")
def picture(query: _Database, ref: str) -> Response:
    """Return the drawing of a trial's topology as a file."""
    found = query.resolve(ref)
    name = "".join(c if c.isascii() and c.isalnum() else "-" for c in found.ref)
    headers = {"Content-Disposition": f'attachment; filename="{name}.svg"'}
    return Response(svg(found.trial.candidate.topology), media_type="image/svg+xml", headers=headers)


@router.get("/compare")
def compare(
    request: Request,
    query: _Database,
    t: Annotated[list[str] | None, Asked()] = None,
    a: str = "",
    b: str = "",
) -> Response:
    """Compare two trials: ``a`` and ``b``, or the two that were ticked in a table (``t``)."""
    ticked = t or []
    if ticked:
        if len(ticked) != 2:
            raise UsageError(f"two trials are compared, got {len(ticked)}: tick two of the table")
        return RedirectResponse(url("/compare", a=ticked[0], b=ticked[1]), 303)
    if not a.strip() or not b.strip():
        shown = {"refs": [a.strip(), b.strip()], "shown": None}
        return _answer(request, "compare.html", "", lambda: shown)
    return _answer(request, "compare.html", query.pulse(), lambda: trial_view.compare_view(query, a.strip(), b.strip()))


@router.get("/database")
def whole(request: Request, query: _Database, data: str = "", metric: str = "") -> Response:
    """Show what the database holds."""
    return _answer(request, "database.html", query.pulse(), lambda: views.database_view(query, data, metric))


@router.get("/api")
def described(request: Request) -> Response:
    """Show what the JSON API answers."""
    schema = request.app.openapi()
    calls = [_call(path, call["get"]) for path, call in schema["paths"].items()]
    return _answer(request, "api.html", "", lambda: {"calls": calls, "version": schema["info"]["version"]})


def _call(path: str, call: Mapping[str, Any]) -> dict[str, Any]:
    """Return one call of the API as its page shows it, from OpenAPI's description."""
    parts = []
    for part in call.get("parameters", ()):
        kinds = part["schema"].get("anyOf", [part["schema"]])
        default = part["schema"].get("default")
        hint = kinds[0].get("type", "") if default in (None, "") else str(default).lower()
        text = part.get("description") or part["schema"].get("description") or kinds[0].get("type", "")
        parts.append({"name": part["name"], "required": part.get("required", False), "hint": hint, "text": text})
    text = (call.get("description") or call["summary"]).replace("``", "")
    return {"path": path, "text": text, "parameters": parts}
