"""Owners of pods that fit nowhere get the reason, also when that changes."""

from __future__ import annotations

import json

from koord_scheduler.framework.decisions import Refusal
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.fit_error import fit_error_message
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.stale_reasons import PAUSE_SECONDS, StaleReasons, texts_of
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.node import Node, NodeSpec, NodeStatus
from koord_scheduler.plugins.node_resources_fit import NodeResourcesFit
from koord_scheduler.plugins.node_unschedulable import NodeUnschedulable
from koord_scheduler.state.pod_reader import PodReader


class Cluster:
    """Nodes, and what is said of pods that fit on none of them."""

    def __init__(self) -> None:
        plugins = EnabledPlugin(NodeUnschedulable()), EnabledPlugin(NodeResourcesFit())
        self.scheduler = Scheduler([Profile("default-scheduler", plugins)])
        self.reasons = StaleReasons(self.scheduler)
        self.reader = PodReader(self.scheduler.nodes)
        self.now = 0.0

    def node(self, name: str, cpu: str, *, unschedulable: bool = False) -> None:
        spec, amounts = NodeSpec(unschedulable=unschedulable), {"cpu": cpu, "pods": "110"}
        self.scheduler.nodes.set(Node(AnnotatedMeta(name), spec, NodeStatus(amounts)))

    def pod(self, name: str) -> None:
        meta = {"name": name, "namespace": "d", "uid": name}
        containers = [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]
        raw = json.dumps({"metadata": meta, "spec": {"containers": containers}}).encode()
        self.scheduler.set_pod(self.reader.read(raw), self.now)

    def reported(self, seconds: float = 0.0) -> dict[str, str]:
        """What the owners of pods hear after so many seconds."""
        self.now += seconds
        self.scheduler.wake(self.now)
        self.reasons.refresh(self.now)
        found = {}
        while (one := self.scheduler.decide(self.now)) is not None:
            assert isinstance(one, Refusal)
            diagnosis = diagnose(self.scheduler.scores(one.pod))
            if one.unreported:
                self.reasons.reported(one.pod, texts_of(diagnosis))
            found |= {pod.key: fit_error_message(diagnosis) for pod in one.unreported}
        return found


def test_another_reason_is_reported_within_seconds_and_other_numbers_are_not() -> None:
    cluster = Cluster()
    cluster.node("n1", "1")
    for name in ("a", "b"):
        cluster.pod(name)
    short = "0/1 nodes are available: 1 Insufficient cpu."
    assert cluster.reported() == {"d/a": short, "d/b": short}
    cluster.node("n2", "1")
    assert cluster.reported(PAUSE_SECONDS) == {}
    cluster.node("n1", "1", unschedulable=True)
    both = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."
    assert cluster.reported(PAUSE_SECONDS) == {"d/a": both, "d/b": both}
    assert cluster.reported(PAUSE_SECONDS) == {}
