from __future__ import annotations

from koordctl.koordlet_documents import (
    CurrentDecisionRow,
    DecisionTerm,
    PastDecisionRow,
    WhyDocument,
)
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


def test_one_resource_with_its_arithmetic_and_its_past() -> None:
    shown = "\n".join(lines(FOUND, "batch-cpu", 10))
    assert "9000 offered" in shown
    assert "capacity − margin" in shown
    assert "16000  millicores" in shown
    assert "was 600" in shown
    assert "mid" not in shown


def test_all_of_a_node() -> None:
    shown = "\n".join(lines(FOUND, "node", 10))
    assert "9000 offered" in shown
    assert "nothing offered" in shown


def test_as_much_of_the_past_as_was_asked_for() -> None:
    assert "was 700" not in "\n".join(lines(FOUND, "batch-cpu", 2))
    assert "earlier" not in "\n".join(lines(FOUND, "batch-cpu", 0))


def test_what_is_not_reckoned_is_said_so() -> None:
    assert list(lines(FOUND, "batch-memory", 10)) == [
        "n1 offers no batch-memory, and the manager does not calculate any."
    ]
    unknown = WhyDocument(at=AT, decides=False, node="n2", reason="the manager knows no node n2")
    assert list(lines(unknown, "batch-cpu", 10)) == ["the manager knows no node n2"]
