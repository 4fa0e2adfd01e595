"""The extension of Sphinx."""

from __future__ import annotations

from sphinx.application import Sphinx

from tools.docs_site import (
    chinese,
    file_links,
    folder_pages,
    layered_graph,
    page_list,
    pictures,
    reference_tables,
)

_PARTS = (
    chinese,
    file_links,
    folder_pages,
    layered_graph,
    page_list,
    pictures,
    reference_tables,
)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register all parts; Sphinx calls this."""
    for part in _PARTS:
        part.register(app)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
