"""A node on which strategies have decided something, as pages, metrics and people see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from koordlet.http_api.documents.why import DecisionSources
from koordlet.qos_manager.core.decision_log import EVICTED, DecisionLog
from koordlet.qos_manager.core.strategy import Decision, StrategyMode, StrategySignal, Term
from koordlet.qos_manager.core.strategy_runner import StrategyState

from tests.support.observed import GIB, NOW, PODS

BE = "kubepods/besteffort"
SPARK = "batch/spark-exec-17"
FORMULA = "capacity × threshold − used by others"


def suppressed(cpus: int, used: float) -> Decision:
    """Best-effort pods are left so many CPUs."""
    given = (
        Term("capacity", 16.0, "cores"),
        Term("threshold", 65, "%"),
        Term("used by others", used, "cores"),
    )
    return Decision(f"best-effort pods get {cpus} CPUs", FORMULA, given, group=BE)


def evicted(pod: str, aspect: str = EVICTED) -> Decision:
    """A pod goes, for the node has too little memory."""
    given = (Term("used", 60 * GIB, "bytes"), Term("lower", 56 * GIB, "bytes"))
    return Decision("evicted: memory is short", "used − lower", given, pod=pod, aspect=aspect)


def state(name: str, gate: str, mode: StrategyMode = StrategyMode.ON, **more: Any) -> StrategyState:
    """A strategy that has worked for a minute."""
    fields = {"rounds": 60, "seconds": 0.0021, "decided_at": NOW, "decisions": 1, "desired": 2}
    return StrategyState(name, gate, mode, True, 1.0, **{**fields, **more})


STATES = (
    state("cpu_suppress", "BECPUSuppress"),
    state("cpu_burst", "CPUBurst", StrategyMode.SHADOW, decisions=2, overruns=1),
    state("memory_evict", "MemoryEvict", decisions=0),
    StrategyState(
        "blkio",
        "BlkIOReconcile",
        StrategyMode.OFF,
        enabled=False,
        reason="its gate BlkIOReconcile is off",
    ),
)
SIGNALS: Mapping[str, tuple[StrategySignal, ...]] = {
    "cpu_suppress": (
        StrategySignal("be_suppress_cpu_cores/cpuset", 4.0),
        StrategySignal("ls_used_cpu_cores", 5.9),
        StrategySignal("headroom", 0.5),
    ),
    "cpu_burst": (
        StrategySignal("container_scaled_cfs_quota_us/app", 300000, PODS[0].pod.full_name),
        StrategySignal("container_scaled_cfs_burst_us/app", 2000000, PODS[0].pod.full_name),
    ),
}
WISHES = [
    {"knob": "cpuset.cpus", "value": "0-3", "owner": "cpu_suppress", "why": "so", "conflict": ""},
    {
        "knob": "cpu.idle",
        "value": 1,
        "owner": "hooks",
        "why": "group identity -1",
        "conflict": "operator wants 0",
    },
]


@dataclass
class DecidedNode:
    """What a test may change before it asks."""

    decisions: DecisionLog = field(default_factory=DecisionLog)
    states: tuple[StrategyState, ...] = ()
    signals: Mapping[str, tuple[StrategySignal, ...]] = field(default_factory=dict)
    wished: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)

    def decided(self) -> DecisionSources:
        return DecisionSources(
            self.decisions,
            strategies=lambda: self.states,
            signals=lambda: self.signals,
            desired=lambda group: [dict(one) for one in self.wished.get(group, ())],
        )


def busy_decisions() -> DecidedNode:
    """A minute in which suppression changed twice, and one pod was evicted."""
    node = DecidedNode(states=STATES, signals=SIGNALS, wished={BE: WISHES})
    burst = Decision("the quota is raised", "quota × 1.2", (), pod="shop/web", group="kubepods/w")
    pool = Decision("the share pool idles", aspect="share pool")
    for ago, cpus in ((60, 6), (50, 6), (40, 5), (30, 4), (0, 4)):
        round_ = [
            ("cpu_suppress", StrategyMode.ON, suppressed(cpus, 4.4 + (60 - ago) / 40)),
            ("cpu_burst", StrategyMode.SHADOW, burst),
            ("cpu_burst", StrategyMode.SHADOW, pool),
        ]
        if ago == 40:
            round_.append(("memory_evict", StrategyMode.ON, evicted("batch/spark-exec-9")))
        node.decisions.keep(NOW - ago, round_)
    return node
