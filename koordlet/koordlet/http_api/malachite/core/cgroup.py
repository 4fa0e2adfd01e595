"""``cgroup/groups``: one cgroup of version 2. No IO of its own.

``cpu_usage_ratio`` and its likes are cores, memory is bytes. ``max`` is 2⁶⁴-1 where there is no
limit. Pressure's totals are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator

from koord_host.knobs.layout import Layout
from koord_model.qos import KubeQoS

from koordlet.http_api.malachite.core.counters import CounterGrowths
from koordlet.http_api.malachite.core.kernel_text import (
    Document,
    NodeFileTree,
    counters,
    limit,
    list_of,
    pressure,
)

_USAGE = ("usage_usec", "user_usec", "system_usec")
_MICROSECONDS = 1_000_000
_SPLIT = ("workingset_refault", "workingset_activate")
"""Two counters since Linux 5.9, of which the client wants the sum too."""
_PERIOD = 100_000
_POD_DEPTH = 3
"""Classes, pods, containers."""


def group(
    files: NodeFileTree, path: str, growths: CounterGrowths, steady: float, now: int
) -> Document | None:
    """The document of the cgroup at ``path``, ``None`` while its usage is not known yet.

    Raises:
        OSError: there is no such group.
    """
    directory = files.layout.group_path(path.strip("/"), "")
    usage = _usage(files, directory, growths, steady)
    if usage is None:
        return None
    known = {"full_path": directory, "update_time": now}
    named = known | {"user_path": path}
    return {
        "mount_point": files.layout.cgroup_root,
        "user_path": path,
        "cgroup_type": "V2",
        "sub_system_groups": {
            "Cpuacct": {"Cpu": {"V2": known | usage | _cpu(files, directory)}},
            "Memory": {"Memory": {"V2": named | _memory(files, directory)}},
            "Cpuset": {"CpuSet": {"V2": known | _cpuset(files, directory)}},
            "Blkio": {"BlkIO": {"V2": named | _blkio(files, directory)}},
            "NetCls": {"Net": named},
        },
    }


def prime(files: NodeFileTree, growths: CounterGrowths, steady: float) -> None:
    """Read the usage of all pods' groups, so that the first client learns it at once."""
    root = files.layout.kube_qos_group(KubeQoS.GUARANTEED)
    for path in _below(files, files.layout, root, _POD_DEPTH):
        try:
            _usage(files, files.layout.group_path(path, ""), growths, steady)
        except OSError:
            continue  # gone meanwhile


def _below(files: NodeFileTree, layout: Layout, path: str, depth: int) -> Iterator[str]:
    yield path
    try:
        names = files.tree.entries(layout.group_path(path, "")) if depth else []
    except OSError:
        return
    for name in names:
        yield from _below(files, layout, f"{path}/{name}", depth - 1)


def _usage(
    files: NodeFileTree, directory: str, growths: CounterGrowths, steady: float
) -> Document | None:
    stat = counters(files.tree.read(f"{directory}/cpu.stat"))
    used = tuple(stat.get(name, 0) for name in _USAGE)
    growth = growths.of(directory, used, steady)
    if growth is None:
        return None
    cores = [growth.rate(place) / _MICROSECONDS for place in range(len(_USAGE))]
    names = ("cpu_usage_ratio", "cpu_user_usage_ratio", "cpu_sys_usage_ratio")
    return {"cpu_stats": stat, **dict(zip(names, cores, strict=True))}


def _cpu(files: NodeFileTree, directory: str) -> Document:
    quota, *period = files.read(f"{directory}/cpu.max").split() or ("max",)
    found = {
        "cpu_pressure": pressure(files.read(f"{directory}/cpu.pressure")),
        "max": limit(quota),
        "max_period": int(period[0]) if period else _PERIOD,
    }
    for field, file in (
        ("weight", "cpu.weight"),
        ("weight_nice", "cpu.weight.nice"),
        ("max_burst", "cpu.max.burst"),
    ):
        if text := files.read(f"{directory}/{file}").strip():
            found[field] = int(text)
    return found


def _memory(files: NodeFileTree, directory: str) -> Document:
    found: Document = {
        "mem_stats": _stats(counters(files.read(f"{directory}/memory.stat"))),
        "mem_numa_stats": _numa(files.read(f"{directory}/memory.numa_stat")),
        "mem_pressure": pressure(files.read(f"{directory}/memory.pressure")),
        "mem_local_events": counters(files.read(f"{directory}/memory.events.local")),
    }
    for field, file in (
        ("memory_usage_in_bytes", "memory.current"),
        ("max", "memory.max"),
        ("high", "memory.high"),
        ("low", "memory.low"),
        ("min", "memory.min"),
        ("swap_max", "memory.swap.max"),
        ("swap_current", "memory.swap.current"),
    ):
        if text := files.read(f"{directory}/{file}").strip():
            found[field] = limit(text)
    return found


def _stats(stat: dict[str, int]) -> dict[str, int]:
    for name in _SPLIT:
        parts = [stat[f"{name}_{kind}"] for kind in ("anon", "file") if f"{name}_{kind}" in stat]
        if parts:
            stat[name] = sum(parts)
    return stat


def _numa(text: str) -> Document:
    """Lines such as "anon N0=4096 N1=0", by node."""
    found: dict[str, dict[str, int]] = {}
    for line in text.splitlines():
        name, *amounts = line.split()
        for amount in amounts:
            node, _, value = amount.partition("=")
            found.setdefault(node, {})[name] = int(value)
    return found


def _cpuset(files: NodeFileTree, directory: str) -> Document:
    return {
        kind: list_of(files.read(f"{directory}/cpuset.{kind}.effective"))
        for kind in ("cpus", "mems")
    }


def _blkio(files: NodeFileTree, directory: str) -> Document:
    return {
        "io_stat": {
            device: {"Data": {name: int(value) for name, value in pairs}}
            for device, pairs in _devices(files.read(f"{directory}/io.stat"))
        },
        "io_pressure": pressure(files.read(f"{directory}/io.pressure")),
    }


def _devices(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for line in text.splitlines():
        device, *words = line.split()
        pairs = [(name, value) for name, _, value in (word.partition("=") for word in words)]
        yield device, [pair for pair in pairs if pair[1].isdigit()]
