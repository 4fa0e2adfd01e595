"""SVG pictures become part of the page, so that they take its colors, light or dark.

A picture names its colors as ``var(--color-…, #fallback)``: hosts that show it as an image use the
fallbacks.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class InlinePictures(SphinxTransform):
    """Replaces images of SVG by their content."""

    default_priority = 5

    def apply(self, **_kwargs: Any) -> None:
        """Replace them, with their description for those who cannot see them."""
        for image in list(self.document.findall(nodes.image)):
            if image["uri"].endswith(".svg"):
                relative, found = self.env.relfn2path(image["uri"], self.env.docname)
                self.env.note_dependency(relative)
                picture = Path(found).read_text()
                label = escape(image.get("alt", ""), quote=True)
                markup = f'<div class="picture" role="img" aria-label="{label}">{picture}</div>'
                image.replace_self(nodes.raw("", markup, format="html"))


def register(app: Sphinx) -> None:
    """Add the transform."""
    app.add_transform(InlinePictures)
