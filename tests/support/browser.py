"""A real browser: what becomes of a page once its scripts have run."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="needs chromium (apt install chromium)"
)
LIGHT, DARK = 1, 0
"""What the system prefers."""


class Dom(HTMLParser):
    """The page after its scripts have run: text, tags and attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data

    def with_class(self, name: str) -> list[dict[str, str | None]]:
        return [one for _, one in self.tags if name in (one.get("class") or "").split()]

    def by_id(self, name: str) -> dict[str, str | None]:
        return next(one for _, one in self.tags if one.get("id") == name)


def load_page(
    url: str, directory: Path, scheme: int = LIGHT, name: str = "", size: str = "1440,2300"
) -> str:
    """The document once its scripts have run, or with a ``name`` a picture of it there.

    A script that fails fails the test. ``size`` is width and height in pixels.
    """
    assert CHROMIUM is not None
    flags = [
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
        *("--hide-scrollbars", f"--window-size={size}", "--virtual-time-budget=3000"),
        *("--enable-logging=stderr", f"--user-data-dir={directory / 'profile'}"),
        f"--blink-settings=preferredColorScheme={scheme}",
        f"--screenshot={directory / name}" if name else "--dump-dom",
    ]
    done = subprocess.run(
        [CHROMIUM, *flags, url], capture_output=True, text=True, timeout=120, check=True
    )
    assert "CONSOLE" not in done.stderr, re.findall(".*CONSOLE.*", done.stderr)
    return done.stdout
