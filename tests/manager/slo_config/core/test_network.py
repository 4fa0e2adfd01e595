"""Promises of network bandwidth, added up."""

from __future__ import annotations

from typing import Any

import pytest
from koord_manager.slo_config.core.network import over_promised

ALL = "ingressRequest of all classes"
MIXED = "networkQOS has requests in percent and in bits a second; expected one of the two"


def spec(**classes: Any) -> dict[str, Any]:
    return {
        "resourceQOSStrategy": {
            name: {"networkQOS": {"ingressRequest": asked}} for name, asked in classes.items()
        }
    }


@pytest.mark.parametrize(
    ("given", "total", "lines"),
    [
        ({}, 0, []),
        (spec(lsClass=60, beClass=40), 0, []),
        (spec(lsClass=60, beClass=41), 0, [f"{ALL} is 101 percent; expected up to 100"]),
        (spec(lsClass=60, beClass="1G"), 0, [MIXED]),
        (spec(lsClass=0, beClass="1G"), 10**9, []),
        (
            spec(lsrClass="1", lsClass="600M", beClass="400M"),
            10**9,
            [f"{ALL} is 1000000001 bits a second; the node has 1000000000"],
        ),
        (spec(lsClass="600M", beClass="500M"), 0, []),
        (spec(lsClass="fast", beClass="500M"), 10**9, []),
    ],
)
def test_promises_are_held_against_what_there_is(given: Any, total: int, lines: list[str]):
    assert list(over_promised(given, total)) == lines
