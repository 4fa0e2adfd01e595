"""A directive for the tables of the reference.

A page says ``{reference} NAME`` where one of them belongs.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from tools.docs_site.reference import TABLES


class ReferenceTable(SphinxDirective):
    """Puts one of the tables into the page."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse the table's Markdown as a part of the page."""
        [name] = self.arguments
        if name not in TABLES:
            raise self.error(f"no reference {name}; there are {', '.join(TABLES)}")
        # Made of the programs: they are read anew in each build.
        self.env.note_reread()
        return self.parse_text_to_nodes(TABLES[name](), allow_section_headings=True)


def register(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("reference", ReferenceTable)
