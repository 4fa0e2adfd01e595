"""A real browser: what becomes of a page once its scripts have run, at any width.

The browser is the system's Chromium, driven by Playwright in a thread of its own, so that tests
with an event loop may wait for it; axe-core judges what people without eyes or a mouse get.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_HAS_DRIVER = find_spec("axe_playwright_python") is not None
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None or not _HAS_DRIVER,
    reason="needs chromium (apt install chromium) and the extra test-all",
)
DESKTOP, PHONE = 1400, 360
"""Widths in pixels; of phones one of the narrowest there is."""
_FRESH = "body[data-fresh]"
"""Mark that ``page.js`` sets once the first answers are shown."""
_MILLISECONDS = 60_000


class Dom(HTMLParser):
    """The page after its scripts have run: text, tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self._is_in_cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self._is_in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._is_in_cell = False

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._is_in_cell:
            self.rows[-1][-1] += data

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [one for _, one in self.tags if name in (one.get("class") or "").split()]

    def by_id(self, name: str) -> dict[str, str | None]:
        return next(one for _, one in self.tags if one.get("id") == name)


@dataclass(frozen=True)
class Visit:
    """One visit: to an address, in a window of so many pixels, where dark pages may be liked.

    ``script`` is what a person does there. With ``judged``, violations of accessibility and parts
    wider than the window fail the test, as errors of scripts always do. A picture of the window
    goes to ``picture``.
    """

    url: str
    dark: bool = False
    width: int = DESKTOP
    height: int = 900
    script: str = ""
    judged: bool = False
    picture: Path | None = None


def visit(url: str, **more: Any) -> str:
    """The document once its scripts have run."""
    made = Visit(url, **more)
    return _browser().do(lambda chromium: _look(chromium, made))


def _look(chromium: Any, made: Visit) -> str:
    errors: list[str] = []
    context = chromium.new_context(
        viewport={"width": made.width, "height": made.height},
        color_scheme="dark" if made.dark else "light",
        reduced_motion="reduce",
    )
    try:
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(f"console: {message.text}"))
        page.goto(made.url)
        page.wait_for_selector(_FRESH, timeout=_MILLISECONDS)
        if made.script:
            page.evaluate(made.script)
        if made.judged:
            _judge(page)
        if made.picture is not None:
            page.screenshot(path=made.picture)
        content = str(page.content())
        # A program that cannot answer is the page's business, and the browser says so as well.
        errors = [line for line in errors if "Failed to load resource" not in line]
        assert not errors, errors
        return content
    finally:
        context.close()


def _judge(page: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    lines = [
        f"{rule['id']}: {node['target']}: {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]
    assert not lines, "\n".join(lines)
    wide = page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert wide <= 0, f"the page is {wide} pixels wider than its window"


class _Browser:
    """One Chromium for all tests of a process, with which it ends; one thread does all with it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "browser")
        self._chromium = self._thread.submit(_start).result()

    def do(self, look: Callable[[Any], str]) -> str:
        return self._thread.submit(look, self._chromium).result()


def _start() -> Any:
    from playwright.sync_api import sync_playwright

    flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    return sync_playwright().start().chromium.launch(executable_path=CHROMIUM, args=flags)


@cache
def _browser() -> _Browser:
    return _Browser()
