"""Pages of a folder belong below its README, without a table of contents that people would keep."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from sphinx.application import Sphinx

_LINK = re.compile(r"\]\(([\w./-]+?)(?:\.md)?(?:#[^)]*)?\)")


def children(docname: str, text: str, pages: set[str]) -> list[str]:
    """Names of pages beside a README: those that it links, in its order, then the others."""
    folder = PurePosixPath(docname).parent
    beside = {
        str(PurePosixPath(page).relative_to(folder))
        for page in pages
        if PurePosixPath(page).parent == folder and page != docname
    }
    linked = dict.fromkeys(name for name in _LINK.findall(text) if name in beside)
    return [*linked, *sorted(beside - linked.keys())]


def _add_children(app: Sphinx, docname: str, content: list[str]) -> None:
    is_section = docname.startswith("docs/") and docname.count("/") > 1
    has_own = "{toctree}" in content[0] or "{pages}" in content[0]
    if not is_section or has_own or PurePosixPath(docname).name != "README":
        return
    names = "\n".join(children(docname, content[0], set(app.env.found_docs)))
    content[0] += f"\n\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def register(app: Sphinx) -> None:
    """Add the table when a README is read."""
    app.connect("source-read", _add_children)
