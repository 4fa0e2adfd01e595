"""Pressure of the node, of pods and of containers."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_model.pod import Container, Pod
from koordlet.metrics_advisor.collectors import psi
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)
from koordlet.metrics_advisor.contract.metric_kinds import KINDS
from koordlet.metrics_advisor.contract.samples import Series
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.text_tree import TextTree

V2 = Layout(2, Driver.SYSTEMD)
V1 = Layout(1, Driver.CGROUPFS)
POD = Pod("p", "n", "u1", cgroup_parent="kubepods-podu1.slice")
RECORD = PodRecord(POD, {"c1": Container(POD, "main", "c1")})
SLICE = "/sys/fs/cgroup/kubepods.slice/kubepods-podu1.slice"
SCOPE = f"{SLICE}/cri-containerd-c1.scope"


def text(some: float = 1.0, full: float | None = 0.5) -> str:
    lines = [f"some avg10={some:.2f} avg60=2.00 avg300=3.00 total=9\n"]
    if full is not None:
        lines.append(f"full avg10={full:.2f} avg60=0.20 avg300=0.30 total=1\n")
    return "".join(lines)


def node_files() -> dict[str, str | OSError]:
    return {f"/proc/pressure/{name}": text() for name in ("cpu", "memory", "io")}


def group_files(group: str, **texts: str | OSError) -> dict[str, str | OSError]:
    given = dict.fromkeys(("cpu", "memory", "io"), text()) | texts
    return {f"{group}/{name}.pressure": one for name, one in given.items()}


def collect(
    texts: dict[str, str | OSError], *records: PodRecord, layout: Layout = V2
) -> tuple[dict[Series, float], Samples]:
    found = psi.Collector(CollectorSources(TextTree(texts), layout)).collect(
        CollectContext(0.0, 0.0, records)
    )
    samples = dict(found.samples)
    assert len(samples) == len(found.samples)
    for kind, labels in samples:
        assert len(labels) == len(KINDS[kind].labels)
    return samples, found


def test_the_node_has_all_three_averages() -> None:
    samples, found = collect(node_files())
    assert len(samples) == 3 * 3 * 2
    assert samples[Series("node_psi", ("mem", "avg60", "some"))] == 2.0
    assert samples[Series("node_psi", ("cpu", "avg300", "full"))] == 0.3
    assert found.partial == ()


def test_pods_and_containers_have_the_average_over_ten_seconds() -> None:
    files = node_files() | group_files(SLICE, io=text(7.0, 6.0)) | group_files(SCOPE)
    samples, found = collect(files, RECORD)
    assert samples[Series("pod_psi", ("u1", "io", "avg10", "some"))] == 7.0
    assert samples[Series("pod_psi", ("u1", "io", "avg10", "full"))] == 6.0
    assert samples[Series("container_psi", ("u1", "c1", "mem", "avg10", "some"))] == 1.0
    assert samples[Series("pod_psi_cpu_full_supported", ("u1",))] == 1.0
    assert samples[Series("container_psi_cpu_full_supported", ("u1", "c1"))] == 1.0
    assert {kind for kind, _ in samples} <= KINDS.keys()
    assert len(samples) == 18 + 2 * (6 + 1)
    assert found.partial == ()


def test_a_kernel_that_does_not_say_when_all_wait_for_cpu() -> None:
    files = group_files(SLICE, cpu=text(full=None)) | group_files(SCOPE, cpu=text(full=None))
    samples, _ = collect(node_files() | files, RECORD)
    assert samples[Series("pod_psi_cpu_full_supported", ("u1",))] == 0.0
    assert Series("pod_psi", ("u1", "cpu", "avg10", "full")) not in samples
    assert Series("pod_psi", ("u1", "mem", "avg10", "full")) in samples


@pytest.mark.parametrize(
    "gone",
    [
        {},
        group_files(SCOPE, cpu=OSError(errno.ENODEV, "No such device")),
        {f"{SCOPE}/cgroup.procs": ""},
    ],
)
def test_a_group_that_goes_meanwhile_is_left_out_in_silence(
    gone: dict[str, str | OSError],
) -> None:
    samples, found = collect(node_files() | group_files(SLICE) | gone, RECORD)
    assert Series("pod_psi", ("u1", "cpu", "avg10", "some")) in samples
    assert Series("container_psi", ("u1", "c1", "cpu", "avg10", "some")) not in samples
    assert found.partial == ()


def test_garbage_costs_one_file_and_is_said() -> None:
    samples, found = collect(
        node_files() | group_files(SLICE, io="what\n") | group_files(SCOPE), RECORD
    )
    assert Series("pod_psi", ("u1", "io", "avg10", "some")) not in samples
    assert Series("pod_psi", ("u1", "cpu", "avg10", "some")) in samples
    assert found.partial == (f"{SLICE}/io.pressure: 'what' is not a valid line of a pressure file",)


def test_v1_has_the_node_alone_and_says_so_once() -> None:
    samples, found = collect(node_files(), RECORD, RECORD, layout=V1)
    assert {kind for kind, _ in samples} == {"node_psi"}
    assert found.partial == (
        (
            "cgroup v1 has no pressure files here (only Anolis' kernel has): "
            "pod_psi and container_psi are left out"
        ),
    )


def test_v1_of_anolis_has_its_files_in_cpuacct() -> None:
    pod = Pod("p", "n", "u1", cgroup_parent="/kubepods/podu1")
    samples, found = collect(
        node_files() | group_files("/sys/fs/cgroup/cpuacct/kubepods/podu1"),
        PodRecord(pod),
        layout=V1,
    )
    assert samples[Series("pod_psi", ("u1", "cpu", "avg10", "some"))] == 1.0
    assert found.partial == ()


def test_a_node_without_pods_lacks_nothing() -> None:
    assert collect(node_files(), layout=V1)[1].partial == ()


def test_groups_without_the_node() -> None:
    samples, found = collect(group_files(SLICE), PodRecord(POD))
    assert len(samples) == 7
    assert found.partial == ("/proc/pressure is not there: node_psi is left out",)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, r"tells of no pressure: the kernel needs CONFIG_PSI, and psi=1 on its command"),
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


@pytest.mark.skipif(not Path("/proc/pressure").exists(), reason="no PSI on this kernel")
def test_this_machine() -> None:
    found = psi.Collector(CollectorSources(KernelFilesystem(), V2)).collect(
        CollectContext(0.0, 0.0)
    )
    assert len(found.samples) >= 9
    assert all(0 <= value <= 100 for _, value in found.samples)
