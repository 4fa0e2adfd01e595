import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.noderesource.core.resource_amplification import amplification
from koord_manager.slo_config.core.colocation import ResourceAmplification
from koord_model.keys import ANNOTATION_AMPLIFICATION_RATIO


def said(normalization: float, **ratios: float) -> str | None:
    desired = amplification(
        ResourceAmplification(enable=True, ratios=tuple(ratios.items())), normalization
    )
    assert desired.decisions
    assert desired.annotations.keys() == {ANNOTATION_AMPLIFICATION_RATIO}
    return desired.annotations[ANNOTATION_AMPLIFICATION_RATIO]


@pytest.mark.parametrize(
    ("normalization", "ratios", "expected"),
    [
        (1.0, {}, None),
        (1.2, {}, '{"cpu":1.20}'),
        (1.0, {"cpu": 1.5}, '{"cpu":1.50}'),
        (1.2, {"cpu": 1.5}, '{"cpu":1.80}'),
        (1.0, {"cpu": 1.0}, '{"cpu":1.00}'),
        (1.2, {"memory": 1.25}, '{"cpu":1.20,"memory":1.25}'),
        (2.0, {"memory": 0.5, "cpu": 0.6}, '{"cpu":1.20}'),
        (1.0, {"cpu": 0.6}, None),
    ],
)
def test_ratios(normalization: float, ratios: dict[str, float], expected: str | None) -> None:
    assert said(normalization, **ratios) == expected


def test_switched_off_only_the_normalization_is_left() -> None:
    off = ResourceAmplification(enable=False, ratios=(("cpu", 3.0), ("memory", 2.0)))
    assert amplification(off, 1.0).annotations == {ANNOTATION_AMPLIFICATION_RATIO: None}
    assert amplification(off, 1.5).annotations == {ANNOTATION_AMPLIFICATION_RATIO: '{"cpu":1.50}'}


@given(
    st.dictionaries(st.text(max_size=5), st.floats(0, 100), max_size=4),
    st.floats(1, 5),
    st.booleans(),
)
def test_every_ratio_is_one_or_more(
    ratios: dict[str, float], normalization: float, enable: bool
) -> None:
    desired = amplification(ResourceAmplification(enable, tuple(ratios.items())), normalization)
    text = desired.annotations[ANNOTATION_AMPLIFICATION_RATIO]
    found = json.loads(text) if text is not None else {}
    assert all(one >= 1 for one in found.values())
    assert text is None or found
    assert found.keys() <= ratios.keys() | {"cpu"}
