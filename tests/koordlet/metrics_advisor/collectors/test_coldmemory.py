"""Cold memory, from kidled or from DAMON."""

from __future__ import annotations

import errno

import pytest
from koord_host.knobs.layout import Driver, Layout
from koord_model.node_slo import HostApplication, NodeSLO
from koord_model.qos import QoSClass
from koordlet.metrics_advisor.collectors import coldmemory
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)

from tests.koordlet.metrics_advisor.collectors.used_node import pod, values
from tests.support.text_tree import TextTree

KIB = 1024
V1 = Layout(1, Driver.CGROUPFS)
MEMORY = "/sys/fs/cgroup/memory"
KIDLED = "/sys/kernel/mm/kidled"


def collect(texts: dict[str, str | OSError]) -> tuple[dict[tuple[str, ...], float], Samples]:
    collector = coldmemory.Collector(CollectorSources(TextTree(texts), V1))
    found = collector.collect(CollectContext(0.0, 0.0, (pod(),), SLO))
    return values(found), found


def cold(who: str, *labels: str) -> tuple[str, ...]:
    return (f"{who}_memory_cold_page_size", *labels)


def hot(who: str, *labels: str) -> tuple[str, ...]:
    return (f"{who}_memory_usage_with_hot_page_usage", *labels)


SLO = NodeSLO(host_applications=(HostApplication("nginx", QoSClass.LS),))
MEMINFO = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 600 kB\n"
STAT = "".join(
    f"total_{name} {value}\n"
    for name, value in {
        "inactive_anon": 10,
        "active_anon": 20,
        "inactive_file": 3000,
        "active_file": 4000,
        "unevictable": 30,
    }.items()
)


def idle(cold: int) -> str:
    rows = [f"    {kind} 7 7 7 7 7 0 0 0\n" for kind in ("dfei", "cfui", "dfui")]
    return "# version: 1.0\n" + "".join(rows) + f"    cfei 7 7 7 7 7 {cold} 0 0\n"


def kidled_node() -> dict[str, str | OSError]:
    texts: dict[str, str | OSError] = {
        f"{KIDLED}/scan_period_in_seconds": "5\n",
        f"{MEMORY}/memory.idle_page_stats": idle(200 * KIB),
        "/proc/meminfo": MEMINFO,
    }
    for group, cold in (
        ("kubepods/podu1", 1 << 40),
        ("kubepods/podu1/c1", 900),
        ("host-latency-sensitive/nginx", 50),
    ):
        texts[f"{MEMORY}/{group}/memory.idle_page_stats"] = idle(cold)
        texts[f"{MEMORY}/{group}/memory.stat"] = STAT
    return texts


def test_kidled_reports_node_pods_containers_and_host_applications() -> None:
    samples, found = collect(kidled_node())
    assert samples == {
        cold("node"): 200 * KIB,
        hot("node"): 700 * KIB,
        cold("pod", "u1"): 1 << 40,
        hot("pod", "u1"): 0,
        cold("container", "u1", "c1"): 900,
        hot("container", "u1", "c1"): 6160,
        cold("host_application", "nginx"): 50,
        hot("host_application", "nginx"): 7010,
    }
    assert found.partial == ()


@pytest.mark.parametrize(
    ("file", "text", "left", "said"),
    [
        ("memory.idle_page_stats", OSError(errno.ENODEV, "gone"), set(), ""),
        ("memory.stat", FileNotFoundError(errno.ENOENT, "gone"), {"cold"}, ""),
        ("memory.idle_page_stats", "what", set(), "has no line cfei, cfui, dfei, dfui"),
    ],
)
def test_a_file_that_cannot_be_read_costs_its_own_samples(
    file: str, text: str | OSError, left: set[str], said: str
) -> None:
    path = f"{MEMORY}/kubepods/podu1/c1/{file}"
    samples, found = collect(kidled_node() | {path: text})
    own = {"cold": cold("container", "u1", "c1"), "hot": hot("container", "u1", "c1")}
    assert {name for name, key in own.items() if key in samples} == left
    assert hot("pod", "u1") in samples
    assert found.partial == ((f"{path}: {said}",) if said else ())


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("scan_period_in_seconds", "0\n", "kidled has scan_period_in_seconds 0; write 5 to /sys"),
        ("use_hierarchy", "0\n", "kidled has use_hierarchy 0; write 1 to /sys"),
        ("use_hierarchy", PermissionError(13, "Permission denied"), "hierarchy: Permission denied"),
    ],
)
def test_kidled_that_does_not_do_its_work(file: str, text: str | OSError, said: str) -> None:
    with pytest.raises(UnavailableError, match=said):
        collect(kidled_node() | {f"{KIDLED}/{file}": text})


def test_kidled_without_its_cgroup_files() -> None:
    texts: dict[str, str | OSError] = {f"{KIDLED}/scan_period_in_seconds": "5\n"}
    with pytest.raises(UnavailableError, match=r"memory\.idle_page_stats: No such file"):
        collect(texts)


