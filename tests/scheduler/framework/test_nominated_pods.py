"""Room that victims make is kept for the pod that they made it for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from koord_scheduler.config.scheduler_config import default_scheduler_config
from koord_scheduler.framework.decisions import Decision, Placement, PreemptionPlan, Refusal
from koord_scheduler.framework.profile import Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.objects.node import read_node
from koord_scheduler.state.pod_reader import PodReader

[DEFAULT] = (one.profile for one in default_scheduler_config().profiles)


class Cluster:
    """Nodes with a core each, and pods that want one."""

    def __init__(self, *nodes: str, profile: Profile = DEFAULT) -> None:
        self.scheduler = Scheduler([profile])
        self.reader = PodReader(self.scheduler.nodes)
        for name in nodes:
            self.node(name)

    def node(self, name: str, cpu: str = "1") -> None:
        amounts = {"cpu": cpu, "memory": "8Gi", "pods": "9"}
        document = {"metadata": {"name": name}, "status": {"allocatable": amounts}}
        self.scheduler.nodes.set(read_node(json.dumps(document).encode()))

    def pod(self, name: str, priority: int, node: str = "", nominated: str = "") -> None:
        spec = {
            "nodeName": node,
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        }
        document = {
            "metadata": {"name": name, "namespace": "d", "uid": name},
            "spec": spec,
            "status": {"nominatedNodeName": nominated},
        }
        self.scheduler.set_pod(self.reader.read(json.dumps(document).encode()), 0.0)

    def decide(self) -> Decision | None:
        self.scheduler.wake(0.0)
        return self.scheduler.decide(0.0)


def test_a_victim_is_named_and_its_room_is_kept() -> None:
    cluster = Cluster("n1")
    cluster.pod("batch", 0, "n1")
    cluster.pod("web", 10)
    plan = cluster.decide()
    assert isinstance(plan, PreemptionPlan)
    assert plan.preemption.node == "n1"
    assert [one.key for one in plan.preemption.victims] == ["d/batch"]
    assert cluster.decide() is None, "it waits for its victim"
    cluster.scheduler.remove_pod("d/batch")
    assert cluster.decide() == Placement(plan.pod, "n1")
    assert not len(cluster.scheduler.nominations), "its room is counted once"
    cluster.scheduler.forget(plan.pod, 0.0)
    cluster.pod("other", 5)
    assert isinstance(cluster.decide(), Refusal), "its binding failed, and it comes again"
    cluster.scheduler.queue.tick(1.0)
    again = cluster.decide()
    assert isinstance(again, Placement)
    assert again.pod.key == "d/web"


@pytest.mark.parametrize(("priority", "gets_it"), [(0, False), (10, False), (11, True)])
def test_who_may_take_that_room(priority: int, gets_it: bool) -> None:
    cluster = Cluster("n1")
    cluster.pod("web", 10, nominated="n1")
    cluster.scheduler.queue.remove("d/web")
    cluster.pod("other", priority)
    assert isinstance(cluster.decide(), Placement) is gets_it


def test_a_nominated_pod_goes_where_its_room_is_kept() -> None:
    cluster = Cluster("n1")
    cluster.node("better", "64")
    cluster.pod("web", 10, nominated="n1")
    placement = cluster.decide()
    assert isinstance(placement, Placement)
    assert placement.node == "n1"


def test_a_nominated_pod_goes_elsewhere_if_that_room_is_gone() -> None:
    cluster = Cluster("n1", "n2")
    cluster.pod("taker", 20, "n1")
    cluster.pod("web", 10, nominated="n1")
    placement = cluster.decide()
    assert isinstance(placement, Placement)
    assert placement.node == "n2"


def test_a_more_important_pod_displaces_the_nomination_of_another() -> None:
    cluster = Cluster("n1")
    cluster.pod("batch", 0, "n1")
    cluster.pod("web", 10)
    assert isinstance(cluster.decide(), PreemptionPlan)
    cluster.pod("core", 20)
    plan = cluster.decide()
    assert isinstance(plan, PreemptionPlan)
    assert (plan.pod.key, plan.displaced) == ("d/core", ("d/web",))


def test_room_that_was_lost_to_another_pod_is_kept_no_longer() -> None:
    cluster = Cluster("n1")
    cluster.pod("batch", 0, "n1")
    cluster.pod("web", 10)
    assert isinstance(cluster.decide(), PreemptionPlan)
    cluster.scheduler.remove_pod("d/batch")
    cluster.pod("core", 20, "n1")
    refusal = cluster.decide()
    assert isinstance(refusal, Refusal)
    assert (refusal.pod.key, refusal.lost_nomination) == ("d/web", True)
    cluster.scheduler.remove_pod("d/core")
    cluster.pod("other", 0)
    placed = [cluster.decide() for _ in range(2)]
    assert [one.pod.key for one in placed if isinstance(one, Placement)] == ["d/web"]


def test_room_is_kept_while_victims_leave() -> None:
    cluster = Cluster("n1")
    cluster.pod("batch", 0, "n1")
    cluster.pod("web", 10)
    assert isinstance(cluster.decide(), PreemptionPlan)
    assert cluster.scheduler.wake(59.0) == 0
    assert len(cluster.scheduler.nominations) == 1


def test_a_profile_without_preemption_only_refuses() -> None:
    cluster = Cluster("n1", profile=replace(DEFAULT, preempts=False))
    cluster.pod("batch", 0, "n1")
    cluster.pod("web", 10)
    refusal = cluster.decide()
    assert isinstance(refusal, Refusal)
    assert (refusal.preemption, [one.key for one in refusal.unreported]) == ("", ["d/web"])
