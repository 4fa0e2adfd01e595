"""NUMA nodes as sysfs has them: their CPUs, memory and huge pages.

Nodes may have no CPUs or no memory, and their numbers gaps. A kernel without NUMA has
no such directory: its machine is one node, number 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from koord_model import cpuset
from koord_model.node_info import NodeMemoryInfo, NumaNode

from koord_host.kernel_files.interface import FileReader, FileTree

_NODE = re.compile(r"node([0-9]{1,5})")
_PAGES = re.compile(r"hugepages-([0-9]{1,15})kB")
# "MemTotal: 1 kB" of the machine, "Node 0 MemTotal: 1 kB" of a node.
_TOTAL = re.compile(r"^(?:Node +[0-9]+ +)?MemTotal: +([0-9]+) kB$", re.MULTILINE)


def read_cpus(tree: FileTree, sys_root: str = "/sys") -> dict[int, frozenset[int]]:
    """The CPUs of each node that is online, those that run; {} without NUMA.

    Raises:
        ValueError: a list is not as the kernel writes it.
        OSError: a list cannot be read.
    """
    root = _root(sys_root)
    found = {}
    for number in _numbers(tree, root):
        try:
            found[number] = cpuset.parse(tree.read(f"{root}/node{number}/cpulist"))
        except FileNotFoundError:
            continue  # taken out of the machine meanwhile
    return found


def read_memory(
    tree: FileTree,
    nodes: Mapping[int, frozenset[int]],
    sys_root: str = "/sys",
    proc_root: str = "/proc",
) -> NodeMemoryInfo:
    """The machine's memory, whole and by these nodes.

    Raises:
        ValueError: a file does not say how much there is.
        OSError: a file cannot be read.
    """
    total = _memory(tree, f"{proc_root}/meminfo")
    if not nodes:
        pages = _huge_pages(tree, f"{sys_root}/kernel/mm/hugepages")
        online = cpuset.parse(tree.read(f"{sys_root}/devices/system/cpu/online"))
        return NodeMemoryInfo(total, (NumaNode(0, total, pages, tuple(sorted(online))),))
    return NodeMemoryInfo(total, tuple(_nodes(tree, _root(sys_root), nodes)))


def _nodes(tree: FileTree, root: str, nodes: Mapping[int, frozenset[int]]) -> Iterator[NumaNode]:
    for number, cpus in sorted(nodes.items()):
        try:
            memory = _memory(tree, f"{root}/node{number}/meminfo")
        except FileNotFoundError:
            continue
        pages = _huge_pages(tree, f"{root}/node{number}/hugepages")
        yield NumaNode(number, memory, pages, tuple(sorted(cpus)))


def _root(sys_root: str) -> str:
    return f"{sys_root}/devices/system/node"


def _numbers(tree: FileTree, root: str) -> list[int]:
    try:
        names = tree.names(root)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(int(match[1]) for match in map(_NODE.fullmatch, names) if match)


def _memory(reader: FileReader, path: str) -> int:
    match = _TOTAL.search(reader.read(path))
    if match is None:
        raise ValueError(f'{path} has no line "MemTotal: … kB"')
    return int(match[1]) * 1024


def _huge_pages(tree: FileTree, directory: str) -> dict[int, int]:
    """Return the number of reserved huge pages by their size in bytes."""
    try:
        names = tree.names(directory)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    sizes = {name: int(match[1]) << 10 for name in names if (match := _PAGES.fullmatch(name))}
    return {
        size: int(tree.read(f"{directory}/{name}/nr_hugepages"))
        for name, size in sorted(sizes.items(), key=lambda item: item[1])
    }
