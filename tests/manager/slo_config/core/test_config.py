"""The whole ConfigMap: what applies, what is kept, and the line that says why."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_manager.slo_config.core import config
from koord_manager.slo_config.core.colocation import ColocationStrategy
from koord_manager.slo_config.core.config import (
    DEFAULTS,
    KEYS,
    UNREAD,
    SLOConfig,
    advance,
    unknown_in,
)
from koord_model.used_threshold import UsedThreshold

SHIPPED = {
    "colocation-config": '{"enable": true}',
    "resource-threshold-config": '{"clusterStrategy": {"enable": true}}',
}
"""What Koordinator installs."""


def given_as(**keys: Any) -> dict[str, str]:
    """Keys with underscores, values as objects."""
    return {f"{name.replace('_', '-')}-config": json.dumps(value) for name, value in keys.items()}


def good(**keys: Any) -> SLOConfig:
    found, problems = advance(UNREAD, given_as(**keys))
    assert problems == ()
    assert found.unknown == frozenset()
    return found


def bad(text: str, key: str) -> list[str]:
    found, problems = advance(DEFAULTS, {key: text})
    assert found == DEFAULTS
    assert {one.key for one in problems} == {key}
    return [one.line for one in problems]


def gpu(**more: Any) -> dict[str, Any]:
    return {"name": "gpu", "nodeSelector": {"matchLabels": {"pool": "gpu"}}, **more}


def test_without_a_config_map_all_has_its_defaults_and_nothing_is_unknown():
    assert advance(UNREAD, {}) == (DEFAULTS, ())
    assert DEFAULTS.strategies_for({}, {}).colocation == ColocationStrategy()


def test_what_koordinator_installs_applies():
    found, problems = advance(UNREAD, SHIPPED)
    assert problems == ()
    assert found.colocation.cluster == ColocationStrategy(enable=True)
    assert found.threshold.cluster["enable"] is True
    assert found.threshold.cluster["cpuSuppressThresholdPercent"] == UsedThreshold().cpu_suppress


@pytest.mark.parametrize("key", sorted(KEYS))
@pytest.mark.parametrize("text", ["", " \n", "{}", "null"])
def test_a_key_that_says_nothing_has_its_defaults(key: str, text: str):
    found, problems = advance(UNREAD, {key: text})
    assert problems == ()
    if key == config.STRATEGIES and text.strip():
        assert found.extension is not None  # it is there, and so takes away what nodes had
        found = replace(found, extension=None)
    assert found == DEFAULTS


@pytest.mark.parametrize("key", sorted(KEYS))
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", 'is not valid JSON: "{": Input data was truncated'),
        ("[]", 'is "[]"; expected an object'),
    ],
)
def test_what_is_no_object_names_its_key(key: str, text: str, said: str):
    assert bad(text, key) == [f"{key} {said}"]


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("colocation", {"cpuReclaimThresholdPercent": 700}, "cpuReclaimThresholdPercent is 700"),
        (
            "colocation",
            {"nodeConfigs": [gpu(memoryCalculatePolicy="uses")]},
            'nodeConfigs[0] "gpu" memoryCalculatePolicy is "uses"',
        ),
        (
            "colocation",
            {"nodeConfigs": [{"name": "gpu"}]},
            'nodeConfigs[0] "gpu" nodeSelector is missing',
        ),
        (
            "colocation",
            {"nodeConfigs": [{"nodeSelector": {}}]},
            "nodeConfigs[0] nodeSelector is empty",
        ),
        ("colocation", {"nodeConfigs": [gpu(), gpu()]}, 'nodeConfigs[1].name is "gpu"'),
        (
            "resource-threshold",
            {"nodeStrategies": [gpu(cpuSuppressPolicy="cpu")]},
            'nodeStrategies[0] "gpu" cpuSuppressPolicy is "cpu"',
        ),
        (
            "resource-threshold",
            {"clusterStrategy": {"memoryEvictLowerPercent": 80}},
            "clusterStrategy memoryEvictLowerPercent is 80",
        ),
        ("resource-threshold", {"clusterStrategy": 7}, "clusterStrategy is 7"),
        (
            "resource-qos",
            {"clusterStrategy": {"beClass": {"cpuQOS": {"groupIdentity": 3}}}},
            "clusterStrategy beClass.cpuQOS.groupIdentity is 3",
        ),
        (
            "cpu-burst",
            {"clusterStrategy": {"cpuBurstPercent": 0}},
            "clusterStrategy cpuBurstPercent is 0",
        ),
        (
            "system",
            {"clusterStrategy": {"totalNetworkBandwidth": "fast"}},
            'clusterStrategy totalNetworkBandwidth is "fast"',
        ),
        ("host-application", {"applications": [{"name": "a/b"}]}, 'applications[0].name is "a/b"'),
        (
            "host-application",
            {"nodeConfigs": [gpu(applications=[{}])]},
            'nodeConfigs[0] "gpu" applications[0].name is missing',
        ),
        ("host-application", {"applications": 7}, "applications is 7"),
        (
            "cpu-normalization",
            {"ratioModel": {"Xeon (R)": {"baseRatio": 9}}},
            "ratioModel.Xeon (R).baseRatio is 9",
        ),
        (
            "resource-amplification",
            {"resourceAmplificationRatio": {"cpu": 0.5}},
            "resourceAmplificationRatio.cpu is 0.5",
        ),
        (
            "pykoord",
            {"clusterStrategy": {"strategies": {"cpu_suppress": 3}}},
            "clusterStrategy strategies.cpu_suppress is 3",
        ),
    ],
)
def test_a_bad_field_is_named_and_keeps_its_key_from_applying(key: str, value: Any, line: str):
    [found] = bad(json.dumps(value), f"{key}-config")
    head, _, expected = found.partition("; expected ")
    assert head == f"{key}-config {line}"
    assert expected
    assert " (" not in expected, "nothing is done instead: the key is kept"


@pytest.mark.parametrize("depth", [300, 500, 700, 5000])
def test_what_is_nested_without_end_is_refused_like_anything_else(depth: int):
    text = f'{{"clusterStrategy": {{"beClass": {"[" * depth}{"]" * depth}}}}}'
    [line] = bad(text, "resource-qos-config")
    assert line.startswith("resource-qos-config ")
    assert list(unknown_in({"resource-qos-config": text})) == []


def test_a_bad_key_keeps_its_last_good_value_and_the_others_apply():
    before = good(colocation={"enable": True}, cpu_burst={"clusterStrategy": {"policy": "auto"}})
    after, problems = advance(
        before, given_as(colocation={"enable": 1}, system={"clusterStrategy": {}})
    )
    assert [one.key for one in problems] == ["colocation-config"]
    assert after.colocation == before.colocation
    assert after.burst == DEFAULTS.burst
    assert after.unknown == frozenset()
    mended, problems = advance(after, given_as(colocation={"enable": False}))
    assert (mended, problems) == (DEFAULTS, ())


def test_a_key_of_which_nothing_good_was_ever_seen_is_unknown():
    found, _ = advance(UNREAD, {"cpu-burst-config": "{"})
    assert found.unknown == {"cpu-burst-config"}
    found, _ = advance(found, {"cpu-burst-config": "[1]"})
    assert found.unknown == {"cpu-burst-config"}
    found, _ = advance(found, {"cpu-burst-config": "{}"})
    assert found.unknown == frozenset()


FIELDS = """enable clusterStrategy nodeStrategies nodeConfigs nodeSelector matchLabels applications
name beClass networkQOS ingressRequest ratioModel extensions strategies
cpuSuppressThresholdPercent"""
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 300) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(FIELDS.split()), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(sorted(KEYS)), JSON.map(json.dumps) | st.text(max_size=6)))
def test_whatever_is_in_it_each_key_applies_or_is_kept_and_says_why(data: dict[str, str]):
    before, _ = advance(UNREAD, given_as(colocation={"degradeTimeMinutes": 7}))
    after, problems = advance(before, data)
    wrong = {one.key for one in problems}
    assert all(one.line.startswith(one.key) and "\n" not in one.line for one in problems)
    if "colocation-config" in wrong:
        assert after.colocation == before.colocation
    # Those that are good apply as if the bad ones were not there.
    alone, none = advance(UNREAD, {key: text for key, text in data.items() if key not in wrong})
    assert none == ()
    merged, again = advance(alone, {key: text for key, text in data.items() if key in data})
    assert {one.key for one in again} == wrong
    assert merged == alone


def test_co_location_off_for_the_cluster_is_off_on_every_node():
    asked = gpu(enable=True, degradeTimeMinutes=5)
    annotations = {"node.koordinator.sh/colocation-strategy": '{"enable": true}'}
    for enable in (True, False):
        found = good(colocation={"enable": enable, "nodeConfigs": [asked]})
        for labels in ({}, {"pool": "gpu"}):
            assert found.strategies_for(labels, annotations).colocation.enable is enable
        strategy = found.strategies_for({"pool": "gpu"}, {}).colocation
        assert (strategy.enable, strategy.degrade_minutes) == (enable, 5)
