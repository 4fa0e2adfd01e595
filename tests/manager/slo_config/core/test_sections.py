"""Sections of NodeSLOs: defaults that nodes would have anyway, and documents laid over others."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from koord_manager.slo_config.core import sections
from koord_manager.slo_config.core.sections import laid_over
from koord_model.node_slo_document import parse

DOCUMENTS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 3), max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


def test_what_is_shown_where_nothing_is_configured_is_what_nodes_take_for_it():
    spec = {
        "resourceUsedThresholdWithBE": sections.THRESHOLD,
        "cpuBurstStrategy": sections.BURST,
        "systemStrategy": sections.SYSTEM,
    }
    assert parse(spec) == parse({})


def test_objects_are_merged_and_all_else_is_replaced():
    below = {"a": {"x": 1, "y": [1, 2], "policy": "auto"}, "b": 1}
    above = {"a": {"y": [3], "x": None, "policy": ""}, "c": 2}
    assert laid_over(below, above) == {"a": {"x": 1, "y": [3], "policy": "auto"}, "b": 1, "c": 2}


@given(DOCUMENTS)
def test_no_null_is_left(above):
    found = laid_over({}, {"x": above, "y": [above]})
    assert "null" not in json.dumps(found)


@given(DOCUMENTS, DOCUMENTS)
def test_laying_over_again_changes_nothing_and_empty_changes_nothing(below, above):
    below = laid_over({}, below)
    once = laid_over(below, above)
    assert laid_over(once, above) == once
    assert laid_over(below, {}) == below
