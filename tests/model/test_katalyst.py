from __future__ import annotations

import json

import pytest
from koord_model import katalyst
from koord_model.katalyst import oom_score, translate
from koord_model.qos import QoSClass

QOS, PRIORITY = "koordinator.sh/qosClass", "koordinator.sh/priority-class"
CPU = "katalyst.kubewharf.io/cpu_enhancement"
MEMORY = "katalyst.kubewharf.io/memory_enhancement"
BURST = "koordinator.sh/cpuBurst"
SPEC = "scheduling.koordinator.sh/resource-spec"


@pytest.mark.parametrize(
    ("level", "labels", "priority", "added"),
    [
        ("shared_cores", {}, None, {QOS: "LS"}),
        ("dedicated_cores", {}, None, {QOS: "LSR", PRIORITY: "koord-prod"}),
        ("dedicated_cores", {}, 9500, {QOS: "LSR"}),
        ("reclaimed_cores", {}, None, {QOS: "BE", PRIORITY: "koord-batch"}),
        ("reclaimed_cores", {QOS: "BE"}, 7500, {}),
        ("reclaimed_cores", {PRIORITY: ""}, None, {QOS: "BE"}),
        ("system_cores", {}, None, {QOS: "SYSTEM"}),
    ],
)
def test_a_level_becomes_a_class_and_the_priority_class_that_goes_with_it(
    level: str, labels: dict[str, str], priority: int | None, added: dict[str, str]
) -> None:
    found = translate(labels, {katalyst.LEVEL: level}, priority)
    assert (found.labels, found.annotations, found.ignored) == (added, {}, ())


def test_a_pod_without_katalyst_s_words_stays_as_it_is() -> None:
    assert translate({QOS: "what"}, {"a": "b"}, None) == katalyst.Translation()


def test_the_label_counts_where_both_languages_differ() -> None:
    found = translate({QOS: "LS"}, {katalyst.LEVEL: "reclaimed_cores"}, None)
    assert found.labels == {}
    (line,) = found.ignored
    assert line.endswith('which is BE, and label koordinator.sh/qosClass is "LS": the label counts')


def test_enhancements_become_annotations() -> None:
    given = {
        katalyst.LEVEL: "dedicated_cores",
        CPU: '{"cpu_burst_policy":"static","cpu_burst_percent":"50","full_pcpus_pairing":"true"}',
        MEMORY: '{"numa_binding":"true","numa_exclusive":"true","oom_priority":"150"}',
    }
    found = translate({}, given, None)
    assert {key: json.loads(text) for key, text in found.annotations.items()} == {
        BURST: {"policy": "cpuBurstOnly", "cpuBurstPercent": 50},
        SPEC: {
            "requiredCPUBindPolicy": "FullPCPUs",
            "preferredCPUExclusivePolicy": "NUMANodeLevel",
        },
        "scheduling.koordinator.sh/numa-topology-spec": {"numaTopologyPolicy": "SingleNUMANode"},
        "koordinator.sh/oom-score-adj": 250,
    }
    assert found.ignored == ()


@pytest.mark.parametrize(
    ("level", "words", "policy"),
    [
        ("shared_cores", {"cpu_burst_policy": "closed"}, "none"),
        ("shared_cores", {"cpu_burst_policy": "static"}, "cpuBurstOnly"),
        ("shared_cores", {"cpu_burst_policy": "static", "cpu_burst_percent": "0"}, "none"),
        ("shared_cores", {"cpu_burst_policy": "default"}, None),
        ("reclaimed_cores", {"cpu_burst_policy": "static"}, "none"),
    ],
)
def test_burst(level: str, words: dict[str, str], policy: str | None) -> None:
    found = translate({}, {katalyst.LEVEL: level, CPU: json.dumps(words)}, None).annotations
    assert (json.loads(found[BURST])["policy"] if BURST in found else None) == policy


@pytest.mark.parametrize(
    ("level", "words", "line"),
    [
        ("shared_cores", {"numa_exclusive": "true"}, "expected dedicated_cores with it"),
        ("dedicated_cores", {"numa_exclusive": "true"}, "expected numa_binding beside it"),
        ("shared_cores", {"numa_binding": "yes"}, "expected true or false"),
        ("shared_cores", {"oom_priority": "٣"}, "expected -300 to 300"),
        ("shared_cores", {"oom_priority": "301"}, "expected -300 to 300"),
        ("shared_cores", {"cpu_burst_policy": "dynamic"}, "expected default, closed or static"),
        ("shared_cores", {"align_by_socket": "true"}, "has no counterpart here"),
    ],
)
def test_a_word_that_has_no_effect_is_named_and_costs_only_itself(
    level: str, words: dict[str, str], line: str
) -> None:
    given = {katalyst.LEVEL: level, CPU: json.dumps(words), MEMORY: '{"cpu_burst_policy":"closed"}'}
    found = translate({}, given, None)
    (ignored,) = (text for text in found.ignored if next(iter(words)) in text)
    assert line in ignored
    assert BURST in found.annotations or "cpu_burst_policy" in words


@pytest.mark.parametrize("text", ["", "[", '{"a":1}', '{"a":{"a":' * 10_000])
def test_enhancements_that_are_no_words_are_one_line(text: str) -> None:
    found = translate({}, {CPU: text, MEMORY: '{"oom_priority":"0"}'}, None)
    assert len(found.ignored) == bool(text)
    assert "koordinator.sh/oom-score-adj" in found.annotations
    assert all(len(line) < 500 for line in found.ignored)


def test_koordinator_s_annotation_counts_where_both_are_there() -> None:
    own = {BURST: '{"policy":"auto"}', CPU: '{"cpu_burst_policy":"closed"}'}
    found = translate({}, own, None)
    assert (found.annotations, len(found.ignored)) == ({}, 1)


def test_the_order_of_killing_is_katalyst_s() -> None:
    levels = [QoSClass.BE, QoSClass.LS, QoSClass.LSR, QoSClass.SYSTEM]
    scores = [
        oom_score(qos, begin + step)
        for qos, begin in zip(levels, (-100, 0, 100, 200), strict=True)
        for step in range(100)
    ]
    assert scores == sorted({score for score in scores if score is not None}, reverse=True)
    assert (scores[0], scores[-1], oom_score(QoSClass.LS, 300)) == (1000, -891, -999)
    assert oom_score(QoSClass.LS, -300) is None
    # Beyond its level's range: the nearest within.
    assert oom_score(QoSClass.LS, 250) == oom_score(QoSClass.LS, 99)
    assert oom_score(QoSClass.BE, 50) == oom_score(QoSClass.BE, -1)
