import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.slo_config.core import config
from koord_manager.slo_config.webhook.node_strategies import validate_node
from koord_manager.webhooks.cluster_view import ClusterView
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)


def chosen(*names: str) -> list[dict[str, Any]]:
    return [{"name": one, "nodeSelector": {"matchLabels": {one: "yes"}}} for one in names]


VIEW = ClusterView(
    config={
        config.COLOCATION: json.dumps({"nodeConfigs": chosen("a", "b")}),
        config.RESOURCE_QOS: json.dumps({"nodeStrategies": chosen("b", "c")}),
        config.CPU_BURST: "{",
    }
)


def asked(
    new: Any,
    old: Any,
    operation: AdmissionOperation = AdmissionOperation.UPDATE,
    view: ClusterView = VIEW,
) -> AdmissionResponse:
    question = AdmissionRequest("u", operation, "nodes", name="n1", object=new, old=old)
    return validate_node(question, view)


def labelled(*names: str) -> dict[str, Any]:
    return {"metadata": {"name": "n1", "labels": dict.fromkeys(names, "yes")}}


@pytest.mark.parametrize("names", [(), ("a",), ("b",), ("c",), ("other", "c"), ("a", "c")])
def test_one_entry_of_each_key_may_match(names: tuple[str, ...]) -> None:
    assert asked(labelled(*names), labelled("x")) == ADMITTED


def test_two_entries_of_one_key_are_refused_by_name() -> None:
    verdict = asked(labelled("a", "b"), labelled("a"))
    assert verdict.refusal == (
        'node n1: labels match colocation-config nodeConfigs[0] "a" and'
        ' colocation-config nodeConfigs[1] "b"; expected one of them at most'
    )
    assert "resource-qos-config" in asked(labelled("b", "c"), labelled()).refusal


def test_a_node_that_two_match_already_may_change_in_other_ways() -> None:
    both = labelled("a", "b")
    assert asked(both, both) == ADMITTED
    assert asked(labelled("a", "b", "other"), both) == ADMITTED
    assert asked(labelled("a", "b", "c"), both).refusal


def test_a_new_node_is_only_warned_of() -> None:
    verdict = asked(labelled("a", "b"), {}, AdmissionOperation.CREATE)
    assert not verdict.refusal
    assert "colocation-config" in verdict.warnings[0]
    assert asked(labelled("a"), {}, AdmissionOperation.CREATE) == ADMITTED


def test_without_a_configuration_nothing_matches() -> None:
    assert asked(labelled("a", "b"), labelled(), view=ClusterView()) == ADMITTED


JSON = st.recursive(
    st.none() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
NODES = st.dictionaries(
    st.just("metadata"), JSON | st.dictionaries(st.just("labels"), JSON, max_size=1), max_size=1
)


@given(NODES, NODES, st.sampled_from(AdmissionOperation))
def test_labels_that_are_none_match_nothing(
    new: Any, old: Any, operation: AdmissionOperation
) -> None:
    assert asked(new, old, operation) == ADMITTED
