from __future__ import annotations

import copy
from typing import Any

import pytest
from koord_manager.profiles.core.document import ColocationProfile, read
from koord_manager.profiles.core.matching import read_all
from koord_manager.profiles.core.reconciler import PodChange, change, managed, waits

from tests.support.merge_patch import merged

Object = dict[str, Any]
MANAGED = "config.koordinator.sh/controller-managed"


def profile(**spec: object) -> ColocationProfile:
    metadata = {"uid": "pu", "creationTimestamp": "2026-01-02T00:00:00Z"}
    return read("p", {"metadata": metadata, "spec": {"selector": {}, **spec}})


def pod(uid: str = "u", created: str = "2026-01-01T00:00:00Z", **spec: object) -> Object:
    return {
        "metadata": {
            "name": "a",
            "namespace": "ns",
            "uid": uid,
            "creationTimestamp": created,
            "labels": {"app": "web", "suffixed": "x"},
        },
        "spec": {"containers": [{"name": "c", "image": "1"}], **spec},
        "status": {"phase": "Pending"},
    }


def changed(given: Object, *profiles: ColocationProfile) -> PodChange:
    kept = copy.deepcopy(given)
    found = change(profiles, given, "ns", {})
    assert given == kept
    if found.patch is not None:
        after = merged(given, found.patch)
        assert change(profiles, after, "ns", {}).patch is None
    return found


@pytest.mark.parametrize(
    ("name", "document", "by_default", "expected"),
    [
        ("labelled", {"metadata": {"labels": {MANAGED: "true"}}}, False, True),
        ("labelled otherwise", {"metadata": {"labels": {MANAGED: "yes"}}}, False, False),
        ("plain", {}, False, False),
        ("plain", {}, True, True),
        ("ending", {"metadata": {"deletionTimestamp": "now"}}, True, False),
        ("broken", {"spec": {"selector": {}, "probability": "x"}}, True, False),
        ("without selector", {"spec": {"labels": {"a": "b"}}}, True, False),
    ],
)
def test_which_are_applied_again(
    name: str, document: Object, by_default: bool, expected: bool
) -> None:
    profiles = read_all({name: {"spec": {"selector": {}}} | document})
    assert bool(managed(profiles, by_default=by_default)) is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (pod(), True),
        (pod(nodeName="n"), False),
        ({**pod(), "status": {"phase": "Running"}}, False),
        ({**pod(), "metadata": {"deletionTimestamp": "now"}}, False),
        ({}, False),
    ],
)
def test_which_pods_wait(given: Object, expected: bool) -> None:
    assert waits(given) is expected


def test_labels_and_annotations_are_changed_and_nothing_else() -> None:
    found = changed(
        pod(),
        profile(
            labels={"a": "1", "app": "web"},
            annotations={"b": "2"},
            labelSuffixes={"suffixed": "-s"},
            qosClass="BE",
            koordinatorPriority=5,
            priorityClassName="not-there",
            schedulerName="koord-scheduler",
            patch={"metadata": {"labels": {"app": None}}},
        ),
    )
    assert found.patch == {
        "metadata": {
            "uid": "u",
            "labels": {
                "app": None,
                "a": "1",
                "suffixed": "x-s",
                "koordinator.sh/qosClass": "BE",
                "koordinator.sh/priority": "5",
            },
            "annotations": {"b": "2"},
        }
    }
    assert found.lines == ()


def test_tolerations_are_added_to_those_there_are() -> None:
    has = [{"key": "not-ready", "operator": "Exists"}]
    adds = [{"key": "batch", "operator": "Exists"}]
    found = changed(pod(tolerations=has), profile(patch={"spec": {"tolerations": adds}}))
    assert found.patch == {"metadata": {"uid": "u"}, "spec": {"tolerations": [*has, *adds]}}
    assert found.lines == ()


def test_what_only_new_pods_get_is_reported() -> None:
    patch = {"metadata": {"labels": {"a": "1"}}, "spec": {"containers": [{"name": "x"}]}}
    found = changed(pod(), profile(patch=patch))
    assert found.patch == {"metadata": {"uid": "u", "labels": {"a": "1"}}}
    assert found.lines == (
        (
            'ClusterColocationProfile "p": its patch sets more than labels, annotations and '
            "tolerations; only new pods get that"
        ),
    )


def test_a_patch_that_does_not_fit_costs_only_itself() -> None:
    found = changed(pod(), profile(labels={"a": "1"}, patch={"spec": {"containers": [1]}}))
    assert found.patch == {"metadata": {"uid": "u", "labels": {"a": "1"}}}
    assert len(found.lines) == 1


def test_what_does_not_match_or_is_so_already_is_not_written() -> None:
    assert changed(pod(), profile(selector={"matchLabels": {"app": "db"}})).patch is None
    assert changed(pod(), profile(labels={"app": "web"})).patch is None
    assert changed({**pod(), "metadata": {"uid": "u"}}, profile()).patch is None


@pytest.mark.parametrize("percent", [0, 30, 100])
def test_the_chance_is_the_same_each_time_and_as_large_as_said(percent: int) -> None:
    one = profile(labels={"a": "1"}, probability=percent)
    pods = [pod(uid=f"u{index}") for index in range(1000)]
    first = [change((one,), given, "ns", {}).patch is not None for given in pods]
    assert [change((one,), given, "ns", {}).patch is not None for given in pods] == first
    assert abs(sum(first) / len(first) - percent / 100) < 0.04
    if percent in (0, 100):
        assert sum(first) == len(first) * percent // 100


def test_a_pod_that_came_after_the_profile_had_its_chance_then() -> None:
    young = pod(created="2026-01-03T00:00:00Z")
    assert changed(young, profile(labels={"a": "1"}, probability=99)).patch is None
    assert changed(young, profile(labels={"a": "1"}, probability=100)).patch is not None


def test_a_namespace_that_is_not_known_is_reported() -> None:
    one = profile(labels={"a": "1"}, namespaceSelector={"matchLabels": {"a": "b"}})
    found = change((one,), pod(), "ns", None)
    assert found.patch is None
    assert len(found.lines) == 1
