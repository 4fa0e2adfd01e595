from __future__ import annotations

import random

import pytest
from koord_manager.profiles.core.document import read
from koord_manager.profiles.core.matching import drawn, for_labels, for_pod, read_all
from koord_model.json_objects import Object

WEB: Object = {"selector": {"matchLabels": {"app": "web"}}}
COLOCATED: Object = {"namespaceSelector": {"matchLabels": {"colocated": "yes"}}}
BROKEN: Object = {"selector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}


def names(labels: dict[str, str], inside: dict[str, str] | None, /, **specs: Object) -> list[str]:
    profiles = read_all({name: {"spec": spec} for name, spec in specs.items()})
    return [one.name for one in for_pod(profiles, labels, "ns", inside).profiles]


def test_all_that_match_in_the_order_of_their_names() -> None:
    found = names({"app": "web"}, {}, c={}, a=WEB, b={"selector": {}, "namespaceSelector": {}})
    assert found == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("labels", "namespace", "expected"),
    [
        ({"app": "web"}, {"colocated": "yes"}, ["both", "namespace", "pod"]),
        ({"app": "web"}, {"colocated": "no"}, ["pod"]),
        ({}, {"colocated": "yes"}, ["namespace"]),
        ({}, {}, []),
    ],
)
def test_both_selectors_have_to_match(
    labels: dict[str, str], namespace: dict[str, str], expected: list[str]
) -> None:
    assert names(labels, namespace, pod=WEB, namespace=COLOCATED, both=WEB | COLOCATED) == expected


def test_a_selector_that_cannot_be_read_matches_nothing_and_is_reported() -> None:
    profiles = read_all({"bad": {"spec": BROKEN}, "good": {}})
    matches = for_pod(profiles, {"a": "1"}, "ns", {})
    assert [one.name for one in matches.profiles] == ["good"]
    (line,) = matches.warnings
    assert '"bad" spec.selector' in line
    assert "operator" in line


def test_a_namespace_that_is_not_known_yet_is_not_selected() -> None:
    profiles = read_all({"everywhere": {}, "some": {"spec": COLOCATED}, "web": {"spec": WEB}})
    matches = for_pod(profiles, {}, "new", None)
    assert [one.name for one in matches.profiles] == ["everywhere"]
    assert matches.warnings == (
        (
            'ClusterColocationProfile "some" is left out: namespace "new" is not known yet; '
            "create the pod again in a moment"
        ),
    )


def test_by_labels_alone_namespaces_do_not_count() -> None:
    profiles = read_all({"some": {"spec": COLOCATED | WEB}, "other": {"spec": COLOCATED}})
    assert [one.name for one in for_labels(profiles, {"app": "web"}).profiles] == ["other", "some"]


@pytest.mark.parametrize("percent", [0, 1, 30, 50, 99, 100])
def test_exactly_so_many_of_a_hundred_chances(percent: int) -> None:
    profile = read("p", {"spec": {"probability": percent}})
    assert sum(drawn(profile, lambda at=at: at / 100) for at in range(100)) == percent


@pytest.mark.parametrize(("percent", "expected"), [(0, 0), (100, 5000)])
def test_none_and_all_are_so_with_any_chance(percent: int, expected: int) -> None:
    profile = read("p", {"spec": {"probability": percent}})
    chance = random.Random(1).random
    assert sum(drawn(profile, chance) for _ in range(5000)) == expected


def test_each_version_of_a_profile_is_read_once() -> None:
    document: Object = {"spec": dict(WEB)}
    (first,) = read_all({"a": document})
    assert read_all({"a": document})[0] is first
    (other,) = read_all({"a": {"spec": {"probability": 0}}})
    assert other.percent == 0
