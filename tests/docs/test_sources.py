"""docs/sources.md shows the table by which the code decides."""

from __future__ import annotations

from koord_model.sources import PROPERTIES, Source

from tests.docs.words import marked, page, rows

TABLE = rows(marked(page("sources.md"), "sources"))


def test_the_table_is_that_of_the_code() -> None:
    assert [
        [row.name, ", ".join(row.believed), row.until, row.absence] for row in PROPERTIES
    ] == TABLE


def test_each_source_is_believed_about_something() -> None:
    assert {source for row in PROPERTIES for source in row.believed} == set(Source)
