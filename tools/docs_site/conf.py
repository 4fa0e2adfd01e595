"""Settings of Sphinx for the documentation site."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from koord_model.version import VERSION  # noqa: E402 - after its path

REPOSITORY = os.environ.get("DOCS_REPOSITORY", "")
"""The address at which files are shown on the web, such as ``https://git.example/pykoord/blob/main``.

Links to files that are not pages go there; without it their text names the path.
"""

project = "pykoord"
copyright = "the authors of pykoord"  # noqa: A001 - Sphinx' name
version = release = VERSION
root_doc = "docs/README"
extensions = ["myst_parser", "sphinx_copybutton", "tools.docs_site.extension"]
include_patterns = ["**.md"]
exclude_patterns = [
    *("changelog.d", ".*", "**/.*", "build", "dist"),
    *("**/*.egg-info", "**/__pycache__"),
]

nitpicky = True
highlight_language = "text"
myst_enable_extensions = ["tasklist"]
myst_heading_anchors = 6
copybutton_exclude = ".linenos, .gp, .go, .c, .c1"

html_theme = "furo"
html_title = f"pykoord {VERSION}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "front.html"}
templates_path = ["templates"]
html_copy_source = False
html_show_sourcelink = False
html_last_updated_fmt = None
html_search_language = "english-chinese"
docs_repository = REPOSITORY
