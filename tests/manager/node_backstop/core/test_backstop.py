"""Taints and evictions for unhealthy nodes: when, on how many, and never beyond the stop."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from koord_manager.node_backstop.core.backstop import Backstop, EvictionGrant
from koord_manager.node_backstop.core.faults import NodeObservation
from koord_manager.node_taints.core.taints import HOLD_SECONDS, NodeTaint, TaintHolds, own, patch
from koord_manager.slo_config.core.backstop import (
    BackstopRule,
    BackstopRules,
    ConditionRule,
    EvictScope,
)

EVERYTHING = ConditionRule(after_seconds=60, rule=BackstopRule(evict=EvictScope.ALL))
RULES = BackstopRules(conditions=(("KernelDeadlock", EVERYTHING),))
DEADLOCK = NodeTaint("node.koordinator.sh/KernelDeadlock", "NoSchedule")
SILENT = NodeTaint("node.koordinator.sh/KoordletSilent", "NoSchedule")
THEIRS = {"key": "node.koordinator.sh/KernelDeadlock", "value": "x", "effect": "NoExecute"}
MISSED, LIMIT, LOOK, SLOW = 335.0, 900.0, 10.0, 30.0


@dataclass
class PlayedCluster:
    """Nodes as the API server has them, and what the leader does to them look by look."""

    number: int
    now: float = 0.0
    reports: dict[str, float] = field(default_factory=dict)
    deadlocked: set[str] = field(default_factory=set)
    mute: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.names = [f"n{index}" for index in range(self.number)]
        self.objects: dict[str, dict[str, Any]] = {
            name: {"metadata": {}, "spec": {"taints": [THEIRS]}} for name in self.names
        }
        self.lead()

    def lead(self) -> None:
        """A new leader: what the last one has in memory is lost."""
        self.backstop, self.holds = Backstop(), TaintHolds()

    @property
    def ours(self) -> dict[str, frozenset[NodeTaint]]:
        there = {
            name: own(node["metadata"].get("annotations") or {})
            for name, node in self.objects.items()
        }
        return {name: taints for name, taints in there.items() if taints}

    def grant(self, name: str) -> EvictionGrant | None:
        return self.backstop.grant(name, self.ours.get(name, frozenset()))

    def look(self, seconds: float = LOOK, hears: bool = True, written: bool = True) -> None:
        self.now += seconds
        ours, none = self.ours, frozenset[NodeTaint]()
        self.backstop.begin(self.now, hears=hears)
        for name in self.names:
            if hears and name not in self.mute:
                self.reports[name] = self.now
            status = "True" if name in self.deadlocked else "False"
            report = self.reports.get(name, 1.0), MISSED, LIMIT
            taints = ours.get(name, none)
            conditions = {"KernelDeadlock": status}
            self.backstop.take(NodeObservation(name, "u", *report, conditions, RULES, taints))
        asked = self.backstop.end(ours)
        wanted = self.holds.desired(self.names, asked, ours, self.now, self.backstop.bars)
        for name in self.names if written else ():
            node = self.objects[name]
            change = patch(node, ours.get(name, none), wanted.get(name, none))
            if change:
                annotations = change["metadata"]["annotations"].items()
                kept = {key: text for key, text in annotations if text is not None}
                node["metadata"] = {"annotations": kept}
                node["spec"] = change["spec"]

    def pass_time(self, total: float, seconds: float = LOOK, hears: bool = True) -> None:
        for _ in range(int(total / seconds)):
            self.look(seconds, hears)


def test_a_fault_that_lasts_taints_evicts_and_heals() -> None:
    cluster = PlayedCluster(10, deadlocked={"n3"})
    cluster.pass_time(60)
    assert cluster.ours == {}
    cluster.pass_time(20)
    assert cluster.ours == {"n3": {DEADLOCK}}
    grant = cluster.grant("n3")
    assert grant == EvictionGrant(EvictScope.ALL, frozenset({DEADLOCK}), "condition KernelDeadlock")
    assert cluster.backstop.grant("n3", frozenset()) is None, "its taint was removed"
    cluster.pass_time(2 * HOLD_SECONDS, hears=False)
    assert cluster.ours == {"n3": {DEADLOCK}}, "what is not seen changes nothing"
    assert cluster.grant("n3") is None
    cluster.deadlocked.clear()
    cluster.look()
    assert cluster.grant("n3") is None
    cluster.pass_time(HOLD_SECONDS - 2 * LOOK)
    assert cluster.ours == {"n3": {DEADLOCK}}
    cluster.deadlocked.add("n3")
    cluster.look()
    cluster.deadlocked.clear()
    cluster.pass_time(HOLD_SECONDS - 2 * LOOK)
    assert cluster.ours == {"n3": {DEADLOCK}}, "any relapse holds it anew"
    cluster.pass_time(4 * LOOK)
    assert cluster.ours == {}


def test_a_koordlet_is_silent_once_it_has_reported_for_as_long_as_was_listened() -> None:
    cluster = PlayedCluster(10)
    cluster.look()
    cluster.mute = {"n1"}
    cluster.pass_time(LIMIT / 2)
    cluster.pass_time(3600, hears=False)
    cluster.look(3600)  # stopped, or swapped out
    assert cluster.ours == {}
    cluster.pass_time(LIMIT / 2 + 2 * LOOK)
    assert cluster.ours == {"n1": {SILENT}}
    assert cluster.grant("n1") == EvictionGrant(
        EvictScope.BE, frozenset({SILENT}), "koordlet is silent"
    )
    never = PlayedCluster(10, mute={"n1"}, reports={"n1": 0.0})
    never.pass_time(2 * LIMIT)
    assert never.ours == {}


def test_a_new_leader_keeps_taints_and_waits_anew_before_it_evicts() -> None:
    cluster = PlayedCluster(10)
    cluster.look()
    cluster.mute = {"n1", "n2"}
    cluster.pass_time(LIMIT + 3 * LOOK)
    assert set(cluster.ours) == {"n1", "n2"}
    cluster.lead()
    cluster.pass_time(LIMIT - LOOK)
    assert set(cluster.ours) == {"n1", "n2"}
    assert cluster.grant("n1") is None
    cluster.pass_time(3 * LOOK)
    assert cluster.grant("n1") is not None
    cluster.lead()
    cluster.mute = {"n2"}
    cluster.pass_time(HOLD_SECONDS + 2 * LOOK)
    assert set(cluster.ours) == {"n2"}


def test_above_the_stop_nothing_new_is_done_until_a_while_after() -> None:
    cluster = PlayedCluster(20, deadlocked={"n0"})
    cluster.pass_time(80)
    cluster.mute = {f"n{number}" for number in range(1, 6)}
    cluster.pass_time(LIMIT / 2 - LOOK)
    assert cluster.backstop.stop_reason == ""
    cluster.pass_time(2 * LOOK)
    stop = "5 of 20 nodes have KoordletSilent, more than 20 %"
    assert cluster.backstop.stop_reason == stop, "before any of them is due"
    cluster.pass_time(2 * LIMIT)
    assert set(cluster.ours) == {"n0"}, "what is there stays"
    assert cluster.grant("n0") is None
    assert "nothing is done" in cluster.backstop.decisions("n1", frozenset())[0].outcome
    cluster.mute.clear()
    cluster.pass_time(290)
    assert cluster.grant("n0") is None
    cluster.pass_time(2 * LOOK)
    assert cluster.grant("n0") is not None


def test_a_taint_that_could_not_be_written_before_the_stop_is_not_set_in_it() -> None:
    cluster = PlayedCluster(20, deadlocked={"n0"})
    for _ in range(8):
        cluster.look(written=False)
    cluster.deadlocked = {f"n{number}" for number in range(6)}
    for _ in range(5):
        cluster.look(written=False)
    cluster.pass_time(40)
    assert cluster.backstop.stop_reason
    assert cluster.ours == {}


def test_a_cause_is_counted_among_the_nodes_that_can_have_it() -> None:
    cluster = PlayedCluster(20)
    cluster.reports = dict.fromkeys(cluster.names[4:], 0.0)
    cluster.mute = set(cluster.names[4:])
    cluster.look()
    cluster.mute = set(cluster.names)
    cluster.pass_time(2 * LIMIT)
    assert cluster.backstop.stop_reason == "4 of 4 nodes have KoordletSilent, more than 20 %"
    assert cluster.ours == {}


def test_taints_come_one_after_the_other() -> None:
    cluster = PlayedCluster(100, deadlocked={f"n{number}" for number in range(20)})
    cluster.pass_time(80)
    assert len(cluster.ours) <= 6
    cluster.pass_time(80)
    assert len(cluster.ours) == 20


NAMES = st.sets(st.integers(0, 10).map("n{}".format))
STEP = st.fixed_dictionaries(
    {
        "deadlocked": NAMES,
        "mute": NAMES,
        "looks": st.sampled_from([1, 3, 10, 31]),
        "hears": st.booleans() | st.just(True),
        "written": st.booleans() | st.just(True),
        "leads": st.just(False) | st.booleans(),
    }
)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 11), st.lists(STEP, max_size=4))
def test_within_bounds_whatever_happens_and_settled_in_the_end(
    number: int, steps: list[dict[str, Any]]
) -> None:
    cluster, most = PlayedCluster(number), max(1, number // 5)
    for step in steps:
        cluster.deadlocked, cluster.mute = step["deadlocked"], step["mute"]
        if step["leads"]:
            cluster.lead()
        for _ in range(step["looks"]):
            before = cluster.ours
            cluster.look(SLOW, hears=step["hears"], written=step["written"])
            assert len(cluster.ours) <= most
            assert all(node["spec"]["taints"][0] == THEIRS for node in cluster.objects.values())
            granted = [name for name in cluster.names if cluster.grant(name)]
            assert len(granted) <= most
            assert step["hears"] or cluster.ours == before
            if cluster.backstop.stop_reason or not step["hears"]:
                assert all(
                    taints <= before.get(name, frozenset()) for name, taints in cluster.ours.items()
                )
                assert not granted
    cluster.deadlocked, cluster.mute = {"n0"}, set()
    cluster.pass_time(1200, seconds=SLOW)
    assert cluster.ours == {"n0": {DEADLOCK}}
    assert cluster.grant("n0")
    cluster.deadlocked = set()
    cluster.pass_time(HOLD_SECONDS + SLOW, seconds=SLOW)
    assert cluster.ours == {}
