from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from koord_simulation.scenario import fields


@pytest.mark.parametrize(
    ("read", "given", "value"),
    [
        (fields.text, "a", "a"),
        (fields.text, 3, "3"),
        (fields.texts, {"a": 1}, {"a": "1"}),
        (fields.texts, None, {}),
        (fields.flag, True, True),
        (fields.number, 3, 3.0),
        (fields.count, 3, 3),
        (fields.size, "2Gi", 2 << 30),
        (fields.size, 5, 5),
        (fields.seconds, "1h30m", 5400.0),
        (fields.seconds, 90, 90.0),
        (fields.seconds, "90", 90.0),
        (fields.amounts, {"cpu": "500m", "memory": "1Ki"}, {"cpu": 500, "memory": 1024}),
        (fields.amounts, {"cpu": 2}, {"cpu": 2000}),
        (fields.amounts, {"batch-cpu": 2000}, {"kubernetes.io/batch-cpu": 2000}),
    ],
)
def test_values(read: Callable[[object], object], given: object, value: object) -> None:
    assert read(given) == value


@pytest.mark.parametrize(
    ("read", "given", "says"),
    [
        (fields.text, True, "expected text"),
        (fields.flag, "yes", "expected true or false"),
        (fields.number, "3", "expected a number"),
        (fields.number, True, "expected a number"),
        (fields.count, 3.5, "expected a whole number"),
        (fields.size, [1], "expected bytes"),
        (fields.size, "4Q", "not a valid quantity"),
        (fields.seconds, True, "expected a duration"),
        (fields.seconds, "soon", "not a valid duration"),
        (fields.amounts, {"cpu": True}, "expected a quantity"),
        (fields.amounts, [1], "expected names with values"),
        (fields.cores, {"cosine": 1}, "is not a curve; there are constant, sine"),
        (fields.cores, {"sine": {"mean": 1}}, "sine wants mean, swing"),
        (fields.cores, {"sine": {"middle": 1}}, "is not a field"),
        (fields.cores, {"sine": {"mean": "x"}}, "sine: mean"),
        (fields.cores, "many", "expected a number"),
    ],
)
def test_what_cannot_be_read_is_named(
    read: Callable[[object], object], given: object, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        read(given)


@pytest.mark.parametrize(
    ("given", "values"),
    [
        (2, [2, 2, 2]),
        ([1, {"ramp": {"low": 0, "high": 2, "start": 0, "end": "2s"}}], [1, 2, 3]),
        ({"constant": 1, "spikes": {"height": 3, "every": 2, "lasts": 1}}, [4, 1, 4]),
        ({"noise": {"size": 0}}, [0, 0, 0]),
    ],
)
def test_curves(given: object, values: list[float]) -> None:
    curve = fields.cores(given)
    found = curve.values(np.arange(3.0), np.random.RandomState(0))
    assert found.tolist() == values


def test_memory_curves_are_in_bytes() -> None:
    found = fields.memory([{"constant": "1Ki"}, 1]).values(np.zeros(1), np.random.RandomState(0))
    assert found.tolist() == [1025]


def test_lists_and_objects() -> None:
    assert fields.listed(None) == ()
    with pytest.raises(ValueError, match='"x"; expected a list'):
        fields.listed("x")
    with pytest.raises(ValueError, match='"colour" is not a field; there are name'):
        fields.read({"colour": 1}, {"name": fields.text})
