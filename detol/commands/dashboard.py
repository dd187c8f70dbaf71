"""``detol dashboard``: searches, trials and topologies in a browser."""

from typing import Annotated

import typer

from detol.commands.common import Db


def dashboard(
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; others than this machine's own need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="Port; 0: one that is free.")] = 8642,
    token: Annotated[
        str,
        typer.Option(
            "--token", envvar="DETOL_TOKEN", help="What visitors must know (default beyond this machine: made up)."
        ),
    ] = "",
    browser: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    db: Db = "",
) -> None:
    """Show searches, trials and topologies in a browser: read-only, live, without any other server."""
    from detol import wire
    from detol.errors import UsageError
    from detol.results.engine import shown
    from detol.results.query import Query

    try:
        from detol.dashboards.web import serve
        from detol.dashboards.web.app import make_app
    except ImportError as error:
        missing = error.name or "fastapi, uvicorn or jinja2"
        raise UsageError(f"the dashboard needs {missing}: pip install 'detol[dashboard]'") from None
    near = serve.loopback(host)
    if not near and not token:
        import secrets

        token = secrets.token_urlsafe(18)
    with wire.database(db, create=False) as database, serve.listen(host, port) as listening:
        app = make_app(Query(database), where=shown(database.url), token=token)
        url = serve.address(listening, host) + (f"?token={token}" if token else "")
        typer.echo(f"detol dashboard of {shown(database.url)}: {url}  (Ctrl-C ends it)")
        if browser:
            import webbrowser

            webbrowser.open(url)
        serve.server(app).run(sockets=[listening])
        # It comes back when it was told to end, and hands the signal on; now and then that gets lost on the way.
        raise KeyboardInterrupt
