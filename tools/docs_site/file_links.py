"""Links to what is no page: files of the source tree, and folders.

A folder with a README means that page. Everything else is checked, and goes to the repository on
the web (``docs_repository``); without one, the text is followed by the path if it is another.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

_LOG = logging.getLogger(__name__)


class FileLinks(SphinxTransform):
    """Resolves links that name files, before Sphinx would offer the files for download."""

    default_priority = 5

    def apply(self, **_kwargs: Any) -> None:
        """Replace the nodes of such links."""
        for file in list(self.document.findall(addnodes.download_reference)):
            self._to_repository(file)
        for link in list(self.document.findall(addnodes.pending_xref)):
            if link["reftype"] == "myst" and link["refdomain"] is None:
                self._to_folder(link)

    def _to_folder(self, link: addnodes.pending_xref) -> None:
        path, _, anchor = link["reftarget"].partition("#")
        _, found = self.env.relfn2path(path, self.env.docname)
        if not path or not Path(found).is_dir():
            return  # Sphinx says that there is no such heading or file
        docname = self.env.path2doc(str(Path(found) / "README.md"))
        if docname in self.env.found_docs:
            link.update_all_atts({"refdomain": "doc", "reftarget": docname}, replace=True)
            link["reftargetid"] = anchor or None
        else:
            self._to_repository(link)

    def _to_repository(self, link: nodes.Element) -> None:
        relative, found = self.env.relfn2path(link["reftarget"], self.env.docname)
        if not Path(found).exists():
            _LOG.warning("%s is not there", link["reftarget"], location=link, type="file_links")
        path, repository = os.path.normpath(relative), self.config.docs_repository.rstrip("/")
        text = link.astext()
        is_path = text in path or Path(path).name in text
        shown = (nodes.literal if is_path else nodes.inline)(text, text)
        if repository:
            link.replace_self(nodes.reference("", "", shown, refuri=f"{repository}/{path}"))
        elif is_path:
            link.replace_self(shown)
        else:
            link.replace_self([shown, nodes.Text(" ("), nodes.literal(path, path), nodes.Text(")")])


def register(app: Sphinx) -> None:
    """Add the transform and its setting."""
    app.add_config_value("docs_repository", "", "env", str)
    app.add_transform(FileLinks)
