"""The built site in a real browser: every page, every link, both widths, both themes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from browser import DESKTOP, PHONE, chromium

# One of each type; screenshots of these are kept in docs/_build/screenshots.
KINDS = {
    "front": "index.html",
    "start": "start.html",
    "long": "tutorial.html",
    "tables": "generalization.html",
    "migration": "migration.html",
    "glossary": "glossary.html",
    "gallery": "gallery/index.html",
    "example": "gallery/plot_01_frontier.html",
    "class": "reference/names/totalqboost.TotalQBoostClassifier.html",
    "module": "reference/totalqboost.html",
    "commands": "reference/cli.html",
    "search": "search.html",
}


class Page(HTMLParser):
    """The targets of a page: what it links to, and the places in it that can be linked to."""

    def __init__(self, path: Path):
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.places.update(value for key in ("id", "name") if (value := given.get(key)))
        for key in ("href", "src"):
            if value := given.get(key):
                self.links.append(value)


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    return {
        path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.parts
    }


def test_every_internal_link_leads_somewhere(pages, site):
    broken = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            place = unquote(parts.fragment)
            if not target.exists():
                broken.append(f"{path.relative_to(site)}: {link}")
            elif place and target in pages and place not in pages[target].places:
                broken.append(f"{path.relative_to(site)}: {link} (no such place)")
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(pages, site):
    """A page may link to other sites, but it must work without them."""
    loaded = []
    for path in pages:
        for line in path.read_text(encoding="utf-8").splitlines():
            if ("<script" in line or '<link rel="stylesheet"' in line) and "://" in line:
                loaded.append(f"{path.relative_to(site)}: {line.strip()[:120]}")
    assert loaded == []


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


def opened(browser: Any, address: str, options: dict[str, Any], complaints: list[str]) -> Any:
    """Return a page that notes what its console says and what it asks of other machines."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.on(
        "console",
        lambda said: (
            said.type not in ("error", "warning")
            or complaints.append(f"{page.url}: {said.type} {said.text}")
        ),
    )
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    page.on(
        "request",
        lambda asked: (
            asked.url.startswith((address, "data:", "blob:"))
            or complaints.append(f"{page.url}: asks {asked.url}")
        ),
    )
    page.on(
        "response",
        lambda got: got.status < 400 or complaints.append(f"{page.url}: {got.status} {got.url}"),
    )
    return page


def test_every_page_opens_without_a_complaint(browser, address, pages, site):
    complaints: list[str] = []
    page = opened(browser, address, DESKTOP, complaints)
    for path in pages:
        page.goto(f"{address}/{path.relative_to(site).as_posix()}")
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "options"), [("1280", DESKTOP), ("390", PHONE)])
def test_page_fits_the_width_in_both_themes(browser, address, site, width, options, scheme):
    complaints: list[str] = []
    page = opened(browser, address, {**options, "color_scheme": scheme}, complaints)
    folder = site.parent / "screenshots"
    folder.mkdir(exist_ok=True)
    too_wide = []
    for kind, name in KINDS.items():
        page.goto(f"{address}/{name}")
        assert page.evaluate("document.documentElement.dataset.theme") == scheme
        wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if wide > 1:
            too_wide.append(f"{name}: {wide} px")
        page.screenshot(path=folder / f"{kind}-{width}-{scheme}.png")
    assert too_wide == []
    assert complaints == []


def test_search_finds_a_name_and_a_word(browser, address):
    complaints: list[str] = []
    page = opened(browser, address, DESKTOP, complaints)
    for query, wanted in [
        ("TotalQBoostClassifierCV", "TotalQBoostClassifierCV"),
        ("scorecard", "scorecard"),
    ]:
        page.goto(f"{address}/search.html?q={query}")
        page.wait_for_selector("#search-results li a")
        found = " ".join(page.locator("#search-results li").all_inner_texts())
        assert wanted.lower() in found.lower()
    # Sphinx warns where a summary has no anchor of its own.
    assert [said for said in complaints if "Anchored content block" not in said] == []


def test_what_is_copied_from_a_block_has_no_prompts_and_no_outputs(browser, address):
    page = opened(browser, address, DESKTOP, [])
    page.goto(f"{address}/start.html")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.wait_for_selector("button.copybtn", state="attached")
    blocks = page.locator("div.highlight")
    for text in ("clf.n_learners_", "TotalQBoostClassifier(0, max_learners=5)"):
        button = blocks.filter(has_text=text).first.locator("button.copybtn")
        button.click(force=True)  # it shows where the mouse is
        copied = page.evaluate("navigator.clipboard.readText()").replace("\r\n", "\n")
        assert text in copied
        assert ">>>" not in copied
        assert "\n5\n" not in f"\n{copied}\n"
