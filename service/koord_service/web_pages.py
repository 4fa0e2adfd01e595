"""A program's web page: its own files, and those that all programs' pages share."""

from __future__ import annotations

from functools import partial
from importlib import resources
from types import ModuleType

from koord_service import web
from koord_service.pages import MakePage, Query, StatusPage

_HTML, _SCRIPT, _STYLE = "text/html", "text/javascript", "text/css"
_HEADERS = {
    # Whatever a pod is called, nothing of it runs: scripts are our files alone.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def web_pages(own: ModuleType) -> dict[str, MakePage]:
    """The files by path; ``own`` is the package with the program's index.html and scripts."""
    scripts = (file.name for file in resources.files(own).iterdir() if file.name.endswith(".js"))
    return {
        "/": partial(_file, own, "index.html", _HTML),
        **{f"/{name}": partial(_file, own, name, _SCRIPT) for name in scripts},
        "/page.js": partial(_file, web, "page.js", _SCRIPT),
        "/charts.js": partial(_file, web, "charts.js", _SCRIPT),
        "/style.css": partial(_file, web, "style.css", _STYLE),
    }


def _file(package: ModuleType, name: str, content_type: str, _: Query) -> StatusPage:
    body = resources.files(package).joinpath(name).read_bytes()
    return StatusPage(body, f"{content_type}; charset=utf-8", headers=_HEADERS)
