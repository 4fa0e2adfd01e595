"""What every rule works on: a group in a hierarchy, and the machine below it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from tests.support.fake_cgroupfs.numerals import mask_of, refuse, signed

if TYPE_CHECKING:
    from tests.support.fake_cgroupfs.costs import Cost


@dataclass(slots=True)
class Machine:
    """What the groups share: processors, nodes, disks, and what came to pass."""

    version: int
    cpus: int
    mems: int
    cpu_width: int
    """One more than the highest CPU the kernel could ever have."""
    kernel: tuple[int, int]
    devices: frozenset[str]
    self_pid: int
    iocost: bool
    """Whether the disks have their cost model on (``io.cost.qos``)."""
    inodes: int = 1
    costs: dict[str, Cost] = field(default_factory=dict)
    """``io.cost`` of the disks that anything was ever written about."""
    oom_kills: list[str] = field(default_factory=list)
    pids: set[int] = field(default_factory=set)

    def next_inode(self) -> int:
        self.inodes += 1
        return self.inodes


class Group:
    """A directory of a hierarchy. ``values`` holds only what differs from the default."""

    __slots__ = ("children", "enabled", "files", "inode", "machine", "parent", "path", "pids",
                 "values")  # fmt: skip

    def __init__(
        self, machine: Machine, path: str, parent: Group | None, files: dict[str, File]
    ) -> None:
        self.machine = machine
        self.path = path
        self.parent = parent
        self.files = files
        self.inode = machine.next_inode()
        self.children: dict[str, Group] = {}
        self.pids: set[int] = set()
        #: v2: the controllers its children have.
        self.enabled: frozenset[str] = frozenset()
        self.values: dict[str, int] = {}

    def subtree(self) -> Iterator[Group]:
        """Itself and all below it."""
        yield self
        for child in self.children.values():
            yield from child.subtree()

    def populated(self) -> bool:
        """Whether it or one below it has a process."""
        return bool(self.pids) or any(child.populated() for child in self.children.values())


class File(NamedTuple):
    """A file of a group: what reading gives, what writing does.

    Without ``read`` or ``write`` the kernel answers EINVAL: root may open such a
    file all the same.
    """

    read: Callable[[Group], str] | None
    write: Callable[[Group, str], None] | None = None


def constant(text: str) -> File:
    """A file that is read only and here always the same."""
    return File(lambda _group: text)


def ranged(key: str, default: int, low: int, high: int) -> File:
    """A file that holds a plain number within bounds, EINVAL beyond."""

    def write(group: Group, text: str) -> None:
        value = signed(text)
        if not low <= value <= high:
            refuse(errno.EINVAL)
        group.values[key] = value

    return File(lambda group: f"{group.values.get(key, default)}\n", write)


def machine(
    version: int,
    cpus: str,
    mems: str,
    kernel: tuple[int, int],
    devices: tuple[str, ...],
    self_pid: int,
    *,
    iocost: bool,
) -> Machine:
    """A machine with these processors, nodes and disks."""
    online = mask_of(cpus, 2**13)
    return Machine(
        version=version,
        cpus=online,
        mems=mask_of(mems, 2**10),
        cpu_width=online.bit_length(),
        kernel=kernel,
        devices=frozenset(devices),
        self_pid=self_pid,
        iocost=iocost,
        pids={self_pid},
    )
