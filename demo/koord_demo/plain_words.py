"""Limits in plain words."""

from __future__ import annotations

from koord_demo.cgroups import UNLIMITED, CgroupValues


def rows(values: CgroupValues) -> list[tuple[str, str, str]]:
    """For each limit: the kernel's file, what it holds, and what that means."""
    return [
        _weight(values),
        ("cpu quota", _shown(values.cpu_quota), _quota(values)),
        ("memory limit", _shown(values.memory_limit), _memory(values.memory_limit)),
        ("cpuset.cpus", values.cpuset or "-", f"may run on CPUs {values.cpuset or 'of its group'}"),
    ]


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"


def _weight(values: CgroupValues) -> tuple[str, str, str]:
    if values.cpu_shares is None:
        return (
            "cpu.weight",
            str(values.cpu_weight),
            f"has weight {values.cpu_weight}, usual is 100",
        )
    cpus = values.cpu_shares / 1024
    if values.cpu_shares <= 2:
        meaning = "gets almost no CPU on a busy node"
    else:
        meaning = f"counts as {cpus:.3g} CPU when CPUs are scarce"
    return "cpu.shares", str(values.cpu_shares), meaning


def _quota(values: CgroupValues) -> str:
    if values.cpu_quota is None or values.cpu_quota < 0 or not values.cpu_period:
        return "may use every idle CPU"
    return f"may use at most {values.cpu_quota / values.cpu_period:.3g} CPU"


def _memory(limit: int | None) -> str:
    if limit is None or limit < 0:
        return "may use all memory"
    return f"may use at most {limit / (1 << 20):g} MiB"


def _shown(value: int | None) -> str:
    return "-" if value is None else "no limit" if value == UNLIMITED else str(value)
