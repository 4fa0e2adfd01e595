import pytest
from koord_model.sources import PROPERTIES, Belief, Property, Source, believe

ROW = Property("a row", (Source.HOOKS, Source.LIST), "then", "nothing")


@pytest.mark.parametrize(
    ("statements", "believed"),
    [
        ({}, None),
        ({Source.API: 1}, None),
        ({Source.LIST: 1}, Belief(1, Source.LIST)),
        ({Source.LIST: 1, Source.HOOKS: 2}, Belief(2, Source.HOOKS)),
        # An empty value is a statement.
        ({Source.LIST: 1, Source.HOOKS: 0}, Belief(0, Source.HOOKS)),
    ],
)
def test_the_first_that_makes_a_statement_is_believed(
    statements: dict[Source, int], believed: Belief[int] | None
) -> None:
    assert believe(ROW, statements) == believed


def test_each_property_has_one_row() -> None:
    assert len({row.name for row in PROPERTIES}) == len(PROPERTIES)
