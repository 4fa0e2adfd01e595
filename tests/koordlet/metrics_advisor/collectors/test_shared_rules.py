"""What collectors that read counters and cgroups have in common."""

from __future__ import annotations

import importlib

import pytest
from koord_model.node_slo import HostApplication
from koordlet.metrics_advisor.contract.collector import AnyCollector, CounterRates, Samples

from tests.koordlet.metrics_advisor.collectors.used_node import (
    SECOND,
    Group,
    Rounds,
    UsedNode,
    pod,
    values,
)

BE = "kubepods/besteffort"
GROUPS = ("kubepods/podu1", "kubepods/podu1/c1", BE, f"{BE}/podu2", f"{BE}/podu2/c1", "app")
PODS = pod(), pod("u2", above=BE)
OF_PODS = [("pod", "u1"), ("pod", "u2"), ("container", "u1", "c1"), ("container", "u2", "c1")]
RATES = {
    "noderesource": {("node_cpu_usage",), ("node_numa_cpu_usage", "0")},
    "podresource": {(f"{who}_cpu_usage", *labels) for who, *labels in OF_PODS},
    "podthrottled": {(f"{who}_cpu_throttled", *labels) for who, *labels in OF_PODS},
    "beresource": {("node_be", "cpu", "usage")},
    "hostapplication": {("host_application_cpu_usage", "app")},
}


class Watched:
    """A collector on a node on which all counters count alike."""

    def __init__(self, name: str, version: int) -> None:
        self.node = UsedNode(version)
        self.node.put_memory(1000, 200, 600)
        self.node.put_numa(0, "0-1", 300)
        module = importlib.import_module(f"koordlet.metrics_advisor.collectors.{name}")
        self.collector: AnyCollector = module.Collector(self.node.sources)
        self.rounds = Rounds(self.collector)

    def look(self, counted: int, seconds: float = 1.0) -> Samples:
        self.node.put_cpus({0: counted * 100, 1: counted * 50})
        for group in GROUPS:
            used = Group(counted * SECOND, periods=10 * counted, throttled=counted, anonymous=300)
            self.node.put(group, used)
        return self.again(seconds)

    def again(self, seconds: float = 1.0) -> Samples:
        return self.rounds.look(*PODS, seconds=seconds, applications=(HostApplication("app"),))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", RATES)
def test_a_rate_needs_two_readings_of_one_counter(name: str, version: int) -> None:
    watched = Watched(name, version)

    def rates(counted: int, seconds: float) -> set[tuple[str, ...]]:
        return values(watched.look(counted, seconds)).keys() & RATES[name]

    every: set[tuple[str, ...]] = RATES[name]
    steps = [(10, 1.0), (11, 1.0), (3, 1.0), (4, 1.0), (5, 21.0), (6, 1.0)]
    assert [rates(*step) for step in steps] == [set(), every, set(), every, set(), every]
    for jump in (86_400, -90_000):
        watched.rounds.at += jump
        assert rates(7 + (jump < 0), 1.0) == every
    if name != "podthrottled":
        assert watched.look(9, 0.05) == Samples()
        assert rates(10, 0.95) == every


@pytest.mark.parametrize("name", [*RATES, "pagecache"])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("garbage\n", True),
        ("", True),
        (OSError(5, "Input/output error"), True),
        (OSError(19, "No such device"), False),
        (FileNotFoundError(2, "No such file or directory"), False),
        (NotADirectoryError(20, "Not a directory"), False),
    ],
    ids=["garbage", "empty", "EIO", "ENODEV", "ENOENT", "ENOTDIR"],
)
def test_a_cgroups_file_that_cannot_be_read_costs_its_own_samples(
    name: str, version: int, text: str | OSError, said: bool
) -> None:
    watched = Watched(name, version)
    watched.look(1)
    whole = values(watched.look(2))
    node = watched.node
    for file in {path for path in node.tree.reads if path.startswith("/sys/fs/cgroup/")}:
        if text == "" and "/cpuset" in file:
            continue  # a group without CPUs yet
        before = node.tree.texts.get(file)
        node.tree.texts[file] = text
        found = watched.again()
        assert {line.partition(": ")[0] for line in found.partial} == ({file} if said else set())
        assert "\n" not in "".join(found.partial)
        assert found.samples or name == "podthrottled"
        assert values(found).keys() <= whole.keys()
        if before is not None:
            assert values(found).keys() < whole.keys() or "cpuset" in file
            node.tree.texts[file] = before
        else:
            node.tree.remove(file)
        watched.again()


@pytest.mark.parametrize("name", [*RATES, "pagecache"])
def test_what_is_gone_is_passed_over_in_silence_and_forgotten(name: str) -> None:
    watched = Watched(name, 2)
    whole = values(watched.look(1)).keys() | values(watched.look(2)).keys()
    for group in GROUPS:
        watched.node.remove(group)
    found = watched.again()
    assert found.partial == ()
    assert not [key for key in values(found) if key[0].startswith(("pod", "container", "host"))]
    assert values(found).keys() < whole or name == "noderesource"
    for _ in range(25):
        watched.rounds.look()
    counters = [one for one in vars(watched.collector).values() if isinstance(one, CounterRates)]
    # The node's own stay.
    assert not [key for one in counters for key in one._before if key not in ("cpu", 0, 1, BE)]
