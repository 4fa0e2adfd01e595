"""Windows of cycles and instructions: whose turn it is, what is said, what is left open."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.layout import Driver, Layout
from koord_model.pod import Container, Pod
from koordlet.metrics_advisor.collectors import performance
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.koordlet.metrics_advisor.collectors.used_node import values
from tests.support.text_tree import TextTree

V2 = Layout(2, Driver.SYSTEMD)
V1 = Layout(1, Driver.CGROUPFS)
ONLINE = "/sys/devices/system/cpu/online"


class FakeWindow:
    def __init__(self, perf: FakePerf, directory: str, descriptors: int) -> None:
        self.perf, self.directory, self.descriptors = perf, directory, descriptors

    def close(self) -> tuple[float, float]:
        self.perf.held -= self.descriptors
        self.descriptors = 0
        counted = self.perf.counts.get(self.directory, (300.0, 100.0))
        if isinstance(counted, OSError):
            raise counted
        return counted


class FakePerf:
    """Implements ``PerfCounters``; refuses what goes beyond its budget, as RLIMIT_NOFILE does."""

    def __init__(self, budget: int = 1000) -> None:
        self.budget = budget
        self.held = 0
        self.opened: list[str] = []
        self.refusals: dict[str, OSError] = {}
        self.refusal: OSError | None = None
        self.counts: dict[str, tuple[float, float] | OSError] = {}

    def start(self, directory: str, cpus: Sequence[int]) -> FakeWindow:
        if refusal := self.refusals.get(directory, self.refusal):
            raise refusal
        assert self.held + 2 * len(cpus) <= self.budget
        self.held += 2 * len(cpus)
        self.opened.append(directory)
        return FakeWindow(self, directory, 2 * len(cpus))


def records(count: int) -> tuple[PodRecord, ...]:
    pod = Pod("p", "n", "u1", cgroup_parent="kubepods-podu1.slice")
    ids = [f"c{number}" for number in range(count)]
    return (PodRecord(pod, {one: Container(pod, one, one) for one in ids}),)


def scope(number: int) -> str:
    slices = "kubepods.slice/kubepods-podu1.slice"
    return f"/sys/fs/cgroup/{slices}/cri-containerd-c{number}.scope"


def collector(
    perf: FakePerf | None, online: str = "0-1\n", layout: Layout = V2
) -> performance.Collector:
    texts: dict[str, str | OSError] = {ONLINE: online}
    return performance.Collector(CollectorSources(TextTree(texts), layout, perf=perf))


def look(one: performance.Collector, at: float, containers: int) -> Samples:
    return one.collect(CollectContext(at, at, records(containers)))


def measured(found: Samples) -> list[str]:
    return [labels[1] for (_, labels), _ in found.samples if labels[2] == "cycle"]


def refused(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def test_a_look_opens_the_window_and_the_next_one_reads_it_once_a_minute() -> None:
    perf = FakePerf()
    one = collector(perf)
    assert look(one, 0.0, 1) == Samples()
    assert values(look(one, 10.0, 1)) == {
        ("container_cpi", "u1", "c0", "cycle"): 300.0,
        ("container_cpi", "u1", "c0", "instruction"): 100.0,
    }
    assert perf.opened == [scope(0)]
    held = []
    for at in range(20, 140, 10):
        look(one, at + 0.001 * (at % 30), 1)
        held.append(perf.held)
    assert held == [0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 4, 0]


@given(
    budget=st.integers(4, 64),
    containers=st.integers(0, 40),
    late=st.lists(st.floats(0, 30), max_size=30),
)
def test_all_are_measured_in_turns_within_the_budget(
    budget: int, containers: int, late: list[float]
) -> None:
    perf = FakePerf(budget)
    one = collector(perf)
    seen: list[str] = []
    at = 0.0
    for wait in [0.0, *late, *[10.0] * 50]:
        at += 10 + wait
        seen += measured(look(one, at, containers))
        assert perf.held <= budget
    counts = [seen.count(f"c{number}") for number in range(containers)]
    assert not counts or (min(counts) >= 1 and max(counts) - min(counts) <= 1)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EACCES, r"refused \(EACCES\).*CAP_PERFMON.*perf_event_paranoid.*seccomp"),
        (errno.EPERM, r"refused \(EPERM\)"),
        (errno.ENOENT, r"not there \(ENOENT\).*hypervisor must pass on its PMU"),
        (errno.EOPNOTSUPP, r"not there \((EOPNOTSUPP|ENOTSUP)\)"),
        (errno.ENOSYS, r"CONFIG_PERF_EVENTS"),
    ],
)
def test_what_holds_for_every_container_makes_it_unavailable(number: int, said: str) -> None:
    perf = FakePerf()
    perf.refusal = refused(number)
    with pytest.raises(UnavailableError, match=said):
        look(collector(perf), 0.0, 3)


def test_a_right_taken_away_meanwhile_loses_no_sample_and_leaves_nothing_open() -> None:
    perf = FakePerf(4)
    one = collector(perf)
    look(one, 0.0, 2)
    perf.refusal = refused(errno.EPERM)
    found = look(one, 10.0, 2)
    assert measured(found) == ["c0"]
    assert "perf_event_open is refused" in found.partial[-1]
    assert perf.held == 0
    with pytest.raises(UnavailableError):
        look(one, 60.0, 2)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", scope(0)), None),
        (PermissionError(errno.EACCES, "Permission denied", scope(0)), "Permission denied"),
        (refused(errno.EBUSY), "EBUSY"),
        (refused(12345), "12345"),
    ],
)
def test_one_containers_failure_costs_only_itself(error: OSError, said: str | None) -> None:
    perf = FakePerf()
    perf.refusals[scope(0)] = error
    one = collector(perf)
    found = look(one, 0.0, 2)
    assert len(found.partial) == (said is not None)
    assert (said or "") in "".join(found.partial)
    assert measured(look(one, 10.0, 2)) == ["c1"]


def test_containers_take_turns_where_descriptors_run_out() -> None:
    (line,) = look(collector(FakePerf(8)), 0.0, 3).partial
    assert line.startswith("file descriptors suffice for 2 containers at once")
    perf = FakePerf()
    perf.refusals[scope(1)] = refused(errno.EMFILE)
    one = collector(perf)
    assert "Too many open files" in look(one, 0.0, 3).partial[0]
    perf.refusals.clear()
    assert measured(look(one, 10.0, 3)) == ["c0"]
    assert measured(look(one, 20.0, 3)) == ["c1", "c2"]


def test_counters_that_cannot_be_read_and_containers_that_slept_have_no_sample() -> None:
    perf = FakePerf()
    perf.counts = {scope(0): refused(errno.EBUSY), scope(1): (0.0, 0.0)}
    one = collector(perf)
    look(one, 0.0, 3)
    found = look(one, 10.0, 3)
    assert measured(found) == ["c2"]
    assert found.partial == ("counters cannot be read: Device or resource busy",)
    assert perf.held == 0


def test_groups_are_those_of_the_perf_event_hierarchy_on_v1() -> None:
    root = "/sys/fs/cgroup/perf_event"
    perf = FakePerf()
    texts: dict[str, str | OSError] = {ONLINE: "0\n", f"{root}/tasks": ""}
    one = performance.Collector(CollectorSources(TextTree(texts), V1, perf=perf))
    pod = Pod("p", "n", "u1", cgroup_parent="/kubepods/podu1")
    one.collect(CollectContext(0.0, 0.0, (PodRecord(pod, {"c0": Container(pod, "m", "c0")}),)))
    assert perf.opened == [f"{root}/kubepods/podu1/c0"]


@pytest.mark.parametrize(
    ("perf", "online", "layout", "said"),
    [
        (None, "0\n", V2, "no access to perf_event_open"),
        (FakePerf(), "0\n", V1, "mount cgroup v1's hierarchy perf_event"),
        (FakePerf(), "garbage\n", V2, "cannot be read"),
        (FakePerf(), "\n", V2, "names no CPU"),
        (FakePerf(100), "0-63\n", V2, r"takes 128 file .* have 100: raise LimitNOFILE"),
    ],
    ids=["no seam", "no hierarchy", "garbage", "no CPU", "budget too small"],
)
def test_what_is_missing_is_said(
    perf: FakePerf | None, online: str, layout: Layout, said: str
) -> None:
    with pytest.raises(UnavailableError, match=said):
        look(collector(perf, online, layout), 0.0, 1)
