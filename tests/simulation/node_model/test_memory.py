from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_simulation.node_model.cgroups import SimulatedCgroups
from koord_simulation.node_model.machine import GIB, MIB, SimulatedMachine
from koord_simulation.node_model.memory import (
    RESTART_SECONDS,
    ContainerMemory,
    MemoryKill,
    MemoryModel,
)

GROUPS = ("k/ls/p/c", "k/be/q/c", "k/be/r/c")
TREE = ("k", "k/ls", "k/ls/p", "k/be", "k/be/q", "k/be/r", *GROUPS)
ADJ = (100, 1000, 1000)


class Node:
    """16 GiB, three containers."""

    def __init__(
        self,
        *wants: float,
        cache: float = 0,
        cold: float = 0.0,
        swap: int = 0,
        **knobs: dict[str, int],
    ) -> None:
        machine = SimulatedMachine(memory=16 * GIB, swap=swap)
        self.cgroups = SimulatedCgroups(machine)
        for group in TREE:
            self.cgroups.create(group, **knobs.get(group.replace("/", "_"), {}))
        self.held = [
            ContainerMemory(group, adj, cold_part=cold)
            for group, adj in zip(GROUPS, ADJ, strict=True)
        ]
        self.memory = MemoryModel(machine, self.cgroups, self.held, 0.0)
        self.want(*wants, cache=cache)
        self.now = 0.0

    def want(self, *wants: float, cache: float = 0) -> None:
        for one, gib in zip(self.held, wants, strict=True):
            one.wants, one.wants_cache = gib * GIB, cache * GIB

    def step(self, seconds: int = 1, system: float = 1.0) -> list[MemoryKill]:
        killed = []
        for _ in range(seconds):
            killed += self.memory.step(self.now, system * GIB)
            self.now += 1
        return killed

    @property
    def usage(self) -> list[float]:
        return [round(one.usage / GIB, 2) for one in self.held]


def test_page_cache_goes_first_and_cold_before_hot() -> None:
    node = Node(2, 3, 1, cache=2, cold=0.5)
    node.step()
    node.want(2, 6.5, 1, cache=2)
    node.step()
    assert [one.cold for one in node.held] == [pytest.approx(node.held[0].cold)] * 3
    assert node.held[0].cold < 1 * GIB
    assert node.held[0].hot == pytest.approx(1 * GIB)
    assert [node.held[0].stall, node.held[2].stall] == [0, 0]
    node.want(2, 9.5, 1, cache=2)
    node.step()
    assert node.held[0].hot < 1 * GIB
    assert node.held[0].stall > 0


def test_its_own_limit_kills_the_largest_below_it() -> None:
    node = Node(2, 1, 3, k_be={"memory_limit_in_bytes": 3 * GIB})
    assert node.step() == [MemoryKill(0.0, "k/be/r/c", "k/be")]
    assert node.usage == [2, 1, 0]


def test_page_cache_gives_way_to_a_limit_before_anybody_is_killed() -> None:
    node = Node(1, 1, 1, cache=3, k_be={"memory_limit_in_bytes": 3 * GIB})
    assert node.step() == []
    assert sum(node.usage[1:]) == 3
    assert node.usage[0] == 4


def test_a_pod_may_die_as_a_whole() -> None:
    node = Node(1, 1, 2, k_be={"memory_limit_in_bytes": 2 * GIB}, k_be_r={"memory_oom_group": 1})
    node.held[1].group = "k/be/r/d"
    assert [one.group for one in node.step()] == ["k/be/r/d", "k/be/r/c"]
    assert node.usage == [1, 0, 0]


def test_above_high_growth_is_slow_and_tasks_wait() -> None:
    node = Node(1, 2, 1, k_be_q={"memory_high": 3 * GIB})
    node.step()
    node.want(1, 5, 1)
    node.step()
    assert node.held[1].stall > 0.5
    assert 2 < node.usage[1] < 3
    assert node.held[0].stall == 0


