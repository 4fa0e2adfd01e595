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


CREATE = AdmissionOperation.CREATE


@pytest.mark.parametrize(
    ("new", "old", "refusal"),
    [
        *((names, "x", "") for names in ("", "a", "b", "c", "oc", "ac")),
        ("ab", "a", 'node n1: labels match colocation-config nodeConfigs[0] "a" and coloc'),
        ("bc", "", 'node n1: labels match resource-qos-config nodeStrategies[0] "b" and'),
        # A node that two match already may change in other ways.
        ("ab", "ab", ""),
        ("abo", "ab", ""),
        ("abc", "ab", "node n1: labels match resource-qos-config"),
    ],
)
def test_one_entry_of_each_key_may_match(new: str, old: str, refusal: str) -> None:
    verdict = asked(labelled(*new), labelled(*old))
    assert verdict.refusal[: len(refusal)] == refusal
    assert verdict == ADMITTED or refusal


def test_a_new_node_is_only_warned_of() -> None:
    verdict = asked(labelled("a", "b"), {}, CREATE)
    assert not verdict.refusal
    assert "colocation-config" in verdict.warnings[0]
    assert asked(labelled("a"), {}, CREATE) == ADMITTED


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
