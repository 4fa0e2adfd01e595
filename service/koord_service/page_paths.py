"""Paths of pages: plain ones, and those with parts that a request chooses."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from koord_service.pages import MakePage


def find_page(pages: Mapping[str, MakePage], path: str) -> tuple[MakePage, Mapping[str, str]]:
    """The page of a path, and what stands in place of the parts of its name that begin with ":".

    "/nodes/:node" is the page of "/nodes/n1", with "n1" for "node". A plain path comes first.

    Raises:
        KeyError: there is no such page.
    """
    if path in pages and "/:" not in path:
        return pages[path], {}
    parts = path.split("/")
    for name, page in pages.items():
        names = name.split("/")
        if ":" in name and len(names) == len(parts) and all(map(_fits, names, parts)):
            pairs = zip(names, parts, strict=True)
            return page, {name[1:]: unquote(part) for name, part in pairs if name.startswith(":")}
    raise KeyError(path)


def _fits(name: str, part: str) -> bool:
    return bool(part) if name.startswith(":") else part == name
