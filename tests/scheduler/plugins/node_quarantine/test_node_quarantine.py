"""Nodes that reject their pods get no more of them, and are tried again by one pod."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.arguments.problems import SchedulerConfigError
from koord_scheduler.config.scheduler_config import scheduler_config
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.decisions import Placement, Refusal
from koord_scheduler.framework.diagnosis import diagnose
from koord_scheduler.framework.fit_error import fit_error_message
from koord_scheduler.framework.queue.scheduling_queue import SchedulingQueue
from koord_scheduler.framework.recording import (
    RecordedInput,
    RecordingScheduler,
    read_inputs,
    recorded_kind,
    recording_line,
)
from koord_scheduler.framework.replay import Replay
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.node_quarantine.columns import QuarantineColumns
from koord_scheduler.plugins.node_quarantine.verdict import Verdict, read_failed_pod
from koord_scheduler.plugins.node_quarantine.windows import Windows
from koord_scheduler.state.cluster_state import ClusterState

GPU, NIC = "nvidia.com/gpu", "example.com/nic"
START = 1_767_225_600.0
UNHEALTHY = (
    "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate "
    f"unhealthy devices {GPU}, which is unexpected"
)
PREFERRED = (
    "Pod was rejected: Allocate failed due to device plugin GetPreferredAllocation rpc failed with "
    "err: rpc error: code = Unknown, which is unexpected"
)


def time_text(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"2026-01-01T{minutes // 60:02}:{minutes % 60:02}:{rest:02}Z"


OTHERS = ("Reservation", "Coscheduling", "ElasticQuota", "NodeResourcesFitPlus", "SchedulingHint")


def config(*others: str, **args: int) -> dict[str, Any]:
    enabled = [{"name": name} for name in ("NodeQuarantine", *others)]
    plugins = {"multiPoint": {"enabled": enabled}}
    profile = {"plugins": plugins, "pluginConfig": [{"name": "NodeQuarantine", "args": args}]}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "percentageOfNodesToScore": 100,
        "profiles": [profile],
    }


class QuarantineCluster:
    """A scheduler with the plugin; the node ``bad`` is always the emptiest one."""

    def __init__(self, *nodes: str, others: Sequence[str] = ()) -> None:
        self.others = others
        self.inputs: list[RecordedInput] = []
        self.now = 0.0
        self.made = 0
        self.documents: dict[str, dict[str, dict[str, Any]]] = {"Node": {}, "Pod": {}, "Failed": {}}
        self.start()
        for name in nodes or ("bad", "n1", "n2", "n3", "n4"):
            has = {"cpu": "99", "memory": "8Gi", "pods": "99", GPU: "99", NIC: "99"}
            if name.startswith("bad"):
                has.update(cpu="9999", memory="9999Gi")
            self.put("Node", name, {"metadata": {"name": name}, "status": {"allocatable": has}})

    def start(self) -> None:
        args = {"rejections": 3, "ofBindings": 5, "firstPauseSeconds": 30}
        profile = scheduler_config(config(*self.others, **args)).profiles[0].guarded()
        self.profile = profile
        self.inputs.clear()
        record = self.inputs.append
        self.scheduler = RecordingScheduler(
            [profile], record, nodes=ClusterState(), queue=SchedulingQueue()
        )
        kinds = (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: self.now))
        self.kinds = {
            "Failed" if "?" in one.name else one.name: recorded_kind(one, record, lambda: self.now)
            for one in kinds
        }
        for kind, documents in self.documents.items():
            for key, document in documents.items():
                self.put(kind, key, document)
        self.wait(0.0)

    @property
    def columns(self) -> QuarantineColumns:
        return self.scheduler.nodes.use(QuarantineColumns)

    def put(self, kind: str, key: str, document: dict[str, Any]) -> None:
        self.documents[kind][key] = document
        self.kinds[kind].put(key, self.kinds[kind].read(json.dumps(document).encode()))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.scheduler.tick(self.now, START + self.now)
        self.scheduler.wake(self.now)

    def pod(self, *resources: str, owner: str = "") -> str:
        """A pod that waits; its key."""
        self.made += 1
        key = f"shop/p{self.made}"
        requests = {"cpu": "1", **dict.fromkeys(resources, "1")}
        metadata = {"name": f"p{self.made}", "namespace": "shop", "uid": str(self.made)}
        owners = [{"kind": "Job", "name": owner, "uid": owner, "controller": True}]
        document = {
            "metadata": {**metadata, "ownerReferences": owners if owner else []},
            "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        }
        self.put("Pod", key, document)
        return key

    def bind(self, *resources: str, owner: str = "") -> tuple[str, str]:
        """Decide about a new pod, and bind it: its key and node, "" if it waits."""
        key = self.pod(*resources, owner=owner)
        self.wait(0.0)
        decision = self.scheduler.decide(self.now)
        if not isinstance(decision, Placement):
            return key, ""
        document = self.documents["Pod"][key]
        document["spec"]["nodeName"] = decision.node
        self.put("Pod", key, document)
        return key, decision.node

    def run(self, key: str) -> None:
        status = {"phase": "Running", "startTime": time_text(self.now)}
        self.put("Pod", key, {**self.documents["Pod"][key], "status": status})
        self.wait(0.0)

    def reject(self, key: str, message: str = UNHEALTHY, *, gone_for: float = 0.0) -> None:
        """The kubelet does not admit it: one list loses it, the other one has it then."""
        self.kinds["Pod"].remove(key)
        self.wait(gone_for)
        status = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": message}
        status["startTime"] = time_text(self.now)
        self.put("Failed", key, {**self.documents["Pod"].pop(key), "status": status})
        self.wait(0.0)

    def swallow(self, *resources: str, message: str = UNHEALTHY) -> None:
        """Three pods are bound to ``bad``, which rejects them."""
        for _ in range(3):
            self.wait(1.0)
            key, node = self.bind(*resources)
            assert node == "bad"
            self.reject(key, message)


@pytest.mark.parametrize(
    ("resources", "message", "kept_off", "bound"),
    [
        ((GPU,), UNHEALTHY, (GPU,), ()),
        ((GPU,), UNHEALTHY, (GPU, NIC), (NIC,)),
        ((GPU, NIC), UNHEALTHY, (GPU,), (NIC,)),
        ((NIC,), PREFERRED, (NIC,), (GPU,)),
        ((GPU, NIC), PREFERRED, (), None),
        ((), UNHEALTHY, (), None),
    ],
)
def test_a_node_that_rejects_gets_no_more_pods_of_the_kind(
    resources: tuple[str, ...],
    message: str,
    kept_off: tuple[str, ...],
    bound: tuple[str, ...] | None,
) -> None:
    cluster = QuarantineCluster()
    cluster.swallow(*resources, message=message)
    assert cluster.bind(*kept_off)[1] not in ("", "bad")
    if bound is not None:
        assert cluster.bind(*bound)[1] == "bad"


def test_it_says_why_and_when_it_tries_again() -> None:
    cluster = QuarantineCluster("bad")
    cluster.swallow(GPU)
    key = cluster.pod(GPU)
    cluster.wait(10.0)
    decision = cluster.scheduler.decide(cluster.now)
    assert isinstance(decision, Refusal)
    diagnosis = diagnose(cluster.scheduler.scores(cluster.scheduler.queue.pods[key]))
    message = fit_error_message(diagnosis, decision.preemption)
    assert f"1 node(s) rejected their last pods with {GPU}" in message
    note = cluster.columns.quarantine.note_on("bad", GPU)
    assert note == "3 of the last 3 pods, next try in 20 s"
    (warning,) = cluster.columns.take_warnings()
    assert warning.startswith("node bad rejected 3 of the last 3 pods")


@pytest.mark.parametrize("others", [(), OTHERS])
def test_one_pod_at_a_time_tries_it_again_after_pauses_that_double(others: Sequence[str]) -> None:
    cluster = QuarantineCluster(others=others)
    cluster.swallow(GPU)
    tried = [cluster.now]
    while len(tried) < 5:
        cluster.wait(1.0)
        key, node = cluster.bind(GPU)
        if node == "bad":
            other, node = cluster.bind(GPU)
            assert node != "bad"  # while that is the trial
            cluster.kinds["Pod"].remove(other)
            tried.append(cluster.now)
            cluster.reject(key, gone_for=3.0)
            tried[-1] = cluster.now
        else:
            cluster.kinds["Pod"].remove(key)
    pauses = [after - before for before, after in pairwise(tried)]
    assert pauses == pytest.approx([33, 63, 123, 243], abs=1.5)
    cluster.wait(2000.0)
    key, node = cluster.bind(GPU)
    assert node == "bad"
    cluster.run(key)
    assert {cluster.bind(GPU)[1] for _ in range(3)} == {"bad"}
    assert not cluster.columns.blocked


def test_a_trial_pod_that_goes_leaves_its_place_to_another() -> None:
    cluster = QuarantineCluster()
    cluster.swallow(GPU)
    cluster.wait(30.0)
    key, node = cluster.bind(GPU)
    assert node == "bad"
    cluster.kinds["Pod"].remove(key)
    cluster.wait(9.0)
    assert cluster.bind(GPU)[1] != "bad"
    cluster.wait(2.0)
    assert cluster.bind(GPU)[1] == "bad"


def test_a_waiting_pod_is_woken_for_the_trial() -> None:
    cluster = QuarantineCluster("bad")
    cluster.swallow(GPU)
    _, node = cluster.bind(GPU)
    assert node == ""
    cluster.wait(31.0)
    assert isinstance(cluster.scheduler.decide(cluster.now), Placement)


def test_a_restarted_scheduler_knows_it_from_the_failed_pods() -> None:
    cluster = QuarantineCluster()
    cluster.swallow(GPU)
    cluster.start()
    assert cluster.bind(GPU)[1] != "bad"
    cluster.wait(2000.0)
    cluster.start()
    assert cluster.bind(GPU)[1] == "bad"  # all of it is older than the longest pause


def test_a_recording_replays() -> None:
    cluster = QuarantineCluster()
    cluster.swallow(GPU)
    cluster.bind(GPU)
    again = Scheduler([cluster.profile])
    lines = [recording_line(one) for one in cluster.inputs]
    assert all(one.is_same for one in Replay(again, lambda *_: None).run(read_inputs(lines)))
    assert again.nodes.use(QuarantineColumns).quarantine.wards.keys() == {("bad", GPU)}


def test_pods_that_fail_anywhere_are_no_fault_of_nodes() -> None:
    cluster = QuarantineCluster("bad", *(f"n{number}" for number in range(20)))
    while len({one.split()[1] for one in cluster.columns.take_warnings()}) < 1:
        cluster.reject(cluster.bind(GPU, owner="broken")[0])
    for node in ("n1", "n2"):
        cluster.wait(1.0)
        key = cluster.pod(GPU, owner="broken")
        cluster.documents["Pod"][key]["spec"]["nodeName"] = node
        cluster.reject(key)
    assert not cluster.columns.blocked
    assert cluster.bind(GPU)[1] == "bad"


def test_at_most_a_fifth_of_the_nodes() -> None:
    cluster = QuarantineCluster(*(f"bad{number}" for number in range(10)))
    rejected: list[str] = []
    for _ in range(60):
        cluster.wait(0.1)
        key, node = cluster.bind(GPU)
        rejected.append(node)
        cluster.reject(key)
    assert len({node for node, _ in cluster.columns.quarantine.wards}) == 2
    assert any("20 % of all" in line for line in cluster.columns.take_warnings())


def test_a_node_that_is_made_anew_begins_anew() -> None:
    cluster = QuarantineCluster()
    cluster.swallow(GPU)
    node = cluster.documents["Node"]["bad"]
    cluster.kinds["Node"].remove("bad")
    cluster.put("Node", "bad", node)
    assert cluster.bind(GPU)[1] == "bad"


def failed(reason: str, message: str = "", **status: Any) -> tuple[Verdict, ...]:
    container = {"name": "c", "resources": {"limits": {"cpu": "1", GPU: "1"}}}
    document = {
        "metadata": {"name": "p", "namespace": "shop", "uid": "u"},
        "spec": {"nodeName": "n1", "containers": [container]},
        "status": {"phase": "Failed", "reason": reason, "message": message, **status},
    }
    return read_failed_pod(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("reason", "message", "kind"),
    [
        ("UnexpectedAdmissionError", UNHEALTHY, GPU),
        ("UnexpectedAdmissionError", "Update plugin resources failed", GPU),
        (f"OutOf{GPU}", "", GPU),
        ("OutOfcpu", "", ""),
        ("NodeShutdown", "Pod was rejected as the node is shutting down.", ""),
        ("TopologyAffinityError", "Resources cannot be allocated with Topology locality", GPU),
        ("Evicted", "The node was low on resource: memory.", None),
        ("PodOSNotSupported", "", None),
        ("", "", None),
    ],
)
def test_what_a_failed_pod_says_of_its_node(reason: str, message: str, kind: str | None) -> None:
    assert [one.kind for one in failed(reason, message)] == ([] if kind is None else [kind])
    ran = [{"state": {"terminated": {"exitCode": 1}}}]
    assert failed(reason, message, containerStatuses=ran) == ()


VERDICTS = st.builds(
    Verdict,
    uid=st.integers(0, 30).map(str),
    node=st.sampled_from(["a", "b"]),
    at=st.integers(0, 9).map(float),
    owner=st.sampled_from("xyz"),
    kinds=st.just((GPU,)),
    is_rejected=st.booleans(),
    kind=st.sampled_from(["", GPU]),
)


@given(st.lists(VERDICTS, unique_by=lambda one: one.uid), st.randoms(use_true_random=False))
def test_verdicts_count_once_in_any_order(verdicts: list[Verdict], rng: Any) -> None:
    def counts(given_verdicts: list[Verdict]) -> list[tuple[int, int]]:
        windows = Windows(4)
        for verdict in given_verdicts:
            windows.add(verdict)
        return [windows.rejections(node, kind, 3.0) for node in "ab" for kind in ("", GPU)]

    again = [*verdicts, *verdicts]
    rng.shuffle(again)
    found = counts(again)
    # An owner that failed everywhere needs three nodes; here are two.
    for place, (node, kind) in enumerate((node, kind) for node in "ab" for kind in ("", GPU)):
        of = [
            one
            for one in verdicts
            if one.node == node and (not one.is_rejected or one.kind == kind)
        ]
        last = sorted(of, key=lambda one: (one.at, one.uid))[-4:]
        late = [one for one in last if one.at >= 3.0]
        assert found[place] == (sum(one.is_rejected for one in late), len(late))


@pytest.mark.parametrize(
    ("args", "what"),
    [
        ({"rejections": 6}, "rejections is 6; expected at most ofBindings (5)"),
        ({"ofBindings": 101}, "ofBindings is 101; expected at most 100"),
        ({"firstPauseSeconds": 2000}, "firstPauseSeconds is 2000; expected at most longest"),
        ({"rejections": 0}, "rejections is 0; expected"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(args: dict[str, int], what: str) -> None:
    with pytest.raises(SchedulerConfigError) as caught:
        scheduler_config(config(**args))
    assert what in str(caught.value)
