"""A CPU has one owner at a time: a pool, interrupts, an exclusive pod, or those who share."""

from __future__ import annotations

import errno
import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from koord_hooks.runner import load
from koord_model import cpuset
from koord_model.allocation import ResourceAllocation
from koord_model.interrupts import NetworkCard, NodeInterrupts, QueueInterrupt
from koord_model.keys import CPU
from koord_model.qos import QoSClass
from koordlet.agent.config import KoordletSettings
from koordlet.qos_manager.core.strategy import PodView
from koordlet.qos_manager.strategy_table import select_enabled

from tests.support.examples import fewer
from tests.support.node.strategies import ALL_GATES, StrategyNode, StrategyRun
from tests.support.node.workload import a_pod, measured
from tests.support.views import FakeLatest, pod_view

POOLS, IRQ, SUPPRESS = FEATURES = ("cpu_pools", "irq_affinity", "cpu_suppress")
STRATEGIES = [
    one for one in select_enabled(asdict(KoordletSettings()), ALL_GATES)[0] if one.name in FEATURES
]
HOOKS = load(["cpusetallocator", "resourceplugins"])
WHOLE = frozenset(range(16))
INTERRUPTS = tuple(QueueInterrupt(30 + queue, queue, 1000.0) for queue in range(4))
ON = {IRQ: {"policy": "irq-cores-exclusive"}, SUPPRESS: {"enable": True}}
OFF = {POOLS: {"mode": "off"}, IRQ: {"mode": "off"}, SUPPRESS: {"enable": False}}
OWNERS = ("annotation", "kubelet", "plugin")
STATE = "/var/lib/kubelet/cpu_manager_state"


@dataclass
class Shared:
    """A node with pods of two pools, of none, and best-effort ones, and a busy network card."""

    node: StrategyNode
    run: StrategyRun
    given: dict[str, int] = field(default_factory=dict)
    off: dict[str, object] = field(default_factory=dict)

    @property
    def owned(self) -> frozenset[int]:
        return frozenset(self.given.values())

    def pod(self, name: str) -> PodView:
        return next(pod for pod in self.node.pods if pod.record.pod.name == name)

    def cpus(self, name: str) -> frozenset[int]:
        """CPUs that the pod's container runs on."""
        return self.node.cpus(self.pod(name).containers[0].group) or WHOLE

    def claims(self, strategy: str) -> frozenset[int]:
        return self.run.decider.set_aside.claims.get(strategy, frozenset())

    def irq_cpus(self) -> set[str]:
        texts = self.node.files.plain.texts
        return {texts[f"/proc/irq/{one.irq}/smp_affinity_list"].strip() for one in INTERRUPTS}

    def round(self, times: int = 1, seconds: float = 5.0) -> None:
        """Rounds in which everybody plans; after each of them no CPU has two owners."""
        for _ in range(times):
            at = self.node.steady + seconds
            card = NetworkCard("eth0", "/sys/class/net/eth0", INTERRUPTS, packets=9e4)
            shown = NodeInterrupts(at, (card,), dict.fromkeys(range(16), 10.0))
            found = measured(self.node.pods, 0.5, at=self.node.wall + seconds)
            found.latest = FakeLatest(found.latest.values, *found.latest.infos, shown)
            self.node.measured = found
            settings = ON | self.off
            self.node.slo = {"extensions": {"pykoord": {"strategies": settings}}}
            self.run.round(seconds)
            self.check()

    def check(self) -> None:
        aside = self.run.decider.set_aside
        one, other = self.claims(POOLS), self.claims(IRQ)
        assert not one & other
        assert not self.owned & (one | other)
        named = [cpuset.parse(pool.cpuset) for pool in aside.named]
        assert sum(map(len, named)) == len(frozenset().union(*named)) == len(one)
        assert self.run.found is not None
        assert (self.run.found.problems, self.run.done[-1].defects) == ((), ())
        # A group with tasks is to have no CPUs of its own any more.
        assert {code for _, _, code in self.node.files.refused} <= {errno.ENOSPC}
        for name in ("web", "spark", "flink"):
            assert not self.cpus(name) & self.owned, name

    def settled(self) -> None:
        """A round later everybody runs where he is to, and nowhere else."""
        aside = self.claims(POOLS) | self.claims(IRQ)
        for name in ("web", "job", "batch"):
            assert not self.cpus(name) & aside, name
        for pool in self.run.decider.set_aside.named:
            assert self.cpus(pool.name) == cpuset.parse(pool.cpuset)
        assert self.cpus("web") == WHOLE - aside - self.owned
        if self.claims(IRQ):
            assert self.irq_cpus() == {str(cpu) for cpu in self.claims(IRQ)}

    def give(self, owner: str, cpu: int) -> None:
        """A pod starts that has a CPU for itself, by one of those who can give one."""
        self.given[owner] = cpu
        name = f"own-{owner}"
        own = str(cpu) if owner == "annotation" else ""
        self.node.start(a_pod(self.node.layout, name, QoSClass.LSR, 1, own))
        if owner == "kubelet":
            for one in self.pod(name).containers:
                self.node.set(one.group, "cpuset.cpus", str(cpu))
        if owner == "plugin":
            amount = {"cpu": ResourceAllocation("CpusetCpus", str(cpu))}
            allocated = {name: dict.fromkeys(("main", "side"), amount)}
            self.run.node.views.allocations = lambda: allocated
        if self.node.static:
            own = {by: {"main": str(cpu)} for by, cpu in self.given.items() if by == "kubelet"}
            entries = {f"own-{by}": cpus for by, cpus in own.items()}
            text = json.dumps({"policyName": "static", "entries": entries})
            self.node.files.plain.texts[STATE] = text


