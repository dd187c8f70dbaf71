"""The JSON API: the questions of :class:`~detol.results.query.Query`. Numbers that JSON lacks are ``null``."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Query as Asked
from fastapi.responses import JSONResponse

from detol.graph.difference import Change, difference
from detol.results.browse import LARGEST_PAGE
from detol.results.query import (
    CurveRow,
    Filter,
    FrontRow,
    LineRow,
    Point,
    Query,
    SearchRow,
    TopRow,
    TrialPage,
    TrialRow,
    plain,
)

router = APIRouter(prefix="/api")

_Ref = Annotated[str, Asked(description="SEARCH/NUMBER; or a search, or a digest: its best trial")]
_Name = Annotated[str, Asked(description="name of a search")]
_Limit = Annotated[int, Asked(ge=1, le=LARGEST_PAGE, description="rows at most")]
_Data = Annotated[str | None, Asked(description="only on this data set: its name or digest")]
_Space = Annotated[str | None, Asked(description="only of this space")]
_Search = Annotated[str | None, Asked(description="only of this search")]


def _query(request: Request) -> Query:
    query: Query = request.app.state.query
    return query


def _json(value: Any) -> JSONResponse:
    return JSONResponse(plain(value), headers={"Cache-Control": "private, no-cache"})


@router.get("/searches", response_model=list[SearchRow])
def searches(request: Request, limit: _Limit = 50, offset: Annotated[int, Asked(ge=0)] = 0) -> JSONResponse:
    """Return all searches, newest first."""
    return _json(_query(request).searches(limit, offset))


@router.get("/search", response_model=SearchRow)
def search(request: Request, name: _Name) -> JSONResponse:
    """Return one search: its state, counts and best trial."""
    return _json(_query(request).status(name))


@router.get("/settings", response_model=dict[str, Any])
def settings(request: Request, name: _Name) -> JSONResponse:
    """Return what a search was started with: settings, objectives, versions."""
    return _json(_query(request).settings(name))


@router.get("/trials", response_model=TrialPage)
def trials(
    request: Request,
    search: _Name,
    state: str = "",
    origin: str = "",
    text: Annotated[str, Asked(description="in the digest, the note, the reason or the decisions; or the number")] = "",
    sort: Annotated[str, Asked(description="number, value, epoch, seconds, params ...")] = "number",
    descending: bool = False,
    page: Annotated[int, Asked(ge=1)] = 1,
    size: _Limit = 50,
) -> JSONResponse:
    """Return one page of the trials of a search, filtered and sorted."""
    which = Filter(state, origin, text)
    return _json(_query(request).trials(search, which, sort=sort, descending=descending, page=page, size=size))


@router.get("/points", response_model=list[Point])
def points(request: Request, search: _Name) -> JSONResponse:
    """Return all trials of a search with their objectives and costs: what its charts show."""
    return _json(_query(request).points(search))


@router.get("/trial", response_model=dict[str, Any])
def trial(request: Request, ref: _Ref, data: _Data = None) -> JSONResponse:
    """Return everything about one trial: topology, decisions, recipe, costs, curve, other trainings of it."""
    return _json(_query(request).show(ref, data))


@router.get("/curve", response_model=list[CurveRow])
def curve(request: Request, ref: _Ref) -> JSONResponse:
    """Return the learning curve of a trial."""
    return _json(_query(request).curve(ref))


@router.get("/lineage", response_model=list[LineRow])
def lineage(request: Request, ref: _Ref) -> JSONResponse:
    """Return a trial and its ancestors."""
    return _json(_query(request).lineage(ref))


@router.get("/children", response_model=list[TrialRow])
def children(request: Request, ref: _Ref) -> JSONResponse:
    """Return the trials that derive from a trial."""
    query = _query(request)
    found = query.resolve(ref)
    return _json(query.children(found.search, found.trial.number))


@router.get("/similar", response_model=list[dict[str, Any]])
def similar(request: Request, ref: _Ref, limit: _Limit = 10) -> JSONResponse:
    """Return the topologies nearest to a trial's, among those that ``detol results similar`` has embedded."""
    return _json(_query(request).similar(ref, limit))


@router.get("/compare", response_model=dict[str, Any])
def compare(request: Request, a: _Ref, b: _Ref) -> JSONResponse:
    """Return the nodes and edges in which the topologies of two trials differ."""
    query = _query(request)
    one, two = query.resolve(a), query.resolve(b)
    found = difference(one.trial.candidate.topology, two.trial.candidate.topology)
    changes: tuple[Change, ...] = found.changes
    removed, added = found.edges
    return _json({"a": one.ref, "b": two.ref, "nodes": changes, "edges_removed": removed, "edges_added": added})


@router.get("/top", response_model=list[TopRow])
def top(
    request: Request,
    data: _Data = None,
    space: _Space = None,
    search: _Search = None,
    limit: _Limit = 10,
    metric: Annotated[str | None, Asked(description="METRIC[:min|max] to rank by")] = None,
) -> JSONResponse:
    """Return the best trials: one for each topology, recipe and data set."""
    return _json(_query(request).top(data, space, search, limit, metric))


@router.get("/front", response_model=list[FrontRow])
def front(
    request: Request,
    objective: Annotated[list[str] | None, Asked(description="METRIC[:min|max]; repeat")] = None,
    data: _Data = None,
    space: _Space = None,
    search: _Search = None,
) -> JSONResponse:
    """Return the trials that none beats in all objectives at once (default: score and parameters)."""
    return _json(_query(request).front(objective or ("score", "params"), data, space, search))


@router.get("/data", response_model=list[dict[str, Any]])
def data_sets(request: Request) -> JSONResponse:
    """Return all data sets, with how much was tried on each."""
    return _json(_query(request).data_sets())


@router.get("/spaces", response_model=list[dict[str, Any]])
def spaces(request: Request) -> JSONResponse:
    """Return all spaces, with how much was tried of each."""
    return _json(_query(request).spaces())


@router.get("/stats", response_model=dict[str, Any])
def stats(request: Request) -> JSONResponse:
    """Return the totals of the database: trials by state, epochs, seconds, what reuse and stopping saved."""
    return _json(_query(request).stats())
