"""CPU and memory of pods and containers: groups that vanish, counters that begin anew."""

from __future__ import annotations

import dataclasses
import errno
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.layout import Driver, Layout
from koordlet.metrics_advisor.collectors import podresource
from koordlet.metrics_advisor.contract.collector import CollectorSources

from tests.koordlet.metrics_advisor.collectors.used_node import Group, Rounds, UsedNode, pod, values

POD, CONTAINER = "kubepods/podu1", "kubepods/podu1/c1"
SECOND = 10**9


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest) -> UsedNode:
    """A pod with a container, and another without."""
    made = UsedNode(request.param)
    made.put(POD, Group(5 * SECOND, anonymous=300, unevictable=40, file=9999))
    made.put(CONTAINER, Group(2 * SECOND, anonymous=200, unevictable=40, file=9999))
    made.put("kubepods/podu2", Group(0, anonymous=7))
    return made


@pytest.fixture
def rounds(node: UsedNode) -> Rounds:
    return Rounds(podresource.Collector(node.sources))


def cpu_file(node: UsedNode, group: str) -> str:
    name = "cpuacct.usage" if node.layout.version == 1 else "cpu.stat"
    return node.path(group, "cpuacct", name)


def test_memory_is_known_at_once_and_cpu_at_the_second_look(node: UsedNode, rounds: Rounds) -> None:
    memory = {
        ("pod_memory_usage", "u1"): 340.0,
        ("container_memory_usage", "u1", "c1"): 240.0,
        ("pod_memory_usage", "u2"): 7.0,
    }
    pods = pod(), pod("u2", ())
    assert values(rounds.look(*pods)) == memory
    node.put(POD, Group(8 * SECOND, anonymous=300, unevictable=40))
    node.put(CONTAINER, Group(3 * SECOND, anonymous=200, unevictable=40))
    assert values(rounds.look(*pods, seconds=2.0)) == memory | {
        ("pod_cpu_usage", "u1"): pytest.approx(1.5),
        ("container_cpu_usage", "u1", "c1"): pytest.approx(0.5),
        ("pod_cpu_usage", "u2"): 0.0,
    }


def test_a_pod_in_a_virtual_machine_counts_as_any_other(rounds: Rounds) -> None:
    assert values(rounds.look(pod(handler="kata-qemu"))) == values(rounds.look(pod(), seconds=99))


