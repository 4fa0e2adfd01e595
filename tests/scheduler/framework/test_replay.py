"""What was recorded is decided the same again; by other profiles it has its own effects."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.queue.scheduling_queue import SchedulingQueue
from koord_scheduler.framework.recording import (
    RecordedInput,
    RecordingScheduler,
    read_inputs,
    recorded_kind,
    recording_line,
)
from koord_scheduler.framework.replay import Replay, ReplayedDecision
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.framework.waker import FLUSH_SECONDS
from koord_scheduler.objects.pod_times import PodTimes
from koord_scheduler.plugin import Filter, Plugin
from koord_scheduler.plugins.load_aware.args import LoadAwareSchedulingArgs
from koord_scheduler.plugins.load_aware.plugin import LoadAwareScheduling
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_class import PodClass

from tests.scheduler.framework.test_scheduler import Cluster


def replayed(scheduler: Scheduler, inputs: Sequence[RecordedInput]) -> Iterator[ReplayedDecision]:
    lines = [recording_line(one) for one in inputs]
    return Replay(scheduler, lambda *_: None).run(read_inputs(lines))


@given(st.integers(0, 1 << 32))
def test_the_same_is_decided(seed: int) -> None:
    rng = Random(seed)
    inputs: list[RecordedInput] = []
    cluster = Cluster(rng, inputs.append)
    then = cluster.scheduler
    for number in range(60):
        cluster.change()
        if number % rng.choice((1, 5)):
            continue
        cluster.now += rng.choice((0.5, 11.0, FLUSH_SECONDS))
        then.tick(cluster.now)
        while then.decide(cluster.now):
            pass
        then.wake(cluster.now)
    now = Scheduler([cluster.profile])
    assert all(one.is_same for one in replayed(now, inputs))
    assert now.placed.by_key.keys() == then.placed.by_key.keys()
    assert now.assumed.keys() == then.assumed.keys()
    assert now.queue.counts() == then.queue.counts()


class Only(Plugin):
    """Lets pods run on one node."""

    name = "Only"

    def __init__(self, node: str) -> None:
        self.node = node

    def filter(self, pod: PodClass, nodes: ClusterState) -> Filter | None:
        def can_run(rows: Rows) -> Mask:
            return np.array([nodes.name(int(row)) == self.node for row in rows], np.bool_)

        return can_run


def only(node: str) -> list[Profile]:
    return [Profile("default-scheduler", (EnabledPlugin(Only(node)),))]


class OneNodeRecording:
    """Decisions for the node n1 alone."""

    def __init__(self) -> None:
        self.inputs: list[RecordedInput] = []
        record = self.inputs.append
        self.scheduler = RecordingScheduler(
            only("n1"), record, nodes=ClusterState(), queue=SchedulingQueue()
        )
        kinds = (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: 0.0))
        self.kinds = {one.resource.kind: recorded_kind(one, record, lambda: 0.0) for one in kinds}
        for name in ("n1", "n2"):
            node = {"metadata": {"name": name}}
            self.kinds["Node"].put(name, self.kinds["Node"].read(json.dumps(node).encode()))

    def pod(self, name: str, uid: str, node: str = "") -> None:
        metadata = {"name": name, "namespace": "d", "uid": uid}
        pod = {"metadata": metadata, "spec": {"nodeName": node}}
        self.kinds["Pod"].put(f"d/{name}", self.kinds["Pod"].read(json.dumps(pod).encode()))

    def bind(self, name: str, uid: str) -> None:
        """It is created, decided, and bound."""
        self.pod(name, uid)
        assert self.scheduler.decide(0.0)
        assert self.scheduler.decide(0.0) is None
        self.pod(name, uid, "n1")

    def replay(self, node: str) -> tuple[dict[str, str], set[str]]:
        """Where pods are, and who waits."""
        scheduler = Scheduler(only(node))
        list(replayed(scheduler, self.inputs))
        assert not scheduler.assumed, "the API has confirmed all"
        placed = {key: pod.node for key, pod in scheduler.placed.by_key.items()}
        return placed, set(scheduler.queue.pods)


def test_pods_are_bound_where_they_are_put_now() -> None:
    recorded = OneNodeRecording()
    recorded.bind("a", "1")
    recorded.pod("other", "2", "n1")
    assert recorded.replay("n1") == ({"d/a": "n1", "d/other": "n1"}, set())
    assert recorded.replay("n2") == ({"d/a": "n2", "d/other": "n1"}, set())
    assert recorded.replay("n3") == ({"d/other": "n1"}, {"d/a"})


def test_another_pod_of_a_name_is_not_where_the_first_one_was() -> None:
    recorded = OneNodeRecording()
    recorded.bind("a", "1")
    recorded.kinds["Pod"].remove("d/a")
    recorded.pod("a", "2", "n1")
    assert recorded.replay("n2") == ({"d/a": "n1"}, set())
    recorded.kinds["Pod"].remove("d/a")
    recorded.kinds["Node"].remove("n2")
    recorded.bind("a", "3")
    assert recorded.replay("n2") == ({}, {"d/a"})


def test_all_pods_are_decided_that_fit_now() -> None:
    """Then the first of them was refused, and with it all the others of its class."""
    recorded = OneNodeRecording()
    recorded.kinds["Node"].remove("n1")
    for name in "abc":
        recorded.pod(name, name)
    assert recorded.scheduler.decide(0.0)
    assert recorded.scheduler.decide(0.0) is None
    scheduler = Scheduler(only("n2"))
    made = [one.replayed for one in replayed(scheduler, recorded.inputs)]
    assert [one.pod for one in made if one is not None] == ["d/a", "d/b", "d/c"]


def test_a_binding_that_failed_after_its_pod_was_gone_counts_for_no_other() -> None:
    recorded = OneNodeRecording()
    recorded.pod("a", "1")
    assert recorded.scheduler.decide(0.0)
    late = recorded.scheduler.assumed["d/a"]
    recorded.kinds["Pod"].remove("d/a")
    recorded.pod("a", "2")
    assert recorded.scheduler.decide(0.0)
    recorded.scheduler.forget(late, 0.0)
    scheduler = Scheduler(only("n1"))
    list(replayed(scheduler, recorded.inputs))
    assert scheduler.assumed.keys() == {"d/a"}


def test_what_time_does_to_reports_is_done_again() -> None:
    plugin = LoadAwareScheduling(LoadAwareSchedulingArgs().settings())
    profile = Profile("default-scheduler", (EnabledPlugin(plugin),))
    inputs: list[RecordedInput] = []
    then = RecordingScheduler(
        [profile], inputs.append, nodes=ClusterState(), queue=SchedulingQueue()
    )
    kinds = (*cluster_kinds(then), pod_kind(then, lambda: 0.0))
    known = {one.resource.kind: recorded_kind(one, inputs.append, lambda: 0.0) for one in kinds}

    def put(kind: str, key: str, document: object) -> None:
        known[kind].put(key, known[kind].read(json.dumps(document).encode()))

    put("Node", "n1", {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "8"}}})
    status = {"updateTime": "1970-01-01T00:10:00Z", "nodeMetric": {}}
    put("NodeMetric", "n1", {"metadata": {"name": "n1"}, "status": status})
    for name, epoch in {"a": 779.0, "b": 780.0}.items():
        then.tick(0.0, epoch)
        put("Pod", f"d/{name}", {"metadata": {"name": name, "namespace": "d", "uid": name}})
        assert then.decide(0.0)
    now = Scheduler([profile])
    decisions = list(replayed(now, inputs))
    assert [one.recorded.result for one in decisions if one.recorded] == ["placed", "unschedulable"]
    assert all(one.is_same for one in decisions)
    assert now.placed.by_key["d/a"].times == then.placed.by_key["d/a"].times == PodTimes(779.0)
