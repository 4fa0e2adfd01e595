"""The machine's description: sysfs in, infos out."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_model import cpuset
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo, NumaNode, Processor
from koordlet.metrics_advisor.collectors import nodeinfo
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)

from tests.support.text_tree import TextTree

CPU = "/sys/devices/system/cpu"
NODE = "/sys/devices/system/node"
LOOK = CollectContext(0.0, 0.0)
LAYOUT = Layout(2, Driver.SYSTEMD)


def machine(
    sockets: int = 2, cores: int = 2, threads: int = 2, *, cache_ids: bool = True
) -> dict[str, str | OSError]:
    """A machine whose sockets are NUMA nodes, first threads first, as x86 numbers them."""
    each = sockets * cores
    texts: dict[str, str | OSError] = {
        f"{CPU}/online": f"0-{each * threads - 1}\n",
        f"{CPU}/possible": f"0-{each * threads - 1}\n",
        "/proc/meminfo": "MemTotal:       2048 kB\nMemFree:        1 kB\n",
    }
    for cpu in range(each * threads):
        socket, core = divmod(cpu % each, cores)
        siblings = [one for one in range(each * threads) if one % each // cores == socket]
        last = f"{CPU}/cpu{cpu}/cache/index3"
        for name, value in (
            ("physical_package_id", socket),
            ("die_id", 0),
            ("cluster_id", core),
            ("core_id", core * 4),
        ):
            texts[f"{CPU}/cpu{cpu}/topology/{name}"] = f"{value}\n"
        for name, level, kind in (("0", 1, "Data"), ("1", 1, "Instruction"), ("2", 2, "Unified")):
            texts[f"{CPU}/cpu{cpu}/cache/index{name}/level"] = f"{level}\n"
            texts[f"{CPU}/cpu{cpu}/cache/index{name}/type"] = f"{kind}\n"
        texts |= {f"{last}/level": "3\n", f"{last}/type": "Unified\n"}
        texts[f"{last}/shared_cpu_list"] = f"{cpuset.render(siblings)}\n"
        if cache_ids:
            texts[f"{last}/id"] = f"{socket * 5}\n"
        node = f"{NODE}/node{socket}"
        texts[f"{node}/cpulist"] = f"{cpuset.render(siblings)}\n"
        texts[f"{node}/meminfo"] = f"Node {socket} MemTotal:    1024 kB\n"
    return texts


def collector(texts: dict[str, str | OSError]) -> tuple[nodeinfo.Collector, TextTree]:
    tree = TextTree(texts)
    return nodeinfo.Collector(CollectorSources(tree, LAYOUT)), tree


def cpus(found: Samples) -> NodeCPUInfo:
    return next(info for info in found.infos if isinstance(info, NodeCPUInfo))


def memory(found: Samples) -> NodeMemoryInfo:
    return next(info for info in found.infos if isinstance(info, NodeMemoryInfo))


def look(texts: dict[str, str | OSError]) -> Samples:
    return collector(texts)[0].collect(LOOK)


@pytest.mark.parametrize("name", ["die_id", "cluster_id"])
def test_the_same_core_id_in_another_part_of_a_socket_is_another_core(name: str) -> None:
    texts = machine(1, 2, 1)
    for cpu in (0, 1):
        topology = f"{CPU}/cpu{cpu}/topology"
        texts |= {f"{topology}/{one}": "0\n" for one in ("core_id", "die_id", "cluster_id")}
        texts[f"{topology}/{name}"] = f"{cpu}\n"
    assert [one.core for one in cpus(look(texts)).processors] == [0, 1]


@pytest.mark.parametrize(("cache_ids", "second"), [(True, 5), (False, 1)])
def test_cores_are_unique_on_the_machine_and_shared_by_threads(
    cache_ids: bool, second: int
) -> None:
    """Caches without ids are distinguished by the CPUs that share them."""
    found = cpus(look(machine(cache_ids=cache_ids))).processors
    first_threads = [(0, 0, 0, 0), (1, 0, 0, 0), (2, 1, 1, second), (3, 1, 1, second)]
    assert [(one.id, one.core, one.socket, one.node, one.l3) for one in found] == [
        (thread * 4 + core, core, *place) for thread in (0, 1) for core, *place in first_threads
    ]


def test_an_instruction_cache_is_not_the_last_level() -> None:
    texts = machine(1, 1, 1)
    for path in [path for path in texts if "/cache/index" in path]:
        del texts[path]
    directory = f"{CPU}/cpu0/cache"
    texts |= {f"{directory}/index0/level": "1\n", f"{directory}/index0/type": "Data\n"}
    texts |= {f"{directory}/index0/id": "7\n", f"{directory}/index1/level": "1\n"}
    texts |= {f"{directory}/index1/type": "Instruction\n", f"{directory}/index1/id": "8\n"}
    assert [one.l3 for one in cpus(look(texts)).processors] == [7]


def test_a_machine_without_topology_has_a_core_for_each_cpu() -> None:
    texts: dict[str, str | OSError] = {
        f"{CPU}/cpu0/online": "1\n",
        f"{CPU}/cpu1/online": "1\n",
        f"{CPU}/online": "0-1\n",
        f"{CPU}/cpufreq/boost": "1\n",
        "/proc/meminfo": "MemTotal: 4 kB\n",
        "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "3\n",
    }
    found = look(texts)
    assert cpus(found).processors == (Processor(0, 0, 0, 0), Processor(1, 1, 0, 0))
    assert memory(found) == NodeMemoryInfo(4096, (NumaNode(0, 4096, {2 << 20: 3}, (0, 1)),))


def test_what_is_known_of_a_cpu_stays_known_while_it_is_offline() -> None:
    one, tree = collector(machine())
    before = cpus(one.collect(LOOK)).processors
    tree.texts |= {f"{CPU}/online": "0-5,7\n", f"{NODE}/node1/cpulist": "2-3,7\n"}
    tree.texts[f"{CPU}/cpu6/online"] = "0\n"
    tree.remove(f"{CPU}/cpu6/topology")
    tree.remove(f"{CPU}/cpu6/cache")
    found = cpus(one.collect(LOOK))
    assert found.processors[6] == Processor(6, 2, 1, 1, 5, online=False)
    assert found.online == before[:6] + before[7:]
    never = cpus(collector(tree.texts)[0].collect(LOOK)).processors[6]
    assert never == Processor(6, -1, -1, -1, online=False)


def test_nothing_is_read_anew_while_the_same_cpus_run() -> None:
    one, tree = collector(machine())
    first = cpus(one.collect(LOOK))
    tree.reads.clear()
    assert cpus(one.collect(LOOK)) == first
    assert not [path for path in tree.reads if "/topology/" in path or "/cache/" in path]
    assert "/proc/cpuinfo" not in tree.reads


def test_numa_nodes_with_gaps_without_cpus_and_without_memory() -> None:
    texts = machine(1, 2, 1) | {
        f"{NODE}/online": "0,3,8\n",
        f"{NODE}/node3/cpulist": "\n",
        f"{NODE}/node3/meminfo": "Node 3 MemTotal:   512 kB\n",
        f"{NODE}/node3/hugepages/hugepages-1048576kB/nr_hugepages": "2\n",
        f"{NODE}/node3/hugepages/hugepages-2048kB/nr_hugepages": "5\n",
        f"{NODE}/node8/cpulist": "1\n",
        f"{NODE}/node8/meminfo": "Node 8 MemTotal:  0 kB\n",
        f"{NODE}/node0/cpulist": "0\n",
    }
    found = look(texts)
    assert memory(found) == NodeMemoryInfo(
        2 << 20,
        (
            NumaNode(0, 1 << 20, {}, (0,)),
            NumaNode(3, 512 << 10, {2 << 20: 5, 1 << 30: 2}),
            NumaNode(8, 0, {}, (1,)),
        ),
    )
    assert [one.node for one in cpus(found).processors] == [0, 8]


@pytest.mark.parametrize(
    ("path", "text", "nodes", "partial"),
    [
        (f"{NODE}/node1/meminfo", FileNotFoundError(2, "gone"), [0], ()),
        (
            *("/proc/meminfo", "nonsense", None),
            ('the machine\'s memory: /proc/meminfo has no line "MemTotal: … kB"',),
        ),
    ],
)
def test_memory_that_cannot_be_read_does_not_hide_the_cpus(
    path: str, text: str | OSError, nodes: list[int] | None, partial: tuple[str, ...]
) -> None:
    found = look(machine() | {path: text})
    assert len(cpus(found).processors) == 8
    if nodes is not None:
        assert [one.id for one in memory(found).nodes] == nodes
    assert found.partial == partial


@pytest.mark.parametrize(
    ("files", "smt", "turbo"),
    [
        ({}, None, None),
        ({"smt/active": "1", "intel_pstate/no_turbo": "0"}, True, True),
        ({"smt/active": "0", "intel_pstate/no_turbo": "1", "cpufreq/boost": "1"}, False, False),
        ({"cpufreq/boost": "1"}, None, True),
        ({"cpufreq/boost": "0\n", "smt/active": "what"}, None, False),
        ({"intel_pstate/no_turbo": PermissionError(13, "no")}, None, None),
    ],
)
def test_features(files: dict[str, str | OSError], smt: bool | None, turbo: bool | None) -> None:
    found = cpus(look(machine() | {f"{CPU}/{name}": text for name, text in files.items()}))
    assert (found.smt, found.turbo) == (smt, turbo)


@pytest.mark.parametrize(
    ("cpuinfo", "model", "vendor"),
    [
        ("processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\nmodel name\t: Xeon 8269: @ 2\n",
         "Xeon 8269: @ 2", "GenuineIntel"),
        ("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "", ""),
        ("model name\t: \n\nmodel name\t: second\n", "", ""),
    ],
)  # fmt: skip
def test_model_and_vendor(cpuinfo: str, model: str, vendor: str) -> None:
    found = cpus(look(machine() | {"/proc/cpuinfo": cpuinfo}))
    assert (found.model, found.vendor) == (model, vendor)


def test_what_cannot_be_read_for_once_is_as_it_was() -> None:
    cpuinfo, failed = {"/proc/cpuinfo": "model name\t: Xeon\n"}, OSError(24, "Too many open files")
    paths = (f"{CPU}/smt/active", f"{CPU}/cpufreq/boost", "/sys/fs/resctrl/info/L3/cbm_mask")
    one, tree = collector(machine() | cpuinfo | dict.fromkeys(paths, "1\n"))
    tree.texts["/proc/cpuinfo"] = failed
    assert cpus(one.collect(LOOK)).model == ""
    tree.texts |= cpuinfo
    before = cpus(one.collect(LOOK))
    assert (before.model, before.smt, before.turbo, before.cbm_mask) == ("Xeon", True, True, "1")
    tree.texts |= dict.fromkeys(paths, failed)
    assert cpus(one.collect(LOOK)) == before
    for path in paths:
        tree.remove(path)
    assert cpus(one.collect(LOOK)).smt is None


@pytest.mark.parametrize(("name", "mask"), [("L3", "fffff"), ("L3CODE", "7ff"), ("L2", "")])
def test_resctrl_s_full_mask(name: str, mask: str) -> None:
    texts = machine() | {f"/sys/fs/resctrl/info/{name}/cbm_mask": f"{mask}\n"}
    assert cpus(look(texts)).cbm_mask == mask


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"{CPU}/online", "all of them"),
        (f"{CPU}/cpu0/topology/core_id", "x"),
        (f"{NODE}/node0/cpulist", "3-1"),
        (f"{NODE}/node0/cpulist", OSError(5, "Input/output error")),
        ("/sys", None),
    ],
)
def test_cpus_that_cannot_be_read_make_it_unavailable(path: str, text: str | OSError) -> None:
    one, tree = collector(machine())
    if text is None:
        tree.remove(path)
    else:
        tree.texts[path] = text
    with pytest.raises(UnavailableError, match="the machine's CPUs: "):
        one.collect(LOOK)


def test_a_cache_is_looked_at_once_however_many_share_it() -> None:
    one, tree = collector(machine(2, 8, 2))
    found = cpus(one.collect(LOOK))
    assert len(found.processors) == 32
    assert len({one.core for one in found.processors}) == 16
    assert len([path for path in tree.reads if path.endswith("/shared_cpu_list")]) == 2
    assert len(tree.reads) < 32 * 6


@pytest.mark.skipif(shutil.which("lscpu") is None, reason="no lscpu to compare with")
def test_this_machine_is_as_lscpu_says() -> None:
    columns = ("lscpu", "-p=CPU,NODE,SOCKET,CORE")
    listed = subprocess.run(columns, capture_output=True, text=True, check=True).stdout
    expected = [
        tuple(int(one or 0) for one in line.split(","))
        for line in listed.splitlines()
        if not line.startswith("#")
    ]
    found = nodeinfo.Collector(CollectorSources(KernelFilesystem(), LAYOUT)).collect(LOOK)
    assert [(one.id, one.node, one.socket, one.core) for one in cpus(found).online] == expected
    assert memory(found).total > 0
