"""Pressure of the node, of pods and of containers."""

from __future__ import annotations

import errno

import pytest
from koord_host.knobs.layout import Driver, Layout
from koordlet.metrics_advisor.collectors import psi
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    UnavailableError,
)
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.koordlet.metrics_advisor.collectors.used_node import pod, values
from tests.support.text_tree import TextTree

Texts = dict[str, str | OSError]
RECORD = pod()
POD = "/sys/fs/cgroup/kubepods/podu1"
CONTAINER = f"{POD}/c1"


def text(some: float = 1.0, full: float | None = 0.5) -> str:
    lines = [f"some avg10={some:.2f} avg60=2.00 avg300=3.00 total=9\n"]
    if full is not None:
        lines.append(f"full avg10={full:.2f} avg60=0.20 avg300=0.30 total=1\n")
    return "".join(lines)


NODE: Texts = {f"/proc/pressure/{name}": text() for name in ("cpu", "memory", "io")}


def group_files(group: str, **texts: str | OSError) -> Texts:
    given = dict.fromkeys(("cpu", "memory", "io"), text()) | texts
    return {f"{group}/{name}.pressure": one for name, one in given.items()}


def collect(
    texts: Texts, *records: PodRecord, version: int = 2
) -> tuple[dict[tuple[str, ...], float], tuple[str, ...]]:
    sources = CollectorSources(TextTree(texts), Layout(version, Driver.CGROUPFS))
    found = psi.Collector(sources).collect(CollectContext(0.0, 0.0, records))
    return values(found), found.partial


def test_the_node_has_three_averages_and_groups_that_over_ten_seconds() -> None:
    files = NODE | group_files(POD, io=text(7.0, 6.0)) | group_files(CONTAINER, cpu=text(full=None))
    samples, partial = collect(files, RECORD)
    assert partial == ()
    assert len(samples) == 3 * 3 * 2 + (6 + 1) + (5 + 1)
    assert samples["node_psi", "mem", "avg60", "some"] == 2.0
    assert samples["node_psi", "cpu", "avg300", "full"] == 0.3
    assert samples["pod_psi", "u1", "io", "avg10", "some"] == 7.0
    assert samples["pod_psi", "u1", "io", "avg10", "full"] == 6.0
    assert samples["container_psi", "u1", "c1", "mem", "avg10", "some"] == 1.0
    assert ("container_psi", "u1", "c1", "cpu", "avg10", "full") not in samples
    assert samples["pod_psi_cpu_full_supported", "u1"] == 1.0
    assert samples["container_psi_cpu_full_supported", "u1", "c1"] == 0.0


@pytest.mark.parametrize(
    ("texts", "kinds", "partial"),
    [
        ({}, {"pod"}, ()),
        (group_files(CONTAINER, cpu=OSError(errno.ENODEV, "No such device")), {"pod", "io"}, ()),
        ({f"{CONTAINER}/cgroup.procs": ""}, {"pod"}, ()),
        (
            group_files(CONTAINER, cpu="what\n"),
            {"pod", "io"},
            (f"{CONTAINER}/cpu.pressure: 'what' is not a valid line of a pressure file",),
        ),
        (
            group_files(CONTAINER, cpu=OSError(errno.EOPNOTSUPP, "Operation not supported")),
            {"pod", "io"},
            ("pressure of cpu: Operation not supported",),
        ),
    ],
    ids=["gone", "goes", "no file", "garbage", "off"],
)
def test_a_file_that_cannot_be_read_costs_itself(
    texts: Texts, kinds: set[str], partial: tuple[str, ...]
) -> None:
    samples, found = collect(NODE | group_files(POD) | texts, RECORD)
    there = {
        "pod": ("pod_psi", "u1", "cpu", "avg10", "some"),
        "cpu": ("container_psi", "u1", "c1", "cpu", "avg10", "some"),
        "io": ("container_psi", "u1", "c1", "io", "avg10", "some"),
    }
    assert {name for name, key in there.items() if key in samples} == kinds
    assert found == partial


@pytest.mark.parametrize(
    ("version", "texts", "records", "kinds", "said"),
    [
        (
            1,
            NODE,
            (RECORD, pod("u2")),
            {"node_psi"},
            "cgroup v1 has no pressure files here (only A",
        ),
        (1, NODE, (), {"node_psi"}, ""),
        (2, NODE, (RECORD,), {"node_psi"}, "cgroups have no pressure files: pod_psi and"),
        (
            1,
            NODE | group_files("/sys/fs/cgroup/cpuacct/kubepods/podu1"),
            (RECORD,),
            {"node_psi", "pod_psi", "pod_psi_cpu_full_supported"},
            "",
        ),
        (
            2,
            group_files(POD),
            (RECORD,),
            {"pod_psi", "pod_psi_cpu_full_supported"},
            "/proc/pressure is not there: node_psi is left out",
        ),
    ],
    ids=["v1", "without pods", "v2 without files", "v1 of Anolis", "without the node's"],
)
def test_what_a_kernel_lacks(
    version: int, texts: Texts, records: tuple[PodRecord, ...], kinds: set[str], said: str
) -> None:
    samples, partial = collect(texts, *records, version=version)
    assert {kind for kind, *_ in samples} == kinds
    assert [line[: len(said)] for line in partial] == ([said] if said else [])


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, r"reports no pressure: the kernel needs CONFIG_PSI, and psi=1 on its command"),
        (
            {
                f"/proc/pressure/{name}": OSError(errno.EOPNOTSUPP, "Operation not supported")
                for name in ("cpu", "memory", "io")
            },
            r"no pressure \(pressure of cpu: Operation not supported\): .* psi=1",
        ),
    ],
)
def test_a_kernel_without_psi(files: dict[str, str | OSError], said: str) -> None:
    with pytest.raises(UnavailableError, match=said):
        collect(files, RECORD)


def test_classes_of_pods_have_the_nodes_averages() -> None:
    samples, partial = collect(NODE | group_files("/sys/fs/cgroup/kubepods/burstable"))
    assert partial == ()
    assert samples["class_psi", "Burstable", "mem", "avg60", "some"] == 2.0
    assert ("class_psi", "BestEffort", "mem", "avg60", "some") not in samples
