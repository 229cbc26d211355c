"""A real browser for tests of pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

# Chromium talks to its maker at every start unless it is told not to.
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESKTOP: dict[str, Any] = {"viewport": {"width": 1280, "height": 900}}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
}
READY = "html[data-ready]"


@contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser; where there is none the test is skipped, in CI it fails."""
    from playwright.sync_api import sync_playwright

    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        sentence = f"the page is tested in a real browser; put one of {', '.join(BROWSERS)} on PATH"
        if os.environ.get("CI") == "true":
            pytest.fail(sentence)
        pytest.skip(sentence)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(QUIET))
        yield browser
        browser.close()


@contextmanager
def pages_of(browser: Any, file: Path) -> Iterator[Any]:
    """Give a function that opens the page; in the end nothing was asked for or complained about."""
    contexts, complaints = [], []

    def open_page(**options: Any) -> Any:
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(90_000)
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: complaints.append(f"request: {request.url[:200]}"))
        page.goto(file.as_uri())
        page.wait_for_selector(READY)
        assert complaints == [f"request: {file.as_uri()}"]
        complaints.clear()
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
