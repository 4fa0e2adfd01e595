"""The documentation site, as far as it can be tried in a moment: on a small folder of pages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from koord_kube.definitions.catalogue import DEFINITIONS

from tests.docs.words import all_rows, code
from tools import package_graph
from tools.docs_site.reference import TABLES
from tools.docs_site.reference.gates import GATES

sphinx = pytest.importorskip("sphinx.application", reason="needs the extra docs")
pytest.importorskip("myst_parser")

from tools.docs_site.chinese import no_space, pairs  # noqa: E402
from tools.docs_site.folder_pages import children  # noqa: E402
from tools.docs_site.layered_graph import picture  # noqa: E402

# Of MyST, which uses what Sphinx will remove.
pytestmark = pytest.mark.filterwarnings("ignore:.*is deprecated. Check CHANGES for Sphinx")
PAGES = {
    "README.md": "# Top\n\n[file](tool.py), [folder](part/), [none](absent.py), [code](tools)\n"
    "\n```{pages}\nadr/*\n```\n",
    "part/README.md": "# Part\n\n```{reference} gates\n```\n\n![a picture](small.svg)\n",
    "part/small.svg": '<svg xmlns="http://www.w3.org/2000/svg"><rect/></svg>',
    "adr/one.md": "# First decision\n",
    "tool.py": "",
    "tools/x.txt": "",
    "zh.md": "# 标题\n\n前一行，\n后一行 `kubectl`\n命令行\n换行\n",
}


def built(folder: Path, repository: str = "") -> tuple[dict[str, str], str]:
    """The pages of a site of these, and what was warned of."""
    for name, text in PAGES.items():
        path = folder / "pages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    warnings = folder / "warnings"
    settings = {
        "extensions": ["myst_parser", "tools.docs_site.extension"],
        "root_doc": "README",
        "html_theme": "basic",
        "docs_repository": repository,
        "html_search_language": "english-chinese",
    }
    with warnings.open("w") as stream:
        app = sphinx.Sphinx(
            folder / "pages", None, folder / "site", folder / "trees", "html", settings,
            status=None, warning=stream, freshenv=True,
        )  # fmt: skip
        app.build()
    site = folder / "site"
    return {
        str(path.relative_to(site)): path.read_text() for path in site.rglob("*.html")
    }, warnings.read_text()


def test_a_small_site(tmp_path: Path) -> None:
    pages, warnings = built(tmp_path)
    top = pages["README.html"]
    assert 'href="part/README.html"' in top, "a folder is its README"
    assert "file</span> (<code" in top, "no link without a repository, but the path"
    assert ">tool.py<" in top
    assert 'href="adr/one.html"' in top
    assert "First decision" in top
    assert "BECPUSuppress" in pages["part/README.html"]
    assert "<svg" in pages["part/README.html"]
    assert 'aria-label="a picture"' in pages["part/README.html"]
    assert "前一行，后一行" in pages["zh.html"]
    assert "命令行换行" in pages["zh.html"]
    assert "absent.py" in warnings
    assert "zh.md: WARNING: document isn't included" in warnings
    assert "adr/one.md" not in warnings, "what is listed is in its place"


def test_files_are_linked_where_the_repository_is_shown(tmp_path: Path) -> None:
    pages, _ = built(tmp_path, "https://git.example/blob/main/")
    assert 'href="https://git.example/blob/main/tool.py"' in pages["README.html"]
    assert 'href="https://git.example/blob/main/tools"' in pages["README.html"]


def test_pages_of_a_folder_follow_its_readme() -> None:
    pages = {"docs/a/README", "docs/a/last", "docs/a/first", "docs/a/other", "docs/b/x"}
    text = "[first](first.md#part) [last](last.md) [x](../b/x.md)"
    assert children("docs/a/README", text, pages) == ["first", "last", "other"]


def test_the_graph_of_packages_is_drawn() -> None:
    names = {name for layer in package_graph.graph().splitlines() for name in layer.split()}
    drawn = picture(package_graph.graph())
    packages = {name for name in names if name.startswith("koord")}
    assert set(re.findall(r">(\w+)</text>", drawn)) == packages
    assert drawn.count("h6l-3 6z") == package_graph.graph().count("-->")


def test_words_of_the_search() -> None:
    assert pairs("批处理") == ["批处", "处理"]
    assert pairs("批处") == ["批处"]
    assert pairs("eviction") == ["eviction"]


@pytest.mark.parametrize(
    ("before", "after", "joined"),
    [("行", "换", True), ("，", "k", True), ("行", "k", False), ("a", "b", False)],
)
def test_lines_in_chinese_are_joined(before: str, after: str, joined: bool) -> None:
    assert no_space(before, after) is joined


def test_the_reference_has_all_definitions_and_gates() -> None:
    kinds = {definition["spec"]["names"]["kind"] for definition in DEFINITIONS}
    headings = TABLES["custom-resources"]().split("\n## ")
    assert {part.removeprefix("## ").partition("\n")[0] for part in headings} == kinds
    fields = {code(row[0])[0]: row for row in all_rows(TABLES["custom-resources"]())}
    assert fields["spec.owners[].controller.kind"][1] == "string"
    assert "`In`" in fields["spec.selector.matchExpressions[].operator"][1]
    named = sorted(code(row[0])[0] for row in all_rows(TABLES["gates"]()))
    assert named == sorted(name for gates in GATES.values() for name in gates)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_rows_of_a_table_are_of_one_width(name: str) -> None:
    text = TABLES[name]().replace("\\|", "")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert tables
    for table in tables:
        assert len({line.count("|") for line in table.splitlines()}) == 1