def test_a_vanished_pod_is_passed_over_in_silence(node: UsedNode, rounds: Rounds) -> None:
    pods = pod(), pod("u2", ())
    rounds.look(*pods)
    node.remove(POD)
    found = rounds.look(*pods)
    assert values(found) == {("pod_memory_usage", "u2"): 7.0, ("pod_cpu_usage", "u2"): 0.0}
    assert found.partial == ()


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, "No such file or directory"),
        NotADirectoryError(errno.ENOTDIR, "Not a directory"),
        OSError(errno.ENODEV, "No such device"),
    ],
)
def test_a_group_that_vanishes_between_two_files(
    node: UsedNode, rounds: Rounds, error: OSError
) -> None:
    node.tree.texts[node.path(CONTAINER, "memory", "memory.stat")] = error
    rounds.look(pod())
    found = rounds.look(pod())
    assert values(found) == {
        ("pod_cpu_usage", "u1"): 0.0,
        ("pod_memory_usage", "u1"): 340.0,
        ("container_cpu_usage", "u1", "c1"): 0.0,
    }
    assert found.partial == ()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("lots\n", "lots"),
        ("", ""),
        (OSError(errno.EIO, "Input/output error"), ": Input/output error"),
        (PermissionError(errno.EACCES, "Permission denied"), ": Permission denied"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_and_harms_no_other(
    node: UsedNode, rounds: Rounds, text: str | OSError, says: str
) -> None:
    node.tree.texts[cpu_file(node, CONTAINER)] = text
    rounds.look(pod(), pod("u2", ()))
    found = rounds.look(pod(), pod("u2", ()))
    assert ("container_cpu_usage", "u1", "c1") not in values(found)
    assert len(values(found)) == 5
    [line] = found.partial
    assert line.startswith(f"{cpu_file(node, CONTAINER)}: ")
    assert says in line or node.layout.version == 2


def test_a_container_restarted_under_the_same_id(node: UsedNode, rounds: Rounds) -> None:
    rounds.look(pod())
    rounds.look(pod())
    node.put(CONTAINER, Group(SECOND // 10))
    assert ("container_cpu_usage", "u1", "c1") not in values(rounds.look(pod()))
    node.put(CONTAINER, Group(SECOND // 2))
    found = values(rounds.look(pod()))
    assert found["container_cpu_usage", "u1", "c1"] == pytest.approx(0.4)


def test_a_pod_that_comes_back_is_not_charged_for_its_absence(
    node: UsedNode, rounds: Rounds
) -> None:
    rounds.look(pod())
    for _ in range(30):
        rounds.look()
    node.put(POD, Group(900 * SECOND))
    assert ("pod_cpu_usage", "u1") not in values(rounds.look(pod()))


def test_nothing_is_kept_of_pods_that_are_long_gone() -> None:
    node = UsedNode()
    collector = podresource.Collector(node.sources)
    rounds = Rounds(collector)
    for number in range(100):
        node.put(f"kubepods/podu{number}", Group())
        rounds.look(pod(f"u{number}", ()))
    assert len(collector._counters._before) <= 21


def test_a_suspended_machine_and_a_clock_that_jumps(node: UsedNode, rounds: Rounds) -> None:
    rounds.look(pod())
    rounds.at += 86_400
    node.put(POD, Group(5 * SECOND + SECOND // 1000))
    assert rounds.look(pod(), seconds=1e-6).samples == []
    rounds.at -= 90_000
    node.put(POD, Group(5 * SECOND + SECOND // 4))
    found = values(rounds.look(pod(), seconds=0.5))
    assert found["pod_cpu_usage", "u1"] == pytest.approx(0.5, rel=1e-5)


def test_a_container_that_is_new_in_a_pod_is_looked_at(node: UsedNode, rounds: Rounds) -> None:
    rounds.look(pod(containers=()))
    assert ("container_memory_usage", "u1", "c1") in values(rounds.look(pod()))


def test_two_files_are_read_of_each_group(node: UsedNode, rounds: Rounds) -> None:
    rounds.look(pod(), pod("u2", ()))
    assert len(node.tree.reads) == 2 * 3


def test_systemd_groups() -> None:
    layout = Layout(1, Driver.SYSTEMD)
    above = "kubepods.slice/kubepods-podu1.slice"
    node = UsedNode(1)
    node.put(above, Group(anonymous=5))
    node.put(f"{above}/cri-containerd-c1.scope", Group(anonymous=3))
    record = pod()
    record = dataclasses.replace(
        record, pod=dataclasses.replace(record.pod, cgroup_parent="kubepods-podu1.slice")
    )
    rounds = Rounds(podresource.Collector(CollectorSources(node.tree, layout)))
    assert values(rounds.look(record)) == {
        ("pod_memory_usage", "u1"): 5.0,
        ("container_memory_usage", "u1", "c1"): 3.0,
    }


@given(
    st.lists(
        st.tuples(st.integers(0, (1 << 64) - 1), st.floats(0, 40), st.booleans()), max_size=12
    ),
    st.sampled_from([1, 2]),
)
def test_cpu_is_never_less_than_none(steps: list[tuple[int, float, bool]], version: int) -> None:
    node = UsedNode(version)
    rounds = Rounds(podresource.Collector(node.sources))
    for used, seconds, there in steps:
        node.put(POD, Group(used)) if there else node.remove(POD)
        found = rounds.look(pod(), seconds=seconds)
        assert found.partial == ()
        for value in values(found).values():
            assert math.isfinite(value)
            assert value >= 0


@given(st.dictionaries(st.sampled_from(["cpuacct.usage", "memory.stat"]), st.text(max_size=40)))
def test_any_text_harms_no_other_pod(texts: dict[str, str]) -> None:
    node = UsedNode(1)
    node.put(POD, Group(0, anonymous=1))
    node.put("kubepods/podu2", Group(0, anonymous=7))
    for name, text in texts.items():
        node.tree.texts[node.path(POD, name.split(".")[0], name)] = text
    rounds = Rounds(podresource.Collector(node.sources))
    pods = pod(containers=()), pod("u2", ())
    rounds.look(*pods)
    found = values(rounds.look(*pods))
    assert found["pod_memory_usage", "u2"] == 7.0
    assert found["pod_cpu_usage", "u2"] == 0.0
