"""Lists of pages: too many for the navigation, each with its title.

``{pages}`` takes patterns of paths, relative to the page. What it lists needs no other place.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

_LISTED = "pykoord_listed_pages"
_NAVIGATION = "pykoord_navigation"


class PageList(SphinxDirective):
    """Lists the pages that match, by path."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return links by the pages' titles."""
        patterns = [self.env.relfn2path(line)[0] for line in self.content if line.strip()]
        found = [
            name
            for pattern in patterns
            for name in sorted(self.env.found_docs)
            if name not in (self.env.docname, self.config.root_doc) and _matches(name, pattern)
        ]
        if not found:
            raise self.error(f"no page matches {', '.join(patterns)}")
        listed(self.env).setdefault(self.env.docname, set()).update(found)
        self.env.note_reread()
        entries = nodes.bullet_list()
        entries += [
            nodes.list_item("", nodes.paragraph("", "", self._link(name))) for name in found
        ]
        return [entries]

    def _link(self, name: str) -> nodes.Node:
        options = {"refdomain": "std", "reftype": "doc", "refdoc": self.env.docname}
        text = nodes.inline(name, name)
        return addnodes.pending_xref(
            "", text, reftarget=f"/{name}", refexplicit=False, refwarn=True, **options
        )


def _matches(name: str, pattern: str) -> bool:
    """True if each part of a path matches: no ``*`` reaches into a folder."""
    parts, wanted = name.split("/"), pattern.split("/")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def listed(env: BuildEnvironment) -> dict[str, set[str]]:
    """Return the pages that each page lists."""
    found: dict[str, set[str]] = env.__dict__.setdefault(_LISTED, {})
    return found


def _merge(_app: Sphinx, env: BuildEnvironment, docs: set[str], other: BuildEnvironment) -> None:
    listed(env).update({name: names for name, names in listed(other).items() if name in docs})


def _purge(_app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    listed(env).pop(docname, None)


def _mark(_app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Tell Sphinx that these are in no table of contents on purpose."""
    for name in set().union(*listed(env).values()):
        env.metadata[name]["orphan"] = True
    return []


def _share_navigation(
    app: Sphinx, name: str, _template: str, context: dict[str, Any], _tree: object
) -> None:
    """Make the navigation once for all pages of a folder that are not in it: they are most."""
    if not (context.get("meta") or {}).get("orphan"):
        return
    made, toctree = app.__dict__.setdefault(_NAVIGATION, {}), context["toctree"]

    def shared(**options: Any) -> str:
        key = name.rpartition("/")[0], *sorted(options.items())
        if key not in made:
            made[key] = toctree(**options)
        return str(made[key])

    context["toctree"] = shared


def register(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("pages", PageList)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("env-updated", _mark)
    app.connect("html-page-context", _share_navigation, priority=400)  # before the theme's
