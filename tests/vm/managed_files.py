"""The kernel files of the node that strategies write, as they are read on it."""

from __future__ import annotations

from pathlib import Path

from tests.vm import slices

KUBEPODS = slices.CGROUP / "kubepods.slice"
BESTEFFORT = KUBEPODS / "kubepods-besteffort.slice"
BURSTABLE = KUBEPODS / "kubepods-burstable.slice"

FILES = (
    *("cpu.max", "cpu.max.burst", "cpu.weight", "cpuset.cpus"),
    *("memory.min", "memory.low", "memory.high", "io.max", "io.weight"),
)
"""What strategies write of a group here."""

SYSCTL = "/proc/sys/vm/watermark_scale_factor"


def groups() -> dict[str, dict[str, str]]:
    """What all groups of pods have, by path below the cgroup root and file."""
    directories = (KUBEPODS, *(one for one in sorted(KUBEPODS.rglob("*")) if one.is_dir()))
    return {
        str(one.relative_to(slices.CGROUP)): {
            name: text(one / name) for name in FILES if (one / name).exists()
        }
        for one in directories
    }


def machine() -> dict[str, str]:
    """What is the whole machine's."""
    return {"io": text(slices.CGROUP / "io.cost.qos"), "sysctl": text(SYSCTL)}


def above() -> dict[str, str]:
    """What strategies write of the groups above all pods of a class."""
    return {
        "besteffort cpu.max": text(BESTEFFORT / "cpu.max"),
        "burstable memory.min": text(BURSTABLE / "memory.min"),
        "burstable memory.low": text(BURSTABLE / "memory.low"),
    }


def cpus_below() -> set[str]:
    """The cpusets of best-effort pods and what is in them."""
    return {files["cpuset.cpus"] for name, files in groups().items() if "besteffort-pod" in name}


def cpus(group: Path) -> int:
    """How many CPUs a group's own cpuset has."""
    words = filter(None, text(group / "cpuset.cpus").split(","))
    ends = (word.split("-") for word in words)
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


def quota(group: Path) -> int:
    """Microseconds in a period; -1 for no limit."""
    word = text(group / "cpu.max").split()[0]
    return -1 if word == "max" else int(word)


def text(path: Path | str) -> str:
    """A file's text."""
    return Path(path).read_text().strip()
