"""What PodGroups and CompositePodGroups of Kubernetes say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from koord_kube.protocol.resources import SCHEDULING_GROUPS
from koord_scheduler.gangs.composite_group import read_composite_group
from koord_scheduler.gangs.gang_spec import DomainRule, GangSpec
from koord_scheduler.gangs.hierarchy import Hierarchy
from koord_scheduler.gangs.quorum import Quorum
from koord_scheduler.gangs.scheduling_group import read_scheduling_group

NEW, _, OLD = SCHEDULING_GROUPS
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}


def document(name: str, spec: Mapping[str, Any]) -> bytes:
    """An object as the API has it."""
    created = "2026-01-01T00:00:00Z"
    metadata = {"name": name, "namespace": "d", "uid": name, "creationTimestamp": created}
    return json.dumps({"metadata": metadata, "spec": spec}).encode()


def hierarchy() -> Hierarchy:
    """One where all features are on."""
    found = Hierarchy()
    found.has_composites = found.has_domains = True
    return found


def described(spec: Mapping[str, Any], version: int = 0) -> GangSpec:
    """The gang that a PodGroup is."""
    resource = SCHEDULING_GROUPS[version]
    (found,) = hierarchy().set_group(read_scheduling_group(resource, document("g", spec)))
    return found.spec


def key(name: str) -> str:
    """The key of the gang of a group."""
    return f"d/{name}.scheduling.k8s.io"


def test_a_group_of_the_newest_version() -> None:
    found = described(
        {
            **GANG,
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
            "disruptionMode": {"all": {}},
            "priorityClassName": "high",
            "priority": 5,
            "preemptionPolicy": "Never",
        }
    )
    assert (found.min_member, found.priority, found.preempts, found.problem) == (2, 5, False, "")
    assert found.disrupted_with == (key("g"),)
    assert found.domains == (DomainRule("rack", (key("g"),)),)


def test_a_group_of_the_oldest_version() -> None:
    reference = {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}
    mode = {"podGroupTemplateRef": reference, "disruptionMode": "PodGroup"}
    found = described({**GANG, **mode}, version=2)
    assert (found.disrupted_with, found.problem, found.preempts) == ((key("g"),), "", False)
    assert described({**GANG, "disruptionMode": "Pod"}, version=2).disrupted_with == ()


@pytest.mark.parametrize(
    ("spec", "reported"),
    [
        ({}, "spec.schedulingPolicy needs one of basic and gang"),
        (
            {"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}},
            "spec.schedulingPolicy needs one of basic and gang",
        ),
        ({"schedulingPolicy": {"gang": {"minCount": 0}}}, "minCount is 0; expected at least 1"),
        (
            {**GANG, "schedulingConstraints": {"topology": [{"key": "a"}, {"key": "b"}]}},
            "spec.schedulingConstraints.topology has 2 items; expected one",
        ),
        (
            {**GANG, "schedulingConstraints": {"topology": [{"key": ""}]}},
            "spec.schedulingConstraints.topology[0].key is empty",
        ),
        ({**GANG, "disruptionMode": {}}, "spec.disruptionMode needs one of single and all"),
        ({**GANG, "disruptionMode": "Half"}, '"Half"; expected Pod or PodGroup'),
        ({**GANG, "preemptionPolicy": "Maybe"}, '"Maybe"; expected Never or PreemptLowerPriority'),
        (
            {**GANG, "resourceClaims": [{"name": "c"}]},
            'spec.resourceClaims "c" needs one of resourceClaimName',
        ),
    ],
)
def test_what_cannot_be_honoured_is_reported(spec: Mapping[str, Any], reported: str) -> None:
    assert reported in described(spec).problem


@pytest.mark.parametrize("spec", [{"schedulingPolicy": {"gang": {"minCount": "two"}}}, []])
def test_what_is_no_group_is_refused(spec: Any) -> None:
    with pytest.raises(ValueError, match="is not a valid PodGroup: "):
        read_scheduling_group(NEW, document("g", spec))
    if not spec:
        with pytest.raises(ValueError, match="is not a valid CompositePodGroup: "):
            read_composite_group(document("g", spec))


def test_an_object_that_comes_in_two_versions_counts_by_the_newer_one() -> None:
    state = hierarchy()
    mode = {"disruptionMode": {"all": {}}}
    state.set_group(read_scheduling_group(NEW, document("g", {**GANG, **mode})))
    assert state.set_group(read_scheduling_group(OLD, document("g", GANG))) == []
    assert state.groups[key("g")].resource == NEW


def test_leaves_of_a_tree_follow_all_its_groups() -> None:
    state = hierarchy()
    parts = {"parentCompositePodGroupName": "all"}
    policy = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    state.set_group(read_scheduling_group(NEW, document("a", {**GANG, **parts})))
    (one,) = state.set_composite(read_composite_group(document("all", policy)))
    assert one.spec.quorum == Quorum(2, (key("a"),))
    both = state.set_group(read_scheduling_group(NEW, document("b", {**GANG, **parts})))
    assert [found.spec.group for found in both] == [(key("a"), key("b"))] * 2
    (left,) = state.remove_group(key("b"))
    assert left.spec.group == (key("a"),)
    (orphan,) = state.remove_composite(key("all"))
    assert "there is no CompositePodGroup d/all" in orphan.spec.problem
    (free,) = state.set_group(read_scheduling_group(NEW, document("a", GANG)))
    assert (free.spec.quorum, free.spec.problem) == (None, "")


def test_the_cheapest_groups_are_enough() -> None:
    nested = Quorum(2, ("a", "b", "c"))
    quorum = Quorum(1, (nested, "d"))
    assert quorum.gangs == ("a", "b", "c", "d")
    assert quorum.cheapest({"a": 3, "b": 1, "c": 1, "d": 5}) == (2, ("b", "c"))
    assert quorum.cheapest({"a": 3, "d": 5}) == (5, ("d",))
    assert Quorum(2, ("a",)).cheapest({"a": 1})[1] == ()
    assert [quorum.is_met(one) for one in ({"a"}, {"a", "c"}, {"d"})] == [False, True, True]
