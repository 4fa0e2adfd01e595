"""The status of PodGroups follows their pods, and is written where it changes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest
from koord_kube.protocol.request import Request
from koord_scheduler.gangs.gang_spec import GangDefaults
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.gangs.member import GangMember
from koord_scheduler.gangs.pod_group import PodGroupStatus, read_pod_group
from koord_scheduler.plugins.coscheduling.controller import PodGroupController
from koord_scheduler.plugins.coscheduling.pod_group_status import (
    MemberPhases,
    is_settled,
    next_status,
)
from koord_scheduler.state.cluster_state import ClusterState

from tests.support.reconciling import reconcile_due

NOW = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("phase", "pods", "after"),
    [
        ("", MemberPhases(0, 0), "Pending"),
        ("Pending", MemberPhases(2, 0), "Pending"),
        ("Pending", MemberPhases(3, 0), "PreScheduling"),
        ("PreScheduling", MemberPhases(3, 0), "Scheduling"),
        ("Scheduling", MemberPhases(3, 2), "Scheduling"),
        ("Scheduling", MemberPhases(3, 3), "Scheduled"),
        ("Scheduled", MemberPhases(3, 3, running=2, succeeded=1), "Running"),
        ("Running", MemberPhases(3, 3, running=2, failed=1), "Failed"),
        ("Running", MemberPhases(3, 3, succeeded=3), "Finished"),
        ("Running", MemberPhases(2, 2, running=2), "Scheduling"),
        ("Running", MemberPhases(0, 0), "Pending"),
    ],
)
def test_a_step(phase: str, pods: MemberPhases, after: str) -> None:
    assert next_status(PodGroupStatus(phase), 3, pods, NOW).phase == after


def test_a_group_that_needs_none_stays_pending() -> None:
    assert next_status(PodGroupStatus("Pending"), 0, MemberPhases(3, 0), NOW).phase == "Pending"


def test_when_nothing_is_said_any_more() -> None:
    assert is_settled(PodGroupStatus("Finished"), 3, 0.0)
    stale = PodGroupStatus("Scheduled", scheduled=3, schedule_start_time="1970-01-03T00:00:01Z")
    assert is_settled(stale, 3, 0.0)
    assert not is_settled(stale, 3, 2.0)
    assert not is_settled(msgspec.structs.replace(stale, running=1), 3, 0.0)


class Controller:
    """A controller, what it writes, and what the API says of pods that have ended."""

    def __init__(self) -> None:
        self.gangs = Gangs(ClusterState())
        self.written: list[Request] = []
        self.ended: list[str] = []
        self.controller = PodGroupController(self.gangs, self._write, self._ended, wall=lambda: 0.0)

    async def _write(self, request: Request) -> bytes:
        self.written.append(request)
        return b""

    async def _ended(self, namespace: str, name: str) -> AsyncIterator[str]:
        assert (namespace, name) == ("d", "g")
        for phase in self.ended:
            yield phase

    def pod_group(self, **status: object) -> None:
        metadata = {"name": "g", "namespace": "d", "uid": "u", "resourceVersion": "7"}
        document = {"metadata": metadata, "spec": {"minMember": 2}, "status": status}
        self.gangs.set_pod_group(read_pod_group(msgspec.json.encode(document), GangDefaults()))

    def pod(self, name: str, phase: str, *, is_bound: bool = True) -> None:
        member = GangMember("d/g", phase=phase, owners="d/job")
        self.gangs.set_member(f"d/{name}", name, member, is_bound=is_bound)


async def test_it_writes_what_changed_of_the_version_that_it_looked_at() -> None:
    cluster = Controller()
    cluster.pod_group(phase="Pending")
    cluster.pod("a", "Pending", is_bound=False)
    await reconcile_due(cluster.controller)
    assert cluster.written == []
    cluster.pod("b", "Pending", is_bound=False)
    await reconcile_due(cluster.controller)
    [request] = cluster.written
    assert request.path == "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/d/podgroups/g"
    assert request.body == {
        "metadata": {"uid": "u", "resourceVersion": "7"},
        "status": {"phase": "PreScheduling", "occupiedBy": "d/job"},
    }


async def test_pods_that_have_ended_are_read_where_they_are_missing() -> None:
    cluster = Controller()
    cluster.pod_group(phase="Running", scheduled=2, running=2)
    cluster.pod("a", "Running")
    cluster.pod("b", "Running")
    await reconcile_due(cluster.controller)
    assert cluster.written == []
    for name, phase, expected in (("a", "Succeeded", "Running"), ("b", "Failed", "Failed")):
        cluster.gangs.remove_member(f"d/{name}")
        cluster.ended.append(phase)
        await reconcile_due(cluster.controller)
        body = cluster.written[-1].body
        assert body is not None
        assert (body["status"]["phase"], body["status"]["scheduled"]) == (expected, 2)
    status = body["status"]
    assert (status["running"], status["succeeded"], status["failed"]) == (0, 1, 1)


def test_a_new_leader_looks_at_all_groups_once() -> None:
    cluster = Controller()
    cluster.pod_group()
    assert list(cluster.controller.due()) == ["d/g"]
    assert list(cluster.controller.due()) == []
    successor = PodGroupController(cluster.gangs, cluster._write, cluster._ended)
    assert list(successor.due()) == ["d/g"]
