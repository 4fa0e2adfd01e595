"""The conditions of PodGroups of Kubernetes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from koord_kube.protocol.resources import SCHEDULING_GROUPS
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.gangs.member import GangMember
from koord_scheduler.gangs.scheduling_group import read_scheduling_group
from koord_scheduler.plugins.coscheduling.group_conditions import conditions_patch
from koord_scheduler.state.cluster_state import ClusterState

KEY = "d/g.scheduling.k8s.io"
NOW = "2026-01-01T00:00:01Z"
BEFORE = "2026-01-01T00:00:00Z"


class Groups:
    """One PodGroup that needs two pods, and what is written of it."""

    def __init__(self, *conditions: dict[str, Any], version: int = 0, **spec: Any) -> None:
        self.gangs = Gangs(ClusterState())
        policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        names = {"name": "g", "namespace": "d", "uid": "u", "resourceVersion": "7"}
        document = {
            "metadata": {**names, "generation": 3},
            "spec": policy | spec,
            "status": {"conditions": conditions},
        }
        raw, resource = json.dumps(document).encode(), SCHEDULING_GROUPS[version]
        (one,) = self.gangs.hierarchy.set_group(read_scheduling_group(resource, raw))
        self.gangs.set_pod_group(one)

    def pod(self, name: str, *, is_bound: bool, is_preempted: bool = False) -> None:
        member = GangMember(KEY, is_preempted=is_preempted)
        self.gangs.set_member(f"d/{name}", name, member, is_bound=is_bound)

    def written(self) -> list[tuple[str, str, str, str]]:
        """Type, status, reason and message of all conditions; empty: nothing is written."""
        request = conditions_patch(self.gangs, self.gangs.by_key[KEY], NOW)
        if request is None or request.body is None:
            return []
        assert request.body["metadata"] == {"uid": "u", "resourceVersion": "7"}
        found = request.body["status"]["conditions"]
        return [(one["type"], one["status"], one["reason"], one["message"]) for one in found]


def condition(status: str, **more: Any) -> dict[str, Any]:
    """One that is there."""
    kind = {"type": "PodGroupInitiallyScheduled", "status": status, "reason": "Unschedulable"}
    times = {"lastTransitionTime": BEFORE, "observedGeneration": 3, "message": "too small"}
    return {**kind, **times, **more}


@pytest.mark.parametrize(
    ("version", "kind"), [(0, "PodGroupInitiallyScheduled"), (2, "PodGroupScheduled")]
)
def test_a_group_is_scheduled_once_enough_pods_have_nodes(version: int, kind: str) -> None:
    groups = Groups(version=version)
    groups.pod("a", is_bound=True)
    groups.pod("b", is_bound=False)
    assert groups.written() == []
    groups.gangs.assume("d/b")
    assert groups.written() == [(kind, "True", "Scheduled", "")]
    api = f"/apis/scheduling.k8s.io/{SCHEDULING_GROUPS[version].version}"
    request = conditions_patch(groups.gangs, groups.gangs.by_key[KEY], NOW)
    assert request is not None
    assert request.path == f"{api}/namespaces/d/podgroups/g/status"


def test_it_says_why_a_group_gets_no_nodes() -> None:
    groups = Groups()
    groups.pod("a", is_bound=False)
    groups.pod("b", is_bound=False)
    groups.gangs.refuse(KEY, "too small", 0.0)
    reported = ("PodGroupInitiallyScheduled", "False", "Unschedulable", "too small")
    assert groups.written() == [reported]
    groups.gangs.touched.clear()
    groups.gangs.refuse(KEY, "another count", 59.0)
    assert (groups.written(), groups.gangs.touched) == ([reported], set()), "not at each attempt"
    groups.gangs.refuse(KEY, "another count", 60.0)
    assert groups.written()[0][3] == "another count"


def test_a_group_that_cannot_be_placed_as_it_says_is_an_error() -> None:
    groups = Groups(priority=5)
    groups.pod("a", is_bound=False)
    ((_, status, reason, message),) = groups.written()
    assert (status, reason) == ("False", "SchedulerError")
    assert message.endswith("should match the priority of the pod group, got: 0 and 5")


def test_what_was_true_stays_so_and_what_is_there_already_is_not_written() -> None:
    scheduled = Groups(condition("True"))
    unschedulable = Groups(condition("False"))
    for groups in (scheduled, unschedulable):
        groups.pod("a", is_bound=False)
        groups.pod("b", is_bound=False)
        groups.gangs.refuse(KEY, "too small", 0.0)
        assert groups.written() == []


def test_other_conditions_stay_and_the_time_is_that_of_the_last_change() -> None:
    other = condition("True", type="Other")
    groups = Groups(other, condition("False", message="old"))
    groups.pod("a", is_bound=False)
    groups.pod("b", is_bound=False)
    groups.gangs.refuse(KEY, "new", 0.0)
    request = conditions_patch(groups.gangs, groups.gangs.by_key[KEY], NOW)
    assert request is not None
    assert request.body is not None
    assert request.body["status"]["conditions"] == [other, condition("False", message="new")]


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_group_that_is_preempted_whole_is_a_target_of_disruption(is_whole: bool) -> None:
    mode = {"disruptionMode": {"all" if is_whole else "single": {}}}
    groups = Groups(condition("True"), **mode)
    groups.pod("a", is_bound=True, is_preempted=True)
    found = {one[0]: one[1:3] for one in groups.written()}
    assert found.get("DisruptionTarget") == (
        ("True", "PreemptionByScheduler") if is_whole else None
    )
