import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_prediction.checkpoint import Checkpoint, LearntHistogram, decode, encode
from koord_prediction.histogram import CPU, EPSILON, MEMORY

KOORDINATOR = (
    b'{"UID":"__node-koord-prod__",'
    b'"CPU":{"referenceTimestamp":"2026-07-24T00:00:00Z",'
    b'"bucketWeights":{"30":10000,"31":2500},"totalWeight":25},'
    b'"Memory":{"referenceTimestamp":"2026-07-24T08:00:00.5+08:00",'
    b'"bucketWeights":{"100":10000},"totalWeight":3.5},'
    b'"LastUpdated":"2026-07-24T06:13:20Z"}\n'
)
"""As Koordinator's koordlet writes it."""

AT = 1_784_851_200.0
"""2026-07-24T00:00:00Z."""


def read(content: bytes) -> Checkpoint:
    return decode(content, CPU.count, MEMORY.count)


def test_koordinators_file_is_understood() -> None:
    found = read(KOORDINATOR)
    assert found.uid == "__node-koord-prod__"
    assert found.updated == AT + 22400
    assert found.cpu.reference == AT
    assert found.memory.reference == AT + 0.5
    assert dict(zip(*_filled(found.cpu), strict=True)) == {30: 20.0, 31: 5.0}
    assert dict(zip(*_filled(found.memory), strict=True)) == {100: 3.5}


def test_the_same_is_written() -> None:
    written = json.loads(encode(read(KOORDINATOR)))
    expected = json.loads(KOORDINATOR)
    expected["Memory"]["referenceTimestamp"] = "2026-07-24T00:00:00.500000Z"
    assert written == expected


@pytest.mark.parametrize("given", [b'{"UID":"a"}', b'{"CPU":null,"Memory":{},"LastUpdated":null}'])
def test_what_lacks_is_empty(given: bytes) -> None:
    found = read(given)
    assert not found.cpu.weights.any()
    assert not found.memory.weights.any()
    assert found.updated == 0


NOTHING = LearntHistogram(0.0, np.zeros(MEMORY.count))


def test_weights_are_rounded_and_an_untrained_histogram_is_written_as_by_go() -> None:
    weights = np.zeros(CPU.count)
    weights[[3, 4, 5]] = 3, 2, 0.0001
    content = encode(Checkpoint("a", LearntHistogram(AT, weights), NOTHING, AT))
    assert json.loads(content)["CPU"]["bucketWeights"] == {"3": 10000, "4": 6667}
    empty = LearntHistogram(-62135596800.0, np.zeros(CPU.count))
    content = encode(Checkpoint("a", empty, NOTHING, 0.0))
    assert json.loads(content)["CPU"]["referenceTimestamp"] == "0001-01-01T00:00:00Z"
    assert read(content).cpu.reference == -62135596800.0


@given(
    st.dictionaries(st.integers(0, CPU.count - 1), st.floats(0, 2.0**100), max_size=20),
    st.floats(0, 4e9),
)
def test_what_is_written_is_read(filled: dict[int, float], reference: float) -> None:
    weights = np.zeros(CPU.count)
    weights[list(filled)] = list(filled.values())
    cpu = LearntHistogram(reference, weights)
    found = read(encode(Checkpoint("a", cpu, NOTHING, 5.0))).cpu
    assert found.reference == pytest.approx(reference, abs=1e-6)
    heaviest = weights.max()
    if heaviest < EPSILON:
        assert not found.weights.any()
    else:
        assert found.weights.sum() == pytest.approx(weights.sum())
        # What rounding takes from some goes to all alike.
        assert np.abs(found.weights - weights).max() <= (1 + len(filled)) * heaviest / 10000


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no checkpoint: Input data was truncated"),
        (b"\0" * 300, "no checkpoint: JSON is malformed: invalid character (byte 0)"),
        (KOORDINATOR[:100], "no checkpoint: Input data was truncated"),
        (b"[]", "no checkpoint: Expected `object`, got `array`"),
        (b"[" * 100_000, "no checkpoint: "),
        (b'{"UID":"\xff"}', "no checkpoint: "),
        (b'{"CPU":{"bucketWeights":{"x":1}}}', "no checkpoint: Expected `int`"),
        (b'{"CPU":{"bucketWeights":{"1":-1}}}', "no checkpoint: Expected `int` >= 0"),
        (b'{"CPU":{"bucketWeights":{"158":1}}}', "CPU has bucket 158; expected 0 to 157"),
        (b'{"Memory":{"bucketWeights":{"-1":1}}}', "Memory has bucket -1; expected 0 to 204"),
        (b'{"CPU":{"totalWeight":-1}}', "no checkpoint: Expected `float` >= 0.0"),
        (b'{"CPU":{"totalWeight":1e999}}', "no checkpoint: Number out of range"),
        (b'{"LastUpdated":"yesterday"}', "no checkpoint: Invalid RFC3339 encoded datetime"),
    ],
)
def test_an_invalid_checkpoint_is_refused(content: bytes, why: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 — the message is looked at below
        read(content)
    assert str(caught.value).startswith(why)
    assert "\n" not in str(caught.value)


def _filled(learnt: LearntHistogram) -> tuple[list[int], list[float]]:
    places = np.flatnonzero(learnt.weights)
    return places.tolist(), learnt.weights[places].tolist()
