"""Who may look, and what a page may do: the token, the names of this machine, and the headers of every answer."""

import hashlib
import hmac
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""What this machine calls itself."""

COOKIE = "detol"
_HEADERS = {
    # Nothing from elsewhere, nothing inline: a script in a name could not run even if it were not escaped.
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


class Guard:
    """Lets only those in who may look.

    Without a token the request must name this machine in its ``Host``: a page of another site whose name was pointed
    here (DNS rebinding) could read the results otherwise. With a token, a request carries it as ``?token=``, once (a
    cookie remembers it), or as ``Authorization: Bearer``.

    Args:
        app: what is guarded.
        token: empty: none is asked for.
        hosts: names that are accepted without a token.
    """

    def __init__(self, app: ASGIApp, token: str = "", hosts: Collection[str] = LOCAL) -> None:
        self._app, self._token, self._hosts = app, token, hosts
        self._mark = hashlib.sha256(f"detol:{token}".encode()).hexdigest()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._judge(scope)
        await (refused or self._app)(scope, receive, sending)

    def _judge(self, scope: Scope) -> Response | None:
        """Return what is answered instead, if anything."""
        headers = Headers(scope=scope)
        if not self._token:
            if _name(headers.get("host", "")).lower() in self._hosts:
                return None
            return PlainTextResponse("this dashboard answers to localhost alone; start it with --host\n", 403)
        if self._carries(headers):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = dict(query).get("token", "")
        if not self._equal(given, self._token):
            return PlainTextResponse("a token is needed: open the address that detol dashboard printed\n", 401)
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = "/" + scope["path"].lstrip("/\\")  # never //elsewhere
        answer = RedirectResponse(f"{path}?{rest}" if rest else path, 303)
        answer.set_cookie(COOKIE, self._mark, httponly=True, samesite="lax", max_age=30 * 86400)
        return answer

    def _carries(self, headers: Headers) -> bool:
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self._equal(given.strip(), self._token):
            return True
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return cookie is not None and self._equal(cookie.value, self._mark)

    @staticmethod
    def _equal(given: str, wanted: str) -> bool:
        return hmac.compare_digest(given.encode(), wanted.encode())


def _name(host: str) -> str:
    """Return a ``Host`` without its port."""
    return host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
