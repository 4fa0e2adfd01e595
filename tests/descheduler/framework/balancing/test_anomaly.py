"""A load is an anomaly once it was high in enough rounds in a row, and until it was not."""

from __future__ import annotations

import pytest
from koord_descheduler.framework.balancing.anomaly import AnomalyDetectors
from koord_descheduler.framework.balancing.pool_settings import AnomalyCondition


def anomalies(loads: str, *, step: float = 10.0, forgets: float = 300.0, **changed: float) -> str:
    """Of rounds: + the load is high, - it is not, . there is no report, 0 it is low."""
    condition = AnomalyCondition(60.0, 2, 1)._replace(**changed)
    detectors = AnomalyDetectors(condition, forgets)
    found = ""
    for number, load in enumerate(loads):
        if load == "0":
            detectors.reset("a")
        high, others = {"+": (["a"], []), "-": ([], ["a"])}.get(load, ([], []))
        found += "!" if detectors.mark(high, others, number * step) else "."
    return found


@pytest.mark.parametrize(
    ("loads", "found"),
    [
        ("++++", "..!!"),
        ("++-+++", ".....!"),
        ("++.+", "...!"),
        ("+++-+", "..!.!"),
        ("+++--+", "..!..."),
        ("+++0+++", "..!...!"),
    ],
)
def test_rounds_in_a_row_count(loads: str, found: str) -> None:
    assert anomalies(loads) == found


def test_an_anomaly_ends_with_its_timeout() -> None:
    assert anomalies("+" * 12, timeout=25.0) == "..!!!..!!!.."


def test_one_high_load_suffices_where_one_is_set() -> None:
    assert anomalies("+-+", abnormalities=1) == "!.!"


def test_detectors_are_forgotten_after_a_while_but_not_between_two_rounds() -> None:
    assert anomalies("++.+", forgets=5.0) == "...."
    assert anomalies("+++", step=1000.0, forgets=5.0) == "..!"
