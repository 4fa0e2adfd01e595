"""The gang in a pod's labels and annotations, and the kinds of groups that are read."""

from __future__ import annotations

import json

import pytest
from koord_model.keys import (
    ANNOTATION_BIND_GANG_COUNT,
    ANNOTATION_BIND_GANG_GROUP,
    ANNOTATION_GANG_NETWORK_INDEX,
    LABEL_POD_GROUP,
)
from koord_scheduler.gangs.gang_spec import GangDefaults
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.gangs.member import GangMember, Release, gang_member
from koord_scheduler.gangs.pod_group import read_pod_group
from koord_scheduler.plugins.coscheduling.group_objects import scheduling_group_kinds
from koord_scheduler.state.cluster_state import ClusterState


def member(**annotations: str) -> GangMember:
    found = gang_member("shop", {LABEL_POD_GROUP: "g"}, annotations, 0.0, GangDefaults())
    assert found is not None
    assert found.gang == "shop/g"
    return found


@pytest.mark.parametrize(("text", "index"), [("0", 0), ("7", 7), ("-1", -1), ("", -1), ("٣", -1)])
def test_the_place_of_a_pod_in_its_gang(text: str, index: int) -> None:
    assert member(**{ANNOTATION_GANG_NETWORK_INDEX: text}).gather_index == index
    assert member().gather_index == -1


@pytest.mark.parametrize(
    ("group", "count", "release"),
    [("g", "3", Release("g", 3)), ("g", "x", None), ("g", "", None), ("", "3", None)],
)
def test_with_how_many_a_pod_was_bound(group: str, count: str, release: Release | None) -> None:
    said = {ANNOTATION_BIND_GANG_GROUP: group, ANNOTATION_BIND_GANG_COUNT: count}
    assert member(**said).release == release


@pytest.mark.parametrize(
    ("created", "at"), [({}, 0.0), ({"creationTimestamp": "1970-01-01T00:01:00Z"}, 60.0)]
)
def test_a_group_is_as_old_as_its_object(created: dict[str, str], at: float) -> None:
    document = {"metadata": {"name": "g", "namespace": "shop", **created}, "spec": {"minMember": 2}}
    assert read_pod_group(json.dumps(document).encode(), GangDefaults()).spec.created == at


@pytest.mark.parametrize("groups", [False, True])
@pytest.mark.parametrize("composites", [False, True])
def test_groups_of_kubernetes_are_needed_where_they_are_read(
    groups: bool, composites: bool
) -> None:
    gangs = Gangs(ClusterState())
    gangs.reads_scheduling_groups = groups
    gangs.hierarchy.has_composites = composites
    first, *others = scheduling_group_kinds(gangs)
    assert first.is_needed == (groups and composites)
    assert [kind.is_needed for kind in others] == [groups] * len(others)
    assert all(kind.is_optional for kind in (first, *others)), "old API servers have none"