def test_with_swap_what_is_cold_goes_before_what_is_hot() -> None:
    node = Node(4, 4, 4, cold=0.25, swap=4 * GIB)
    node.step()
    node.want(5, 5, 5)
    assert node.step(2) == []
    assert sum(one.swapped for one in node.held) > 0
    assert node.memory.swap_used == pytest.approx(sum(one.swapped for one in node.held))
    node.want(1, 1, 1)
    node.step()
    assert node.memory.swap_used <= 3 * 1 * GIB


def test_proactive_reclaim_takes_what_is_cold_and_hurts_beyond() -> None:
    node = Node(1, 1, 1, cache=2, cold=0.5)
    node.step()
    assert node.memory.reclaim("k/be", 2 * GIB) == pytest.approx(2 * GIB)
    node.step()
    assert [one.stall for one in node.held] == [0, 0, 0]
    assert node.held[1].cold < 0.1 * GIB
    assert node.memory.reclaim("k/be/q", 4 * GIB) < 2 * GIB
    node.step()
    assert node.held[1].stall > 0.3
    node.step(60)
    assert node.held[1].stall < 0.01


def test_the_watermark_is_what_sysctls_say() -> None:
    machine = SimulatedMachine(memory=16 * GIB)
    cgroups = SimulatedCgroups(machine)
    cgroups.put("vm.min_free_kbytes", "sysctl", str(2 * 1024 * 1024))
    cgroups.create("a")
    held = ContainerMemory("a", 0, wants=4 * GIB, wants_cache=16 * GIB)
    memory = MemoryModel(machine, cgroups, [held], 0.0)
    memory.step(0, 0.0)
    assert memory.free == pytest.approx(2 * GIB + 16 * GIB * 10 / 10_000, abs=MIB)


_gib = st.floats(0, 9)


@given(st.lists(st.tuples(_gib, _gib, _gib, _gib), max_size=6), st.sampled_from([0, 4 * GIB]))
def test_memory_is_neither_made_nor_lost(
    seconds: list[tuple[float, float, float, float]], swap: int
) -> None:
    node = Node(0, 0, 0, swap=swap, cold=0.3, k_be={"memory_high": 5 * GIB})
    for *wants, cache in seconds:
        node.want(*wants, cache=cache)
        node.step()
        assert node.memory.free >= 0
        assert -1 <= node.memory.swap_used <= swap + 1
        for one in node.held:
            assert min(one.anon, one.hot, one.cold, one.swapped) >= -1
            assert one.anon + one.swapped <= one.wants + 1
            assert one.cache <= one.wants_cache + 1
            assert 0 <= one.stall <= 1


KEEP = {"memory_low": 4 * GIB, "memory_min": 4 * GIB}


@pytest.mark.parametrize(
    ("knobs", "usage"),
    [
        ({"k": KEEP, "k_ls": KEEP, "k_ls_p": KEEP, "k_ls_p_c": KEEP}, 4),
        # Protection reaches as far as that of the groups above.
        ({"k_ls_p_c": {"memory_min": 4 * GIB}}, 3.9),
    ],
)
def test_protected_memory_stays(knobs: dict[str, dict[str, int]], usage: float) -> None:
    node = Node(2, 1, 1, cache=2, **knobs)
    assert node.step() == []
    assert node.usage == [4, 3, 3]
    assert [one.stall for one in node.held] == [0, 0, 0]
    assert node.memory.free == pytest.approx(5 * GIB)
    node.want(2, 7, 1, cache=2)
    node.step()
    assert node.usage[0] == 4 if usage == 4 else node.usage[0] <= usage


def test_the_node_kills_who_has_the_highest_badness_and_it_starts_anew() -> None:
    node = Node(9, 2, 3)
    node.step()
    node.want(11, 2, 3)
    assert node.step() == [MemoryKill(1.0, "k/be/r/c", "")]
    assert node.usage == [11, 2, 0]
    node.want(5, 2, 3)
    node.step(int(RESTART_SECONDS) - 1)
    assert node.usage == [5, 2, 0]
    node.step(2)
    assert node.usage == [5, 2, 3]
    spared = Node(15.5, 0, 0)
    spared.held[0].adj = -1000
    assert spared.step() == []
