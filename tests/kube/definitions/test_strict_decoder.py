from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from koord_kube.definitions.node_metric import STATUS
from koord_kube.definitions.strict_decoder import StrictDecoder

from tests.support.kube_api.definitions import Validated
from tests.support.mutilation import mutilated
from tests.support.node_metric_statuses import ODD, WHOLE, strictly

DECODER = StrictDecoder(STATUS)
VALID = Validated(STATUS)


def as_sent(value: Any) -> bytes:
    return json.dumps(value, indent=1).replace("Infinity", "1e999").encode()


def test_what_fits_comes_out_as_it_was_and_what_is_not_known_does_not() -> None:
    assert VALID.wrong(WHOLE) == []
    assert strictly(DECODER.normalized(as_sent(WHOLE))) == WHOLE
    assert strictly(DECODER.normalized(as_sent(WHOLE | {"x": {"y": [1]}}))) == WHOLE


@given(st.integers(), st.lists(st.sampled_from(ODD), min_size=1, max_size=3))
@example(0, [float("inf")])
def test_whatever_comes_out_is_valid_and_the_rest_is_refused_in_a_line(
    seed: int, parts: list[Any]
) -> None:
    try:
        taken = DECODER.normalized(as_sent(mutilated(WHOLE, random.Random(seed), parts)))
    except ValueError as error:
        taken = str(error).encode()
        assert taken
    else:
        found = strictly(taken)
        assert VALID.wrong(found) == []
        assert VALID.complete(found) == []  # no field that is not known
        assert DECODER.normalized(taken) == taken
    assert b"\n" not in taken


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_refused_in_a_line(sent: bytes) -> None:
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z"):
        DECODER.normalized(b"\0" + sent)


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        ('{"updateTime":5}', "updateTime is 5: Expected `datetime`, got `int`"),
        ('{"podsMetric":[{"name":"a"},{"name":["b\\n"]}]}',
         r'podsMetric[1].name is ["b\n"]: Expected `str`, got `array`'),
        ('{"podsMetric":[{"extensions":{"a":1e999}}]}',
         "podsMetric[0].extensions[...]: Number out of range"),
        ('{"podsMetric":[{"podUsage":{"resources":{"cpu":"1e999"}}}]}',
         ('podsMetric[0].podUsage.resources is {"cpu":"1e999"}: '
          "Expected a quantity like 500m, 2 or 1Gi")),
        ('{"nodeMetric":{"numaUsages":[{"numaNodeID":2147483648}]}}',
         "nodeMetric.numaUsages[0].numaNodeID is 2147483648: Expected `int` <= 2147483647"),
        ('{"x":1e999}', "[...]: Number out of range"),
        ("[]", "the whole is []: Expected `object`, got `array`"),
        ("{", '"{": Input data was truncated'),
    ],
)  # fmt: skip
def test_a_refusal_names_the_field_and_its_value(sent: str, line: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the text is compared
        DECODER.normalized(sent.encode())
    assert str(caught.value) == line
