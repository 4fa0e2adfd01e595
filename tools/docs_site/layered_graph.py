"""The graph of packages as a picture: hosts of repositories draw Mermaid, here nothing is loaded.

It reads what ``tools/package_graph.py`` writes: layers of names, and arrows between them.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

_LAYER = re.compile(r"subgraph .*?\n(.*?)\n *end", re.DOTALL)
_ARROW = re.compile(r"(\w+) --> (\w+)")
_WIDTH, _ROW, _BOX, _HEIGHT = 860, 92, 128, 30
"""Of the picture, of a layer with the gap below it, and of a name's box."""


def picture(text: str) -> str:
    """Return the graph as SVG, a row for each layer and an arrow for each import."""
    layers = [layer.split() for layer in _LAYER.findall(text)]
    places = {
        name: (_WIDTH * (2 * number + 1) / (2 * len(layer)), row * _ROW + _HEIGHT)
        for row, layer in enumerate(layers)
        for number, name in enumerate(layer)
    }
    arrows = [_arrow(places[start], places[end]) for start, end in _ARROW.findall(text)]
    boxes = [_box(name, *place) for name, place in places.items()]
    height = len(layers) * _ROW
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="system-ui, sans-serif" font-size="13" text-anchor="middle">'
        f"{''.join(arrows)}{''.join(boxes)}</svg>"
    )


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    x, y, to_x, to_y = start[0], start[1] + _HEIGHT / 2, end[0], end[1] - _HEIGHT / 2
    bend = (to_y - y) / 2
    curve = f"M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {to_x:.0f} {to_y - bend:.0f} {to_x:.0f}"
    return (
        f'<path d="{curve} {to_y:.0f}" fill="none" stroke="var(--color-foreground-muted)"/>'
        f'<path d="M{to_x - 3:.0f} {to_y - 6:.0f}h6l-3 6z" fill="var(--color-foreground-muted)"/>'
    )


def _box(name: str, x: float, y: float) -> str:
    return (
        f'<rect x="{x - _BOX / 2:.0f}" y="{y - _HEIGHT / 2:.0f}" width="{_BOX}" '
        f'height="{_HEIGHT}" rx="5" fill="var(--color-background-secondary)" stroke="#4c78a8"/>'
        f'<text x="{x:.0f}" y="{y + 5:.0f}" fill="var(--color-foreground-primary)">{name}</text>'
    )


class DrawGraphs(SphinxTransform):
    """Replaces blocks in Mermaid's language."""

    default_priority = 5

    def apply(self, **_kwargs: Any) -> None:
        """Draw each, with its text for those who cannot see it."""
        for block in list(self.document.findall(nodes.literal_block)):
            if block.get("language") == "mermaid":
                text = block.astext()
                label = ", ".join(f"{start} imports {end}" for start, end in _ARROW.findall(text))
                markup = (
                    f'<div class="picture" role="img" aria-label="{label}">{picture(text)}</div>'
                )
                block.replace_self(nodes.raw("", markup, format="html"))


def register(app: Sphinx) -> None:
    """Add the transform."""
    app.add_transform(DrawGraphs)
