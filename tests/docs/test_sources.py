"""docs/sources.md shows the table by which the code decides."""

from __future__ import annotations

from koord_model.sources import FACTS, Source

from tests.docs.words import marked, page, rows

TABLE = rows(marked(page("sources.md"), "sources"))


def test_the_table_is_that_of_the_code() -> None:
    assert [
        [fact.name, ", ".join(fact.believed), fact.until, fact.absence] for fact in FACTS
    ] == TABLE


def test_each_source_is_believed_about_something() -> None:
    assert {source for fact in FACTS for source in fact.believed} == set(Source)
