"""What collectors share: files that may be gone, what is kept of pods, the pace of looks."""

from __future__ import annotations

import dataclasses
import errno

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_model.pod import Container, Pod
from koordlet.metrics_advisor.contract.cgroup_reading import (
    FileReading,
    LabelledCgroup,
    NumaTopology,
    PerPodCache,
    SampleSpacing,
    groups,
)
from koordlet.metrics_advisor.contract.collector import CollectorSources
from koordlet.states_informer.state.pod_inventory import PodRecord

from tests.support.text_tree import TextTree


def record(uid: str = "a-b", runtime: str = "containerd", parent: str = "") -> PodRecord:
    pod = Pod("n", "ns", uid, cgroup_parent=parent or f"/kubepods/pod{uid}")
    return PodRecord(pod, {"c1": Container(pod, "main", "c1")}, runtime)


@pytest.mark.parametrize(
    ("found", "of_group", "of_node"),
    [
        ("5", [], []),
        ("x", ["/f: invalid literal"], ["/f: invalid literal"]),
        (FileNotFoundError(errno.ENOENT, "No such file"), [], ["/f: No such file"]),
        (NotADirectoryError(errno.ENOTDIR, "Not a directory"), [], ["/f: Not a directory"]),
        (OSError(errno.ENODEV, "No such device"), [], ["/f: No such device"]),
        (OSError(errno.EIO, "I/O error"), ["/f: I/O error"], ["/f: I/O error"]),
        (OSError("odd"), ["/f: odd"], ["/f: odd"]),
    ],
)
def test_what_is_reported_of_a_file(
    found: str | OSError, of_group: list[str], of_node: list[str]
) -> None:
    for method, expected in ((FileReading.of_group, of_group), (FileReading.of_node, of_node)):
        reading = FileReading(TextTree({"/f": found}))
        assert method(reading, "/f", int) == (5 if found == "5" else None)
        reported = zip(reading.partial, expected, strict=True)
        assert all(line.startswith(start) for line, start in reported)


@pytest.mark.parametrize(
    ("driver", "runtime", "parent", "expected"),
    [
        (Driver.CGROUPFS, "containerd", "/kubepods/poda-b", "kubepods/poda-b/c1"),
        (Driver.CGROUPFS, "cri-o", "/kubepods/poda-b", "kubepods/poda-b/crio-c1"),
        (
            Driver.SYSTEMD,
            "docker",
            "kubepods-poda_b.slice",
            "kubepods.slice/kubepods-poda_b.slice/docker-c1.scope",
        ),
    ],
)
def test_groups_of_a_pod(driver: Driver, runtime: str, parent: str, expected: str) -> None:
    pod, container = groups(record(runtime=runtime, parent=parent), Layout(1, driver))
    assert pod == LabelledCgroup("pod", ("a-b",), expected.rpartition("/")[0])
    assert container == LabelledCgroup("container", ("a-b", "c1"), expected)


def test_a_pod_is_worked_out_once_for_each_record() -> None:
    made: list[str] = []

    def make(one: PodRecord) -> str:
        made.append(one.pod.uid)
        return one.pod.uid.upper()

    kept, first, second = PerPodCache(make), record("a"), record("b")
    assert kept.of((first, second)) == ["A", "B"]
    assert kept.of((first, second)) == ["A", "B"]
    assert made == ["a", "b"]
    assert kept.of((first, dataclasses.replace(second))) == ["A", "B"]
    assert made == ["a", "b", "b"]
    assert kept.of((first,)) == ["A"]
    assert kept.of((first, second)) == ["A", "B"]
    assert made == ["a", "b", "b", "b"]


def test_looks_that_follow_too_closely_are_left_out() -> None:
    pace = SampleSpacing()
    assert [pace.too_soon(at) for at in (0.0, 0.0, 0.09, 0.11, 0.2, 0.22)] == [
        False,
        True,
        True,
        False,
        True,
        False,
    ]


def test_numa_nodes_are_read_again_after_a_failure() -> None:
    tree = TextTree({"/sys/devices/system/node/node3/cpulist": "x"})
    nodes = NumaTopology(CollectorSources(tree, Layout(1, Driver.CGROUPFS)))
    with pytest.raises(ValueError, match="not a valid CPU list"):
        nodes.at(0.0, {1})
    tree.texts["/sys/devices/system/node/node3/cpulist"] = "1\n"
    assert nodes.at(0.1, {1}) == {3: {1}}
    tree.texts["/sys/devices/system/node/node3/cpulist"] = "1-2\n"
    assert nodes.at(0.2, {1}) == {3: {1}}
    assert nodes.at(0.3, {1, 2}) == {3: {1, 2}}
    tree.texts["/sys/devices/system/node/node7/cpulist"] = "\n"
    assert nodes.at(60.4) == {3: {1, 2}, 7: frozenset()}
    assert nodes.memory_file(7) == "/sys/devices/system/node/node7/meminfo"