def of_pool(node: StrategyNode, name: str, cores: int) -> PodView:
    words = {"katalyst.kubewharf.io/cpu_enhancement": json.dumps({"cpuset_pool": name})}
    amounts = {CPU: cores * 1000}
    containers = {"main": (amounts, amounts)}
    return pod_view(
        name, qos=QoSClass.LS, annotations=words, containers=containers, layout=node.layout
    )


@contextmanager
def a_node(directory: Path, version: int, *, static: bool) -> Iterator[Shared]:
    node = StrategyNode(directory, version, static=static)
    for one in INTERRUPTS:
        node.files.plain.texts[f"/proc/irq/{one.irq}/smp_affinity_list"] = "0-15\n"
    node.start(
        of_pool(node, "spark", 3),
        of_pool(node, "flink", 2),
        a_pod(node.layout, "web", QoSClass.LS),
        *(a_pod(node.layout, name, QoSClass.BE) for name in ("job", "batch")),
    )
    with node.run(HOOKS, strategies=STRATEGIES) as run:
        yield Shared(node, run)


@fewer(8)
@given(
    st.permutations(OWNERS),
    st.lists(st.sampled_from([POOLS, IRQ, SUPPRESS]), min_size=3, max_size=3),
    st.permutations(FEATURES),
    st.sampled_from([1, 2]),
    st.booleans(),
)
@example(list(OWNERS), [IRQ, POOLS, IRQ], list(FEATURES), 2, False)
@example(list(OWNERS), [POOLS, IRQ, SUPPRESS], [IRQ, SUPPRESS, POOLS], 1, True)
def test_no_cpu_has_two_owners_and_features_leave_nothing(
    owners: list[str], targets: list[str], order: list[str], version: int, static: bool
) -> None:
    owners = [owner for owner in owners if static or owner != "kubelet"]
    with tempfile.TemporaryDirectory(prefix="koord-test-", dir="/dev/shm") as folder:
        with a_node(Path(folder) / "node", version, static=static) as shared:
            life(shared, owners, targets, order)
            left = shared.node.values()
        with a_node(Path(folder) / "twin", version, static=static) as alone:
            alone.off = {feature: {"mode": "off"} for feature in FEATURES}
            for owner, cpu in shared.given.items():
                alone.give(owner, cpu)
            alone.round(4)
            assert left == alone.node.values()


def life(shared: Shared, owners: list[str], targets: list[str], order: list[str]) -> None:
    shared.node.pods_known = False  # as when koordlet starts
    shared.round(2)
    assert not shared.claims(POOLS) | shared.claims(IRQ)
    shared.node.pods_known = True
    shared.round(12)
    before = shared.claims(POOLS), shared.claims(IRQ)
    assert all(before)
    shared.settled()
    shared.round(12)
    assert (shared.claims(POOLS), shared.claims(IRQ)) == before  # nobody moves without a reason
    for owner, target in zip(owners, targets, strict=False):
        found = shared.claims(target) or shared.cpus("job") - shared.owned
        shared.give(owner, min(found))
        shared.round(2)
        assert shared.owned.isdisjoint(shared.claims(POOLS) | shared.claims(IRQ))
        shared.settled()
        held = shared.claims(POOLS), shared.claims(IRQ)
        shared.node.pods_known = False
        shared.round(2)
        assert (shared.claims(POOLS), shared.claims(IRQ)) == held
        shared.node.pods_known = True
        shared.round(1, 605.0)  # a card that gave way waits for ten minutes
        shared.round(8)
        assert {pool.name for pool in shared.run.decider.set_aside.named} == {"flink", "spark"}
        assert shared.claims(IRQ)
        shared.settled()
    for feature in order:
        shared.off[feature] = OFF[feature]
        shared.round(3)
        assert not shared.claims(feature)
        shared.settled()
        if feature == IRQ:
            assert shared.irq_cpus() == {"0-15"}
