"""The application: pages, API, static files, and errors in one line."""

import hashlib
from collections.abc import Callable, Collection
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.middleware.gzip import GZipMiddleware
from fastapi.responses import JSONResponse, Response
from fastapi.staticfiles import StaticFiles
from fastapi.templating import Jinja2Templates
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.exceptions import HTTPException

from detol.dashboards.web import api, links, pages, words
from detol.dashboards.web.guard import LOCAL, Guard
from detol.errors import DetolError, ResultsError, UsageError
from detol.graph.draw import STYLE
from detol.results.query import Query

_HERE = Path(__file__).parent


def make_app(query: Query, *, where: str = "", token: str = "", hosts: Collection[str] = LOCAL) -> FastAPI:
    """Return the dashboard as an ASGI application.

    Args:
        query: of the database that is shown; it must be safe for several threads.
        where: what the database is called on the pages.
        token: what a visitor must know; empty: nothing.
        hosts: names of this machine that are accepted where there is no token.
    """
    app = FastAPI(
        title="detol",
        version=version("detol"),
        description="The results database, read-only.",
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    app.state.query = query
    app.state.templates = _templates(where)
    app.include_router(pages.router)
    app.include_router(api.router)

    @app.get("/static/topology.css", include_in_schema=False)
    def style() -> Response:
        return Response(STYLE, media_type="text/css", headers={"Cache-Control": "no-cache"})

    app.mount("/static", StaticFiles(directory=_HERE / "static"))
    app.add_exception_handler(ResultsError, _failed(_status_of_results))
    app.add_exception_handler(UsageError, _failed(lambda _: 400))
    app.add_exception_handler(RequestValidationError, _failed(lambda _: 422))
    app.add_exception_handler(HTTPException, _failed(lambda error: getattr(error, "status_code", 500)))
    app.add_exception_handler(Exception, _failed(lambda _: 500))
    app.add_middleware(GZipMiddleware, minimum_size=2000, compresslevel=5)
    app.add_middleware(Guard, token=token, hosts=frozenset(hosts))
    return app


def _templates(where: str) -> Jinja2Templates:
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(words.FILTERS)
    environment.globals.update(
        link=links.url,
        changed=links.changed,
        search_url=links.search_url,
        trial_url=links.trial_url,
        where=where,
        build=_build(),
    )
    return Jinja2Templates(env=environment)


def _build() -> str:
    """Return a text that changes with the style sheet and the script, so that browsers fetch new ones."""
    files = sorted((_HERE / "static").iterdir())
    return hashlib.sha256(b"".join(file.read_bytes() for file in files) + STYLE.encode()).hexdigest()[:10]


def _status_of_results(error: Exception) -> int:
    """Return 503 where the database itself fails, 404 where it does not hold what was asked for."""
    return 503 if str(error).startswith("cannot ") else 404


def _failed(status: Callable[[Exception], int]) -> Callable[[Request, Exception], Response]:
    def answer(request: Request, error: Exception) -> Response:
        code, text = status(error), _one_line(error)
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": text}, code)
        templates: Jinja2Templates = request.app.state.templates
        shown: dict[str, Any] = {"code": code, "text": text}
        return templates.TemplateResponse(request, "error.html", shown, status_code=code)

    return answer


def _one_line(error: Exception) -> str:
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        return f"{'.'.join(str(part) for part in first['loc'][1:])}: {first['msg']}"
    if isinstance(error, HTTPException):
        return "there is no such page" if error.status_code == 404 else str(error.detail)
    if not isinstance(error, DetolError):
        return "the dashboard failed: its terminal says how"  # the server prints the traceback
    return " ".join(str(error).split())
