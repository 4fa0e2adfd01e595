"""Malachite's pages, as Katalyst's own client and agent read them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.vectors import load
from tests.support.recorded_node import RecordedNode

[PAGES, FIELDS] = load("malachite")
KIB = 1024
CONTAINER = "podContainer/0b5a/main/"
STORED = {
    "node/mem.total.system": 16_384_000 * KIB,
    "node/mem.available.system": 11_000_000 * KIB,
    "node/mem.kswapdsteal.delta.system": 900,
    "node/cpu.usage.system": (550 + 0 + 750 + 150) / 1000,
    "node/net.tcp.retran": 10 / 4000,
    "cpu/0/cpu.schedwait.cpu": 460,
    "cpu/0/cpu.iowait.ratio.cpu": 50 / 1000,
    "numa/0/cpu.usage.numa": 0.55,
    "numa/1/mem.free.numa": 2_999_996 * KIB,
    "numa/1/mem.available.numa": (2_999_996 + 2_200_000 - 20_000) * KIB,
    "device/sda/io.read.ops.system": 50,
    "device/sda/io.busy.rate.system": 0.4,
    "network/eth0/net.receive.bps": 100_000,
    f"{CONTAINER}cpu.usage.container": 1.5,
    f"{CONTAINER}cpu.usage.ratio.container": 1.5 / 2.5,
    f"{CONTAINER}cpu.quota.container": 250_000,
    f"{CONTAINER}mem.workingsetrefault.container": 21_021 + 22_022,
    "cgroup//kubepods/besteffort/cpu.usage.cgroup": 0.75,
    "cgroup//kubepods/besteffort/cpu.quota.cgroup": -1,
    "cgroupNuma//kubepods/burstable/1/mem.total.numa.cgroup": 24_576 + 12_288,
}
"""Metrics that the agent keeps of the recorded texts, by the kernel's own numbers."""
AS_THE_KERNEL = ("mem_stats", "mem_numa_stats", "cpu_stats")
"""Tables with the kernel's own names, of which the client takes those that it knows."""


@pytest.fixture
def node(tmp_path: Path) -> RecordedNode:
    found = RecordedNode(tmp_path, PAGES.given["before"])
    found.at += PAGES.given["seconds"]
    found.put(PAGES.given["later"])
    return found


def document(node: RecordedNode, name: str) -> Any:
    path, _, group = name.partition("?")
    return node.get(path, **({"cgroup_user_path": group} if group else {}))


def undated(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: undated(part) for name, part in tree.items() if name != "update_time"}
    return [undated(part) for part in tree] if isinstance(tree, list) else tree


def misfits(data: Any, fields: Any, path: str) -> Iterator[str]:
    """Parts of a document that Go's client would leave out, or refuse all of it for."""
    if isinstance(fields, list):
        for part in data:
            yield from misfits(part, fields[0], f"{path}[]")
    elif isinstance(fields, dict):
        for name, part in data.items():
            known = fields.get(name, fields.get("*"))
            if known is not None:
                yield from misfits(part, known, f"{path}.{name}")
            elif not any(f".{table}" in path for table in AS_THE_KERNEL):
                yield f"{path}.{name}: not known"
    elif not fits(data, fields):
        yield f"{path}: {data!r} is no {fields}"


def fits(value: Any, kind: str) -> bool:
    if kind.startswith("uint"):
        return type(value) is int and 0 <= value < 1 << 64
    if kind.startswith("int"):
        return type(value) is int and abs(value) < 1 << 63
    if kind == "float64":
        return type(value) in (int, float)
    return type(value) is {"string": str, "bool": bool}[kind]


def test_pages_are_those_that_the_agent_has_read(node: RecordedNode) -> None:
    recorded = PAGES.recorded["documents"]
    assert {name: undated(document(node, name)) for name in recorded} == recorded


def test_the_agent_keeps_what_the_kernel_counts() -> None:
    kept = {name: PAGES.recorded["stored"][name] for name in STORED}
    assert kept == pytest.approx(STORED, abs=1e-9)


def test_every_field_is_one_of_the_client(node: RecordedNode) -> None:
    found = []
    for name in PAGES.recorded["documents"]:
        data, path = document(node, name), name.partition("?")[0]
        data = data.get("sub_system_groups", data)
        found += misfits(data, FIELDS.recorded[path], path)
    assert found == []
