"""Rollouts from look to look: what is counted, compared, halted, and kept."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import msgspec
from koord_manager.rollout.core.documents import EntryState, Order, read_observed, written
from koord_manager.rollout.core.echoes import Echo, RolloutReport
from koord_manager.rollout.core.follower import JUDGE_SECONDS, EntryNow, RolloutFollower
from koord_manager.rollout.core.pairing import NodeTraits
from koord_manager.slo_config.core.reach import Bounds

MINE = [f"c{number}" for number in range(8)]
OTHERS = [f"o{number}" for number in range(30)]
ENTRY = EntryNow(
    "offload",
    "v2",
    20,
    {"strategies": {"memory_offload": {"mode": "on"}}},
    frozenset(MINE),
    frozenset(OTHERS),
    canary="20%",
)


class Fleet:
    """Nodes that report once a minute, and a manager that looks each time."""

    def __init__(self, follower: RolloutFollower | None = None, *, nodes: int = 8) -> None:
        self.follower = follower or RolloutFollower()
        self.now = 0.0
        self.entry = replace(ENTRY, wanted=frozenset(MINE[:nodes]))
        self.evictions = dict.fromkeys([*MINE, *OTHERS], 0)
        self.more: dict[str, Any] = {}
        self.chance = random.Random(34)

    def minutes(self, count: int, *, evicts: float = 0.0, psi: float = 0.0) -> dict[str, str]:
        """So many; canaries evict and wait so much more. Returns what was halted."""
        halted: dict[str, str] = {}
        for _ in range(count):
            self.now += 60
            reports = {name: self._report(name, evicts, psi) for name in (*MINE, *OTHERS)}
            traits = {name: NodeTraits(("", 32.0), 0.5) for name in reports}
            halted |= self.follower.look([self.entry], reports, traits, self.now, "kubectl-edit")
        return halted

    def _report(self, name: str, evicts: float, psi: float) -> RolloutReport:
        is_canary = name in MINE
        self.evictions[name] += int(self.chance.random() < 0.01 + is_canary * evicts)
        pressure = 10 + self.chance.gauss(0, 3) + is_canary * psi
        echo = Echo(
            version=self.entry.version if is_canary else "v1",
            evictions=self.evictions[name],
            psi=pressure,
            batch_cores=8.0 + is_canary * 2,
            **(self.more if is_canary else {}),
        )
        return RolloutReport(echo, 16.0)

    @property
    def followed(self) -> EntryState:
        return self.follower.followed["offload"]


def test_an_entry_that_evicts_is_halted_once_and_an_accepted_one_never() -> None:
    fleet = Fleet()
    assert fleet.minutes(30) == {}
    halted = fleet.minutes(60, evicts=0.2)
    assert list(halted) == ["offload"]
    assert "evictions per node and hour" in halted["offload"]
    assert "more than 1 above (8 pairs)" in halted["offload"]
    assert fleet.follower.holds("offload", "v2")
    assert fleet.followed.paused is not None
    assert fleet.followed.paused.why == halted["offload"]
    assert fleet.minutes(60, evicts=0.2) == {}  # not twice
    fleet.follower.orders = {"offload": Order(accepted="v2")}
    assert not fleet.follower.holds("offload", "v2")
    assert fleet.minutes(60, evicts=0.5) == {}  # somebody wants it so
    fleet.entry = replace(fleet.entry, version="v3")
    assert fleet.minutes(30) == {}
    assert fleet.followed.paused is None
    assert list(fleet.minutes(60, evicts=0.5)) == ["offload"]  # but not the next version


def test_bounds_are_those_of_the_entry_and_of_few_pairs_all_must_be_beyond() -> None:
    assert "% of the time" in Fleet(nodes=2).minutes(30, psi=12)["offload"]
    assert Fleet(nodes=2).minutes(30, psi=3) == {}
    lenient = Fleet(nodes=2)
    lenient.entry = replace(lenient.entry, bounds=Bounds(psi=20))
    assert lenient.minutes(30, psi=12) == {}


def test_one_event_of_one_pair_is_chance_and_many_are_not() -> None:
    assert Fleet(nodes=1).minutes(30, evicts=0.03) == {}
    assert "evictions per node" in Fleet(nodes=1).minutes(30, evicts=0.8)["offload"]


def test_without_data_there_is_no_judgement() -> None:
    silent = Fleet()
    silent.entry = replace(silent.entry, version="v9", others=frozenset())
    assert silent.minutes(60, evicts=0.9) == {}
    brief = Fleet()
    assert brief.minutes(9, evicts=0.9) == {}
    paused = Fleet()
    paused.entry = replace(paused.entry, is_paused=True)
    assert paused.minutes(60, evicts=0.9) == {}


def test_nodes_alike_are_halted_seldom() -> None:
    """Hours without any difference."""
    fleet = Fleet()
    assert fleet.minutes(6 * 60) == {}


def test_a_new_manager_goes_on_with_what_was_kept() -> None:
    fleet = Fleet()
    fleet.minutes(16)
    kept = read_observed({"observed": written(fleet.follower.followed)})
    hours = [pair.hours["evictions"] for pair in kept["offload"].pairs]
    assert min(hours) > 0.1
    after = Fleet(RolloutFollower(kept))
    after.now = fleet.now + 60
    after.minutes(int(JUDGE_SECONDS // 60) + 1)
    assert [
        pair.hours["evictions"] > many
        for pair, many in zip(after.followed.pairs, hours, strict=True)
    ]
    assert [version.version for version in after.followed.history] == ["v2"]
    halted = after.minutes(30, evicts=0.9)
    assert halted
    again = read_observed({"observed": written(after.follower.followed)})
    assert Fleet(RolloutFollower(again)).minutes(30, evicts=0.9) == {}  # it is halted already


def test_nodes_are_counted_by_what_they_say() -> None:
    fleet = Fleet()
    fleet.entry = replace(fleet.entry, wanted=frozenset([*MINE, "new"]))
    fleet.more = {"problem": "memory_offload.policy is 3"}
    fleet.minutes(1)
    counts = msgspec.to_builtins(fleet.followed.nodes)
    assert counts == {
        "wanted": 9,
        "echoed": 8,
        "failed": 8,
        "problem": "c0: memory_offload.policy is 3",
    }


def test_orders_of_people_hold_and_history_is_bounded() -> None:
    fleet = Fleet()
    fleet.follower.orders = {"offload": Order(paused=True)}
    assert fleet.follower.holds("offload", "any")
    for number in range(40):
        fleet.entry = replace(
            fleet.entry,
            version=f"v{number}",
            content={"text": str(number) * 30_000},
            size=60_000,
        )
        fleet.minutes(1)
    versions = [version.version for version in fleet.followed.history]
    assert versions == [f"v{number}" for number in range(30, 40)]
    assert len(written(fleet.follower.followed)) <= 512 * 1024
    assert fleet.followed.history[-1].content is not None
    fleet.follower.look([], {}, {}, fleet.now, "")
    assert fleet.follower.followed == {}


def test_gain_is_reported_with_its_interval_or_as_not_enough_data() -> None:
    fleet = Fleet()
    fleet.minutes(5)
    assert "not enough data" in fleet.followed.report["verdict"]
    fleet.minutes(60)
    report = fleet.followed.report
    assert report["verdict"] == "pays: 2 core-hours of batch pods gained per node and hour"
    gained = report["measures"]["batchCores"]
    assert (gained["with"], gained["without"], gained["interval95"]) == (10.0, 8.0, [2.0, 2.0])
    low, high = report["measures"]["psi"]["interval95"]
    assert low < 0 < high
    few = Fleet(nodes=3)
    few.minutes(60)
    assert "at least 6 pairs" in few.followed.report["verdict"]
