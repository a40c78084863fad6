"""The live page at `/`, and its files under `/page/`.

They are the same for everybody and tell of nobody, so they ask for no key; the data that the page fetches does. Only
the names that are listed here are served. What a browser may do with the page is bounded by its policy (W3C, "Content
Security Policy Level 3"): run our own modules, and talk to this daemon.
"""

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from orchestrator.api.errors import NotFound
from orchestrator.api.operations import Operation
from orchestrator.api.services import Services

HTML: Final = "text/html"
TEXT: Final = "text/plain"
SCRIPT: Final = "text/javascript"
STYLE: Final = "text/css"
PICTURE: Final = "image/svg+xml"

INDEX: Final = "index.html"
FILES: Final = {
    "page.css": STYLE,
    "icon.svg": PICTURE,
    "approvals.js": SCRIPT,
    "attention.js": SCRIPT,
    "budgets.js": SCRIPT,
    "dom.js": SCRIPT,
    "header.js": SCRIPT,
    "jobs.js": SCRIPT,
    "key.js": SCRIPT,
    "main.js": SCRIPT,
    "net.js": SCRIPT,
    "queue.js": SCRIPT,
    "run.js": SCRIPT,
    "runs.js": SCRIPT,
    "timeline.js": SCRIPT,
    "words.js": SCRIPT,
}
"""Everything there is under `/page/`, and its media type."""

PATHS: Final = frozenset({"/", *(f"/page/{name}" for name in FILES)})
"""What asks for no key."""

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:;"
    " frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    # asked for again each time, so that a page of one version never runs another one's modules
    "cache-control": "no-cache",
}


class _File(Struct, frozen=True):
    body: bytes
    tag: str


def routes(services: Services) -> list[Route]:
    """The page."""

    async def live_page(request: Request) -> Response:
        if not _wants_html(request):
            words = "headrace: what it can do is described at /api/openapi.json\n"
            return PlainTextResponse(words, headers={"vary": "accept"})
        return _answer(request, INDEX, HTML, {"vary": "accept"})

    async def page_file(request: Request) -> Response:
        name = request.path_params["file"]
        if name not in FILES:
            raise NotFound(f"the page has no file {name[:80]!r}")
        return _answer(request, name, FILES[name])

    return [
        Operation(
            "GET", "/", live_page, "The live page, or for programs where to look", media_types=(HTML, TEXT)
        ).route(),
        Operation(
            "GET",
            "/page/{file}",
            page_file,
            "A file of the live page",
            media_types=(PICTURE, SCRIPT, STYLE),
            errors=(404,),
        ).route(),
    ]


def _wants_html(request: Request) -> bool:
    """Whether a browser asks. Programs say that they take anything, or nothing at all."""
    return HTML in request.headers.get("accept", "").lower()


def _answer(request: Request, name: str, media_type: str, more: dict[str, str] | None = None) -> Response:
    file = _file(name)
    headers = {**_HEADERS, "etag": file.tag, **(more or {})}
    if _knows(request.headers.get("if-none-match", ""), file.tag):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers={**headers, "content-type": f"{media_type}; charset=utf-8"})


def _knows(tags: str, tag: str) -> bool:
    """Whether `If-None-Match` (RFC 9110, 13.1.2: compared weakly) has the tag."""
    return any(one.strip().removeprefix("W/") in (tag, "*") for one in tags.split(","))


@cache
def _file(name: str) -> _File:
    """The file as it was when it was first asked for: small, and read once."""
    body = files("orchestrator").joinpath("page", name).read_bytes()
    return _File(body, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
