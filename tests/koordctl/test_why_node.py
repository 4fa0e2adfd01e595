from __future__ import annotations

import pytest
from koordctl.koordlet_documents import (
    CurrentDecisionRow,
    DecisionTerm,
    PastDecisionRow,
    WhyDocument,
)
from koordctl.output.tables import plain
from koordctl.why_node import lines

AT = 1_795_168_800.0


def standing(aspect: str, outcome: str) -> CurrentDecisionRow:
    given = [
        DecisionTerm(name="capacity", value=16000, unit="millicores", shown="16000 millicores")
    ]
    return CurrentDecisionRow(
        strategy="BatchResource",
        outcome=outcome,
        mode="on",
        aspect=aspect,
        formula="capacity − margin",
        given=given,
        since=AT - 60,
        said_at=AT,
    )


FOUND = WhyDocument(
    at=AT,
    decides=True,
    node="n1",
    decisions=[standing("batch-cpu", "9000 offered"), standing("mid-cpu", "nothing offered")],
    history=[
        PastDecisionRow(
            strategy="BatchResource", outcome=f"was {n}", aspect="batch-cpu", mode="on", at=AT - n
        )
        for n in (60, 600, 700)
    ],
)


@pytest.mark.parametrize(
    ("resource", "history", "shown", "hidden"),
    [
        (
            *("batch-cpu", 10),
            ("9000 offered", "capacity − margin", "16000  millicores", "was 600", "was 700"),
            ("mid",),
        ),
        ("node", 10, ("9000 offered", "nothing offered"), ()),
        ("batch-cpu", 2, ("9000 offered", "was 600"), ("was 700",)),
        ("batch-cpu", 0, ("9000 offered",), ("earlier",)),
    ],
)
def test_a_node(
    resource: str, history: int, shown: tuple[str, ...], hidden: tuple[str, ...]
) -> None:
    text = "\n".join(plain(lines(FOUND, resource, history)))
    assert [words for words in (*shown, *hidden) if words in text] == [*shown]


def test_what_is_not_calculated() -> None:
    assert plain(lines(FOUND, "batch-memory", 10)) == [
        "n1 offers no batch-memory, and the manager does not calculate any."
    ]
    unknown = WhyDocument(at=AT, decides=False, node="n2", reason="the manager knows no node n2")
    assert plain(lines(unknown, "batch-cpu", 10)) == ["the manager knows no node n2"]
