"""Which ConfigMaps are refused, and in what words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.slo_config.webhook.config_map import validate_config_map
from koord_manager.webhooks.cluster_view import ClusterView
from koord_serving.admission.core.admission import (
    ADMITTED,
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

VIEW = ClusterView()
GOOD = {"colocation-config": '{"enable": true}'}


def config_map(data: Any) -> dict[str, Any]:
    return {"metadata": {"name": "slo-controller-config"}, "data": data}


def asked(
    data: Any = None, old: Any = None, view: ClusterView = VIEW, **more: Any
) -> AdmissionResponse:
    operation = AdmissionOperation.CREATE if old is None else AdmissionOperation.UPDATE
    where = {"namespace": "koordinator-system", "name": "slo-controller-config"}
    objects = {"object": config_map(data), "old": {} if old is None else config_map(old)}
    usual = {"uid": "1", "operation": operation, "resource": "configmaps"} | where | objects
    return validate_config_map(AdmissionRequest(**usual | more), view)


def keys(**values: Any) -> dict[str, str]:
    return {f"{name.replace('_', '-')}-config": json.dumps(one) for name, one in values.items()}


def on(**labels: str) -> dict[str, Any]:
    return {"nodeSelector": {"matchLabels": labels}}


BAD = {"cpu-burst-config": "{"}


@pytest.mark.parametrize(
    ("data", "old", "refusal"),
    [
        (GOOD, None, ""),
        ({}, None, ""),
        (None, None, ""),
        (
            keys(colocation={"nodeConfigs": [{**on(a="b"), "degradeTimeMinutes": 0}]}),
            None,
            "colocation-config nodeConfigs[0] degradeTimeMinutes is 0; expected 1 to 10080",
        ),
        # Of many the first is shown.
        (
            keys(colocation={"enable": 1}, cpu_burst=[], system="x"),
            None,
            "colocation-config enable is 1; expected true or false (and 2 more)",
        ),
        # A key that is bad already does not keep others from changing.
        (BAD | GOOD, BAD, ""),
        (BAD | {"colocation-config": "{"}, BAD, "colocation-config is not valid JSON"),
        ({"cpu-burst-config": "[]"}, BAD, 'cpu-burst-config is "[]"'),
        # Selectors that overlap.
        (
            keys(colocation={"nodeConfigs": [on(a="1"), on(a="1", b="2")]}),
            None,
            "colocation-config nodeConfigs[0] and nodeConfigs[1] both match nodes labelled",
        ),
        (keys(colocation={"nodeConfigs": [on(a="1"), on(b="1")]}), None, ""),
    ],
)
def test_what_is_refused_and_why(data: Any, old: Any, refusal: str):
    verdict = asked(data, old)
    if refusal:
        assert (verdict.code, verdict.refusal[: len(refusal)]) == (422, refusal)
    else:
        assert verdict == ADMITTED


def test_another_config_map_is_none_of_its_business():
    assert asked({"colocation-config": "{"}, name="other") == ADMITTED
    assert asked({"colocation-config": "{"}, namespace="default") == ADMITTED
    elsewhere = ClusterView(config_map="mine/strategies")
    assert asked({"colocation-config": "{"}, view=elsewhere) == ADMITTED
    verdict = asked(
        {"colocation-config": "{"}, None, elsewhere, namespace="mine", name="strategies"
    )
    assert verdict.refusal.startswith("colocation-config is not valid JSON")


def test_one_without_a_name_in_the_question_has_it_in_the_object():
    assert asked({"colocation-config": "{"}, name="").refusal


def test_deleting_it_is_allowed_and_said_what_it_means():
    verdict = asked(operation=AdmissionOperation.DELETE, old=GOOD)
    assert verdict.refusal == ""
    assert verdict.warnings == ("without it all strategies have their defaults: nothing is on",)


def test_a_key_that_nobody_reads_is_warned_of():
    verdict = asked({"colocation-confg": "{}"})
    assert verdict.refusal == ""
    assert verdict.warnings[0].startswith('"colocation-confg" is not a key of this ConfigMap; ')


@pytest.mark.parametrize(
    ("key", "value", "field", "nearest"),
    [
        ("colocation", {"enabel": True}, "enabel", "enable"),
        (
            "colocation",
            {"nodeConfigs": [{**on(a="b"), "enabl": 1}]},
            "nodeConfigs[0].enabl",
            "enable",
        ),
        ("resource_threshold", {"clusterStratgy": {}}, "clusterStratgy", "clusterStrategy"),
        (
            "cpu_normalization",
            {"ratioModel": {"X": {"baseR": 2}}},
            "ratioModel.X.baseR",
            "baseRatio",
        ),
        (
            "host_application",
            {"applications": [{"name": "a", "qso": ""}]},
            "applications[0].qso",
            "qos",
        ),
        ("pykoord", {"clusterStrategy": {"strategy": {}}}, "clusterStrategy.strategy", ""),
    ],
)
def test_a_field_that_nobody_reads_is_warned_of_and_the_nearest_is_named(
    key: str, value: Any, field: str, nearest: str
):
    data = keys(**{key: value})
    verdict = asked(data)
    [warning] = verdict.warnings
    assert (verdict.refusal, warning.partition(": ")[0]) == ("", next(iter(data)))
    assert f" {field} " in warning
    assert f"did you mean {nearest}?" in warning or not nearest
    assert asked(data, old=data) == ADMITTED, "only what changes is judged"


def test_what_vendors_and_koordinator_have_beyond_what_is_used_is_not_warned_of():
    strategy = {"cgroupRoot": {"memoryQOS": {"priority": 1}}, "beClass": {"cpuQOS": {}}}
    data = keys(
        colocation={"extensions": {"vendor": {"any": {"thing": 1}}}, "nodeConfigs": []},
        resource_qos={"clusterStrategy": strategy, "nodeStrategies": [{**on(a="b"), "name": "a"}]},
        system={"clusterStrategy": {"schedFeatures": {"ID_ABSOLUTE_EXPEL": True}}},
        resource_amplification={"resourceAmplificationRatio": {"cpu": 2}},
        pykoord={"clusterStrategy": {"strategies": {"any_of_anybody": {"setting": 1}}}},
    )
    assert asked(data) == ADMITTED


def test_thousands_of_unknown_fields_are_a_few_warnings():
    many = {f"{number}{'x' * 99}": 1 for number in range(5000)}
    verdict = asked(keys(colocation=many) | dict.fromkeys(many, ""))
    assert 2 < len(verdict.warnings) < 17


def test_selectors_that_overlap_on_a_node_there_is_are_refused():
    data = keys(colocation={"nodeConfigs": [on(a="1"), on(b="1")]})
    view = ClusterView(node_labels={"n1": {"a": "1"}, "n2": {"a": "1", "b": "1"}})
    assert "both match a node there is; " in asked(data, None, view).refusal
    assert asked(data | keys(system={}), data, view) == ADMITTED


def qos(request: str) -> dict[str, Any]:
    return {"lsClass": {"networkQOS": {"enable": True, "ingressRequest": request}}}


@pytest.mark.parametrize(
    ("of_qos", "of_system", "refusal"),
    [
        (
            {"clusterStrategy": qos("11G")},
            {"clusterStrategy": {"totalNetworkBandwidth": "10G"}},
            "resource-qos-config clusterStrategy ingressRequest of all classes is 11000000000",
        ),
        ({"clusterStrategy": qos("11G")}, {}, ""),
        (
            {"nodeStrategies": [{**on(a="b"), **qos("11G")}]},
            {
                "clusterStrategy": {"totalNetworkBandwidth": "10G"},
                "nodeStrategies": [{**on(a="b"), "totalNetworkBandwidth": "25G"}],
            },
            "",
        ),
        (
            {"nodeStrategies": [{**on(a="b"), **qos("11G")}]},
            {"clusterStrategy": {"totalNetworkBandwidth": "10G"}},
            "resource-qos-config nodeStrategies[0] ingressRequest of all classes is 11000000000",
        ),
    ],
)
def test_classes_are_not_promised_more_than_the_node_has(of_qos, of_system, refusal: str):
    data = keys(resource_qos=of_qos, system=of_system)
    only_qos = keys(resource_qos=of_qos)
    # Whichever of the two keys changes.
    for old in (None, only_qos, keys(system=of_system)):
        assert asked(data, old).refusal.partition(" bits")[0] == refusal
    assert asked(only_qos) == ADMITTED


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(["metadata", "data", "name", "colocation-config"]),
                inner,
                max_size=3,
            )
        ),
    )
)
def test_whatever_it_is_asked_it_answers(given_object: Any):
    found = given_object if isinstance(given_object, dict) else {"data": given_object}
    for name in ("", "slo-controller-config"):
        verdict = asked(name=name, object=found, old=found)
        assert "\n" not in verdict.refusal
