"""One browser for all tests of the page, and one daemon for those that need none of their own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.daemon.process import daemon
from tests.page.page_rig import ARGUMENTS, MILLISECONDS, chromium, config

expect.set_options(timeout=MILLISECONDS)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless Chromium."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A daemon that is quick."""
    folder: Path = tmp_path_factory.mktemp("page")
    with daemon(folder, config()) as (_, url):
        yield url
