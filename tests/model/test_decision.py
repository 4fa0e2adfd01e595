from __future__ import annotations

import json

import numpy as np
import pytest
from koord_model.decision import Decision, Term, plain


def test_a_decision_as_json_has_it() -> None:
    one = Decision(
        "hold", "a - b", (Term("a", 2.5, "cores"), Term("b", None, "bytes")), "ns/p", "/g", "x"
    )
    assert one.document() == {
        "aspect": "x",
        "pod": "ns/p",
        "group": "/g",
        "outcome": "hold",
        "formula": "a - b",
        "given": [
            {"name": "a", "value": 2.5, "unit": "cores", "shown": "2.5 cores"},
            {"name": "b", "value": None, "unit": "bytes", "shown": "unknown"},
        ],
    }
    assert str(one) == "hold (a - b with a 2.5 cores, b unknown)"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (np.int64(3), 3),
        (np.float64(0.5), 0.5),
        (np.str_("a"), "a"),
        (float("inf"), "inf"),
        (None, None),
    ],
)
def test_plain_values_are_jsons_own(value: object, expected: object) -> None:
    found = plain(value)  # type: ignore[arg-type]
    assert found == expected
    assert json.loads(json.dumps(found)) == expected