# DAMON

KDAMOND = "/sys/kernel/mm/damon/admin/kdamonds/0"
SCHEME = f"{KDAMOND}/contexts/0/schemes/0"


def damon_node() -> dict[str, str | OSError]:
    """Files as a kernel of 6.18 has them, with the newer nr_snapshots."""
    return {
        "/proc/meminfo": MEMINFO,
        "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds": "1\n",
        f"{KDAMOND}/state": "on\n",
        f"{KDAMOND}/refresh_ms": "1000\n",
        f"{KDAMOND}/contexts/nr_contexts": "1\n",
        f"{KDAMOND}/contexts/0/operations": "paddr\n",
        f"{SCHEME}/action": "stat\n",
        f"{SCHEME}/access_pattern/nr_accesses/max": "0\n",
        f"{SCHEME}/quotas/ms": "0\n",
        f"{SCHEME}/quotas/bytes": "0\n",
        f"{SCHEME}/ops_filters/nr_filters": "1\n",
        f"{SCHEME}/ops_filters/0/type": "anon\n",
        f"{SCHEME}/ops_filters/0/matching": "Y\n",
        f"{SCHEME}/ops_filters/0/allow": "N\n",
        f"{SCHEME}/stats/nr_snapshots": "10\n",
        f"{SCHEME}/stats/sz_ops_filter_passed": f"{5000 * KIB}\n",
    }


class Damon:
    """A collector on a node with DAMON."""

    def __init__(self) -> None:
        self.tree = TextTree(damon_node())
        self.collector = coldmemory.Collector(CollectorSources(self.tree, V1))

    def look(self, steady: float) -> dict[tuple[str, ...], float]:
        return values(self.collector.collect(CollectContext(0.0, steady)))

    def count(self, snapshots: int, size: int, scheme: str = SCHEME) -> None:
        self.tree.texts[f"{scheme}/stats/nr_snapshots"] = f"{snapshots}\n"
        self.tree.texts[f"{scheme}/stats/sz_ops_filter_passed"] = f"{size}\n"


def test_damon_s_snapshots_since_the_last_look_are_averaged() -> None:
    node = Damon()
    assert node.look(0.0) == {}
    node.count(12, 5600 * KIB)
    assert node.look(5.0) == {cold("node"): 300 * KIB, hot("node"): 600 * KIB}
    assert node.look(10.0) == {}
    node.count(13, 5700 * KIB)
    assert node.look(15.0)[cold("node")] == 100 * KIB


def test_damon_started_anew_says_nothing_once() -> None:
    node = Damon()
    node.look(0.0)
    node.count(1, 100)
    assert node.look(5.0) == {}
    node.count(2, 300)
    assert node.look(10.0)[cold("node")] == 200


def test_contexts_are_added_up_or_left_out_together() -> None:
    node = Damon()
    other = f"{KDAMOND}/contexts/1"
    start = f"{KDAMOND}/contexts/0"
    node.tree.texts |= {
        path.replace(start, other): text
        for path, text in node.tree.texts.items()
        if path.startswith(start)
    }
    node.look(0.0)
    node.count(11, 5001 * KIB)
    assert node.look(5.0) == {}
    node.count(12, 5002 * KIB)
    node.count(11, 5007 * KIB, f"{other}/schemes/0")
    assert node.look(10.0)[cold("node")] == 8 * KIB


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (f"{KDAMOND}/state", "off\n"),
        (f"{KDAMOND}/refresh_ms", "0\n"),
        (f"{KDAMOND}/refresh_ms", None),
        (f"{KDAMOND}/contexts/0/operations", "vaddr\n"),
        (f"{SCHEME}/action", "pageout\n"),
        (f"{SCHEME}/access_pattern/nr_accesses/max", "1\n"),
        (f"{SCHEME}/quotas/ms", "200\n"),
        (f"{SCHEME}/quotas/bytes", "536870912\n"),
        (f"{SCHEME}/ops_filters/0/type", "unmapped\n"),
        (f"{SCHEME}/ops_filters/0/allow", "Y\n"),
        (f"{SCHEME}/stats/nr_snapshots", None),
        (f"{SCHEME}/stats/nr_snapshots", "many\n"),
        (f"{SCHEME}/stats/sz_ops_filter_passed", None),
    ],
)
def test_a_scheme_that_does_not_say_what_is_cold_is_not_read(file: str, text: str | None) -> None:
    node = Damon()
    if text is None:
        node.tree.remove(file)
    else:
        node.tree.texts[file] = text
    with pytest.raises(UnavailableError, match="none of DAMON's schemes can be read"):
        node.look(0.0)


def test_a_node_with_neither() -> None:
    with pytest.raises(UnavailableError, match="the kernel has no kidled, and none of DAMON's"):
        collect({"/proc/meminfo": MEMINFO})
