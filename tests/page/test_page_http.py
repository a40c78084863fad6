"""The page's files as they are served, and what may be in them."""

import re
from pathlib import Path

import pytest

import orchestrator
from orchestrator.api.app import make_app
from orchestrator.api.page import FILES, INDEX, PATHS
from tests.api.surface_rig import ask, make_services

FOLDER = Path(orchestrator.__file__).parent / "page"
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
SOURCES = {path.name: path.read_text("utf-8") for path in FOLDER.iterdir()}


def test_what_there_is_is_served_and_nothing_else() -> None:
    """The names that are served are those of the folder."""
    assert set(SOURCES) == {INDEX, *FILES}
    assert {"/", "/page/main.js", "/page/page.css"} <= PATHS


async def test_browsers_get_the_page_and_programs_a_pointer() -> None:
    """Who takes HTML gets the page; others are told where the API is described."""
    app = make_app(make_services())
    page, pointer = await ask(app, "GET", "/", headers=BROWSER), await ask(app, "GET", "/")
    assert page.body == SOURCES[INDEX].encode()
    assert (page.header("content-type"), page.header("vary")) == ("text/html; charset=utf-8", "accept")
    assert pointer.body == b"headrace: what it can do is described at /api/openapi.json\n"


@pytest.mark.parametrize("path", ["/", "/page/main.js", "/page/page.css", "/page/icon.svg"])
async def test_a_browser_is_told_what_it_may_do(path: str) -> None:
    """Each file says that it is nothing but what its type says, and that it may load our own files alone."""
    answer = await ask(make_app(make_services()), "GET", path, headers=BROWSER)
    policy = answer.header("content-security-policy") or ""
    assert {part.strip() for part in policy.split(";")} == {
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    }
    assert answer.header("x-content-type-options") == "nosniff"
    assert answer.header("referrer-policy") == "no-referrer"
    assert answer.header("cache-control") == "no-cache"


async def test_a_file_that_is_known_is_not_sent_again() -> None:
    """With the tag of its last answer a browser gets 304 and no body; with another one the file."""
    app = make_app(make_services())
    tag = (await ask(app, "GET", "/page/main.js")).header("etag") or ""
    for given, status in ((tag, 304), (f'"other", W/{tag}', 304), ("*", 304), ('"other"', 200), ("", 200)):
        answer = await ask(app, "GET", "/page/main.js", headers={"if-none-match": given} if given else {})
        assert (answer.status, bool(answer.body), answer.header("etag")) == (status, status == 200, tag)


@pytest.mark.parametrize("name", ["other.js", "index.html", "..%2Fapi%2Fpage.py", "%2e%2e%2fpy.typed", ".", ""])
async def test_other_names_are_not_there(name: str) -> None:
    """What is not listed is not served, wherever it is."""
    assert (await ask(make_app(make_services()), "GET", f"/page/{name}")).status == 404


def test_nothing_in_the_files_could_make_markup_of_text() -> None:
    """No module writes HTML or evaluates text, and the document has no script or style of its own in it."""
    for name, text in SOURCES.items():
        if name.endswith(".js"):
            assert (
                re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text) == []
            )
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", SOURCES[INDEX]) == []


def test_the_files_name_each_other_and_nobody_else() -> None:
    """Every module is used, every one that is imported is there, and no address leads away from the daemon."""
    imported = {INDEX, *re.findall(r'/page/([\w.]+)"', SOURCES[INDEX])}
    for text in SOURCES.values():
        imported |= set(re.findall(r'from "\./([\w.]+)"', text))
    assert imported == set(SOURCES)
    for text in SOURCES.values():
        assert re.findall(r'https?://(?!www\.w3\.org/2000/svg")', text) == []


def test_every_element_that_a_module_asks_for_is_in_the_document() -> None:
    """The ids that modules look up are the document's, each once."""
    ids = re.findall(r'\bid="([\w-]+)"', SOURCES[INDEX])
    assert len(ids) == len(set(ids))
    asked = {found for text in SOURCES.values() for found in re.findall(r'byId\("([\w-]+)"\)', text)}
    assert asked - set(ids) == set()
