from __future__ import annotations

from typing import Any

import pytest
from koord_manager.profiles.core.document import read
from koord_model.qos import QoSClass

WHOLE = {
    "metadata": {
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "labels": {"config.koordinator.sh/controller-managed": "true"},
        "annotations": {"config.koordinator.sh/skip-update-resources": ""},
    },
    "spec": {
        "namespaceSelector": {"matchLabels": {"a": "b"}},
        "selector": {"matchExpressions": [{"key": "k", "operator": "Exists"}]},
        "probability": "30%",
        "labels": {"l": "1"},
        "annotations": {"n": "2"},
        "labelKeysMapping": {"l": "m"},
        "annotationKeysMapping": {"n": "o"},
        "labelSuffixes": {"l": "-x"},
        "schedulerName": "koord-scheduler",
        "qosClass": "BE",
        "priorityClassName": "koord-batch",
        "koordinatorPriority": 100,
        "patch": {"spec": {}},
    },
}


def test_a_whole_profile() -> None:
    profile = read("p", WHOLE)
    assert profile.usable
    assert profile.ignored == ()
    assert (profile.uid, profile.version, profile.managed) == ("u", "7", True)
    assert (profile.skips_resources, profile.selects, profile.terminating) == (True, True, False)
    assert profile.namespaces.matches({"a": "b"})
    assert not profile.namespaces.matches({})
    assert profile.selector.matches({"k": ""})
    assert not profile.selector.matches({})
    assert profile.percent == 30
    assert (profile.labels, profile.annotations) == ({"l": "1"}, {"n": "2"})
    assert (profile.label_keys, profile.annotation_keys) == ({"l": "m"}, {"n": "o"})
    assert profile.label_suffixes == {"l": "-x"}
    assert profile.scheduler_name == "koord-scheduler"
    assert profile.qos is QoSClass.BE
    assert (profile.priority_class_name, profile.koordinator_priority) == ("koord-batch", 100)
    assert profile.patch == {"spec": {}}


@pytest.mark.parametrize("document", [{}, {"spec": None}, {"metadata": None, "spec": {}}])
def test_an_empty_profile_is_for_everything_and_says_nothing(document: dict[str, Any]) -> None:
    profile = read("p", document)
    assert profile.usable
    assert profile.ignored == ()
    assert not profile.selects
    assert profile.selector.matches({"any": "thing"})
    assert profile.percent == 100
    assert profile.patch is None


@pytest.mark.parametrize(
    ("given", "percent"), [(0, 0), (1, 1), (100, 100), ("0%", 0), ("7%", 7), ("100%", 100)]
)
def test_a_probability_is_a_number_or_a_percentage(given: object, percent: int) -> None:
    assert read("p", {"spec": {"probability": given}}).percent == percent


@pytest.mark.parametrize(
    ("field", "given", "line"),
    [
        ("selector", [], "spec.selector is a list; expected an object"),
        ("selector", {"matchlabels": {}}, "spec.selector.matchlabels is unknown"),
        ("namespaceSelector", {"matchLabels": {"a": 1}}, "spec.namespaceSelector.matchLabels.a"),
        ("probability", 101, "spec.probability is 101; expected 0% to 100%"),
        ("probability", -1, "spec.probability is -1; expected 0% to 100%"),
        ("probability", "50", 'spec.probability is "50"; expected 0% to 100%'),
        ("probability", "²%", 'spec.probability is "²%"; expected 0% to 100%'),
        ("probability", True, "spec.probability is true; expected 0% to 100%"),
        ("patch", "spec: {}", 'spec.patch is "spec: {}"; expected an object'),
    ],
)
def test_who_it_is_for_and_how_has_to_be_right(field: str, given: object, line: str) -> None:
    profile = read("p", {"spec": {field: given, "qosClass": "XX"}})
    assert not profile.usable
    (only,) = profile.ignored
    assert only.startswith(f'ClusterColocationProfile "p" {line}')
    assert only.endswith("(the profile is for nothing until this is mended)")


def test_a_spec_that_is_none_is_for_nothing() -> None:
    profile = read("p", {"spec": ["qosClass"]})
    assert not profile.usable
    assert len(profile.ignored) == 1


def test_any_other_bad_field_costs_only_itself() -> None:
    spec = {"labels": {"a": 1, "b": "2"}, "qosClass": "be", "koordinatorPriority": 1 << 31}
    profile = read("p", {"spec": spec})
    assert profile.usable
    assert profile.labels == {"b": "2"}
    assert profile.qos is QoSClass.NONE
    assert profile.koordinator_priority is None
    assert profile.ignored == (
        'ClusterColocationProfile "p" spec.labels.a is 1; expected text (left out)',
        (
            'ClusterColocationProfile "p" spec.qosClass is "be"; '
            "expected LSE or LSR or LS or BE or SYSTEM (left empty)"
        ),
        (
            'ClusterColocationProfile "p" spec.koordinatorPriority is 2147483648; '
            "expected -2147483648 to 2147483647 (left unset)"
        ),
    )
