from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model import cpuset
from koord_simulation.node_model.cgroups import SimulatedCgroups
from koord_simulation.node_model.cpu_sharing import CPUAllotment, CPUSharing
from koord_simulation.node_model.machine import SimulatedMachine

CPUS = 8
GROUPS = ("k/x/p1/c", "k/x/p2/c", "k/y/p3/c", "k/y/p4/c", "k/p5/c")
TREE = ("k", "k/x", "k/y", *(f"k/{pod}" for pod in ("x/p1", "x/p2", "y/p3", "y/p4", "p5")), *GROUPS)


def cgroups(**values: dict[str, int | str]) -> SimulatedCgroups:
    found = SimulatedCgroups(SimulatedMachine(cpus=CPUS, cgroup_version=2))
    for group in TREE:
        found.create(group, **values.get(group.replace("/", "_"), {}))
    return found


def share(demands: list[float], **values: dict[str, int | str]) -> CPUAllotment:
    return CPUSharing(SimulatedMachine(cpus=CPUS), cgroups(**values), GROUPS).share(demands)


K = {"cpu_shares": 2048}


@pytest.mark.parametrize(
    ("demands", "values", "given"),
    [
        ([1, 2, 0.5, 0, 3], {}, [1, 2, 0.5, 0, 3]),
        # By weight from the root down: k/x has three times the shares of k/y and of p5.
        ([8, 8, 8, 0, 0], {"k_x": {"cpu_shares": 3072}, "k_y": {"cpu_shares": 1024}}, [3, 3, 2]),
        # What one does not want goes to siblings first.
        ([1, 8, 8, 0, 0], {"k_x": K, "k_y": K}, [1, 3, 4]),
        ([2, 0, 8, 0, 0], {"k_y": {"cpuset_cpus": "0-1"}}, [2, 0, 1.5]),
        # A quota holds for all below it.
        ([8, 8, 8, 0, 0], {"k_x": {"cpu_cfs_quota_us": 150_000}}, [0.75, 0.75, 6.5]),
        ([8, 0.25, 0, 0, 0], {"k_x": {"cpu_cfs_quota_us": 150_000}}, [1.25, 0.25]),
    ],
)
def test_who_gets_what(
    demands: list[float], values: dict[str, dict[str, int | str]], given: list[float]
) -> None:
    found = share(demands, **values)
    assert found.given[: len(given)] == pytest.approx(given, rel=0.02)
    if not values:
        assert found.busy == pytest.approx([6.5 / 8])


def test_a_cpuset_holds_and_others_use_the_rest() -> None:
    found = share([8, 0, 8, 0, 0], k_y={"cpuset_cpus": "0-1"}, k_x={"cpu_shares": 262144})
    assert found.given[2] < 0.2
    assert found.given[0] == pytest.approx(8, rel=0.02)
    assert found.wanted[2] == 2


def test_idle_groups_and_those_of_less_weight_press_less() -> None:
    def press(**values: int) -> float:
        found = cgroups(k_y={**values})
        return float(CPUSharing(SimulatedMachine(cpus=CPUS), found, GROUPS).pressing[0, 2])

    assert press(cpu_shares=1024) > press(cpu_shares=2) > press(cpu_idle=1) > 0
    own = CPUSharing(SimulatedMachine(cpus=CPUS), cgroups(), GROUPS).pressing
    assert own[0, 0] == pytest.approx(1 / CPUS)


def test_second_threads_are_known() -> None:
    found = CPUSharing(SimulatedMachine(cpus=CPUS), cgroups(k_x={"cpuset_cpus": "0-3"}), GROUPS)
    assert [atom.size for atom in found.atoms] == [4, 4]
    assert found.beside.tolist() == [[0, 1], [1, 0]]
    alone = CPUSharing(SimulatedMachine(cpus=CPUS, threads_per_core=1), cgroups(), GROUPS)
    assert alone.beside.tolist() == [[0]]


_cpus = st.frozensets(st.integers(0, CPUS - 1), min_size=1).map(cpuset.render)
_knobs = st.fixed_dictionaries(
    {},
    optional={
        "cpuset_cpus": _cpus,
        "cpu_shares": st.sampled_from([2, 100, 1024, 20_000]),
        "cpu_cfs_quota_us": st.integers(10_000, 900_000),
    },
)
_trees = st.dictionaries(st.sampled_from([name.replace("/", "_") for name in TREE]), _knobs)
_demands = st.lists(st.floats(0, 12), min_size=len(GROUPS), max_size=len(GROUPS))


@given(_trees, _demands)
def test_nothing_is_given_that_is_not_there(
    tree: dict[str, dict[str, int | str]], demands: list[float]
) -> None:
    groups = cgroups(**tree)
    sharing = CPUSharing(SimulatedMachine(cpus=CPUS), groups, GROUPS)
    found = sharing.share(demands)
    slack = 1e-6
    assert all(
        -slack <= got <= want + slack for got, want in zip(found.given, demands, strict=True)
    )
    for group in ("", *TREE):
        members = [
            n
            for n, name in enumerate(GROUPS)
            if f"{name}/".startswith(f"{group}/" if group else "")
        ]
        used = sum(found.given[n] for n in members)
        allowed = frozenset().union(*(groups.cpus(GROUPS[n]) for n in members))
        assert used <= len(allowed) + slack
        quota = int(groups.now(group, "cpu.cfs_quota_us") or -1)
        assert quota == -1 or used <= quota / 100_000 + slack
    idle = sum(atom.size * (1 - busy) for atom, busy in zip(sharing.atoms, found.busy, strict=True))
    assert idle == pytest.approx(CPUS - sum(found.given), abs=1e-6)


@given(_trees, _demands)
def test_no_cpu_idles_that_somebody_wants(
    tree: dict[str, dict[str, int | str]], demands: list[float]
) -> None:
    sharing = CPUSharing(SimulatedMachine(cpus=CPUS), cgroups(**tree), GROUPS)
    found = sharing.share(demands)
    for atom, busy in zip(sharing.atoms, found.busy, strict=True):
        if busy < 1 - 1e-6:
            assert all(
                found.given[n] == pytest.approx(found.wanted[n], abs=1e-6) for n in atom.leaves
            )


@given(st.lists(st.integers(2, 5000), min_size=5, max_size=5))
def test_given_is_in_proportion_to_weight(weights: list[int]) -> None:
    found = SimulatedCgroups(SimulatedMachine(cpus=CPUS, cgroup_version=1))
    names = [f"g{number}" for number in range(5)]
    for name, weight in zip(names, weights, strict=True):
        found.create(name, cpu_shares=weight)
    got = CPUSharing(SimulatedMachine(cpus=CPUS), found, names).share([float(CPUS)] * 5).given
    assert got == pytest.approx([CPUS * weight / sum(weights) for weight in weights])
