"""Kernel files of a node, of which not every kernel has each, and their usual forms. No IO."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from koord_host.kernel_files.interface import FileTree
from koord_host.knobs.layout import Layout
from koord_model import cpuset

Document = dict[str, Any]
T = TypeVar("T")

UNLIMITED = (1 << 64) - 1
"""Malachite's number for "max"."""
_KIBIBYTES = re.compile(r"^(?:Node +\d+ +)?([\w()]+): +(\d+) kB$", re.MULTILINE)
_PRESSURE = re.compile(r"^(some|full) avg10=(\S+) avg60=(\S+) avg300=(\S+) total=(\d+)$", re.M)


@dataclass(frozen=True, slots=True)
class NodeFileTree:
    """A node's kernel files by place, for readers; ``page_bytes`` is the kernel's page size."""

    tree: FileTree
    layout: Layout
    sys_root: str = "/sys"
    page_bytes: int = 4096

    def read(self, path: str) -> str:
        """The text of a file, "" if there is none or it cannot be read."""
        try:
            return self.tree.read(path)
        except OSError:
            return ""

    def names(self, path: str) -> list[str]:
        """The names in a directory, none if it is not there."""
        try:
            return self.tree.names(path)
        except OSError:
            return []

    def proc(self, name: str) -> str:
        """The text of a file in /proc that every kernel has; raises OSError."""
        return self.tree.read(f"{self.layout.proc_root}/{name}")


def counters(text: str) -> dict[str, int]:
    """Lines of a name and a number, such as those of cpu.stat and vmstat; others are skipped."""
    words = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in words if len(pair) == 2 and pair[1].isdigit()}


def kibibytes(text: str) -> dict[str, int]:
    """The amounts of a meminfo file, of the machine or of a NUMA node."""
    return {name: int(amount) for name, amount in _KIBIBYTES.findall(text)}


def pressure(text: str) -> Document:
    """A pressure file: averages in percent, totals in microseconds."""
    return {
        kind: dict(zip(("avg10", "avg60", "avg300", "total"), map(float, values), strict=True))
        for kind, *values in _PRESSURE.findall(text)
    }


def list_of(text: str) -> Document:
    """A list of CPUs or NUMA nodes, as the kernel writes it and number by number."""
    try:
        numbers = sorted(cpuset.parse(text))
    except ValueError:
        numbers = []
    return {"meta": text.strip(), "inner": numbers}


def limit(text: str) -> int:
    """A limit, unlimited if it is "max" or the group has no such file."""
    return int(text) if text.strip().isdigit() else UNLIMITED


def headed(text: str, title: str) -> dict[str, int]:
    """The counters below a title in netstat or snmp: a line of names, then one of numbers."""
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith(f"{title}:")]
    return {name: int(value) for name, value in zip(*lines[:2], strict=False)} if lines else {}


def present(fields: Document) -> Document:
    """Leave out what is not known."""
    return {name: value for name, value in fields.items() if value is not None}


def numbered(names: list[str], pattern: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    """The names with a number, in its order."""
    matches = (pattern.fullmatch(name) for name in names)
    yield from sorted((int(match[1]), match[0]) for match in matches if match)


def renamed(found: dict[str, T], names: dict[str, str]) -> dict[str, T]:
    """Values by their new names, without those that are not there."""
    return {new: found[old] for new, old in names.items() if old in found}
