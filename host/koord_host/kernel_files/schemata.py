"""Capabilities of resctrl's hardware, and the desired lines of a schemata file: no IO.

Formats and rules are the kernel's (Documentation/filesystems/resctrl.rst, and the
checks in fs/resctrl/ctrlmondata.c). A domain is one instance of a cache; its ID is
the cache's, and IDs may have gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Generic, TypeVar

from koord_model.resctrl import CacheWays, ResctrlLimits

Schemata = Mapping[str, Mapping[int, int]]
"""The lines of a schemata file: values (masks, bandwidths) by domain, by resource."""

MB = "MB"
_MASKS = ("L3", "L3CODE", "L3DATA", "L2", "L2CODE", "L2DATA")
_NO_LIMIT_MBPS = (1 << 32) - 1
"""The value of a group under mba_MBps before anyone sets it (the kernel's MBA_MAX_MBPS)."""


class BandwidthUnit(Enum):
    """Unit of a number in an MB line."""

    PERCENT = "percent"  # Intel, Arm
    ABSOLUTE = "absolute"  # AMD: eighths of a GB/s
    MBPS = "MBps"  # mounted with mba_MBps: MiB/s


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """One cache resource: ``cbm_mask``, ``min_cbm_bits`` and ``sparse_masks`` of its info."""

    full: int
    least_bits: int = 1
    sparse: bool = False

    def mask(self, ways: CacheWays) -> int:
        """The bits for a range, by Koordinator's formula: [⌈n·start⌉, ⌈n·end⌉) of n ways.

        Widened to what the hardware takes at least, upwards while there is room. One
        run of ones even where ``sparse`` would allow gaps: every kernel takes it.
        """
        first = (self.full & -self.full).bit_length() - 1
        count = _run(self.full >> first)
        least = max(self.least_bits, 1)
        start = -(-count * ways.start // 100)
        end = min(max(-(-count * ways.end // 100), start + least), count)
        start = max(min(start, end - least), 0)
        return ((1 << end) - (1 << start)) << first


def _run(mask: int) -> int:
    """Return the number of ones at the end of a mask."""
    return (~mask & (mask + 1)).bit_length() - 1


@dataclass(frozen=True, slots=True)
class BandwidthInfo:
    """The MB resource: ``min_bandwidth`` and ``bandwidth_gran`` of its info, in ``units``.

    ``most`` stands for no limit. ``full`` is what 100 % is of;
    ``None`` where nothing on the node says.
    """

    units: BandwidthUnit
    least: int
    step: int
    most: int
    full: int | None

    def value(self, percent: int, full_mbps: int | None = None) -> int:
        """The number for a percentage, rounded up to the hardware's steps.

        ``full_mbps`` is what 100 % is under mba_MBps, where nothing on the node says.

        Raises:
            ValueError: nothing on the node says what 100 % is; one line says so.
        """
        if percent >= 100:
            return self.most
        full = self.full or full_mbps
        if full is None:
            raise ValueError(
                f"{percent} % of an unknown bandwidth: under mba_MBps the root group's MB line "
                f"shows {self.most}, no limit; set it, or this node's full bandwidth, in MiB/s"
            )
        number = max(-(-full * percent // 100), self.least, 1)
        return min(-(-number // self.step) * self.step, self.most)


@dataclass(frozen=True, slots=True)
class ResctrlInfo:
    """This node's resctrl: its ``info`` directory, and the root group's schemata.

    ``closids`` is how many groups there can be, the root group among them.
    """

    closids: int
    caches: Mapping[str, CacheInfo]
    bandwidth: BandwidthInfo | None
    root: Schemata


def read_info(
    files: Mapping[str, Mapping[str, str]],
    root_schemata: str,
    *,
    mbps_event: bool = False,
    full_bandwidth: int | None = None,
) -> ResctrlInfo:
    """Parse the files under ``info``, by directory and name, with the root's schemata.

    ``mbps_event`` is whether groups have the file ``mba_MBps_event``. ``full_bandwidth``
    is the node's, if somebody measured it, in the units of its MB lines.

    Raises:
        ValueError: no resource can be allocated, or a file is not as the kernel writes it.
    """
    root = parse(root_schemata)
    closids = [_whole(name, "num_closids", info) for name, info in files.items() if _sets(info)]
    caches = {name: _cache(name, files[name]) for name in root if name in files and name != MB}
    bandwidth = None
    if MB in files and root.get(MB):
        bandwidth = read_bandwidth(files[MB], root[MB], mbps_event, full_bandwidth)
    if not closids or not (caches or bandwidth):
        raise ValueError("no cache or memory bandwidth to allocate (no L3, L2 or MB in info)")
    return ResctrlInfo(min(closids), caches, bandwidth, root)


def _sets(info: Mapping[str, str]) -> bool:
    return "num_closids" in info


def _cache(name: str, info: Mapping[str, str]) -> CacheInfo:
    full = _whole(name, "cbm_mask", info, 16)
    if full <= 0:
        raise ValueError(f"info/{name}/cbm_mask is {full:x}; expected a mask")
    least = _whole(name, "min_cbm_bits", info) if "min_cbm_bits" in info else 1
    return CacheInfo(full, least, info.get("sparse_masks", "0").strip() == "1")


def read_bandwidth(
    info: Mapping[str, str],
    root: Mapping[int, int],
    mbps_event: bool,
    measured: int | None = None,
) -> BandwidthInfo:
    """The MB resource, from the files of its info and the root group's line.

    Units are derived from the root group's values: the hardware's defaults until someone sets
    them.

    Percent never exceed 100. mba_MBps shows 32 ones; kernels from 6.14 on also have a
    file in each group. What remains is AMD, whose scale differs from model to model:
    what the root group has is 100 %, unless ``measured`` says better.
    """
    most = max(root.values())
    least, step = _whole(MB, "min_bandwidth", info), max(_whole(MB, "bandwidth_gran", info), 1)
    if mbps_event or most == _NO_LIMIT_MBPS:
        # In this mode the kernel checks neither the least nor the step.
        known = measured or (most if most < _NO_LIMIT_MBPS else None)
        return BandwidthInfo(BandwidthUnit.MBPS, 1, 1, most, known)
    if most <= 100:
        return BandwidthInfo(BandwidthUnit.PERCENT, least, step, 100, 100)
    return BandwidthInfo(BandwidthUnit.ABSOLUTE, least, step, most, measured or most)


def _whole(name: str, file: str, info: Mapping[str, str], base: int = 10) -> int:
    text = info.get(file, "").strip()
    try:
        return int(text, base)
    except ValueError:
        raise ValueError(f"info/{name}/{file} is {text!r}; expected a number") from None


def parse(text: str) -> dict[str, dict[int, int]]:
    """A schemata file; lines of resources that we do not set are left out.

    Raises:
        ValueError: a line is not as the kernel writes it.
    """
    found = {}
    for line in text.splitlines():
        name, _, values = line.strip().partition(":")
        if name in _MASKS or name == MB:
            found[name] = _values(line, values, 10 if name == MB else 16)
    return found


def _values(line: str, values: str, base: int) -> dict[int, int]:
    try:
        pairs = [pair.split("=") for pair in values.split(";") if pair.strip()]
        return {int(domain): int(value, base) for domain, value in pairs}
    except ValueError:
        raise ValueError(f"schemata line {line.strip()!r}; expected domain=value;…") from None


def render(resource: str, values: Mapping[int, int]) -> str:
    """One resource's line, as the kernel reads it."""
    form = "d" if resource == MB else "x"
    return f"{resource}:" + ";".join(
        f"{domain}={values[domain]:{form}}" for domain in sorted(values)
    )


def differing(wanted: Schemata, current: Schemata) -> dict[str, dict[int, int]]:
    """Return the part of ``wanted`` that differs from the group's: by resource and domain."""
    changes = {
        resource: {
            domain: value
            for domain, value in values.items()
            if current.get(resource, {}).get(domain) != value
        }
        for resource, values in wanted.items()
    }
    return {resource: values for resource, values in changes.items() if values}


def wanted(
    info: ResctrlInfo, limits: ResctrlLimits, current: Schemata
) -> tuple[dict[str, dict[int, int]], tuple[str, ...]]:
    """Return a group's desired values in each of its domains, and lines about those out of reach.

    Where nothing is desired, it is what the root group has: what the tasks would have
    without a group. Ways that another group holds exclusively are not in it.
    """
    problems: list[str] = []
    result = {}
    for name, domains in current.items():
        default = {domain: info.root.get(name, {}).get(domain) for domain in domains}
        if name == MB and info.bandwidth:
            value = partial(info.bandwidth.value, full_mbps=limits.full_mbps)
            mb = _ResourceRequest("mb", limits.mb, limits.mb_by_domain, value)
            result[name] = mb.values(default, problems)
        elif name in info.caches:
            result[name] = _of_cache(name, limits, info.caches[name]).values(default, problems)
    for key, kind, desired in (
        ("llc", "L3", limits.llc or limits.llc_by_domain),
        ("l2", "L2", limits.l2 or limits.l2_by_domain),
        ("mb", MB, limits.mb is not None or limits.mb_by_domain),
    ):
        if desired and not any(name.startswith(kind) for name in result):
            problems.append(f"{key}: this node has no {kind} to allocate")
    return result, tuple(dict.fromkeys(problems))


_Value = TypeVar("_Value", CacheWays, int)


@dataclass(frozen=True, slots=True)
class _ResourceRequest(Generic[_Value]):
    """The limit of one resource, and its number in a schemata line."""

    key: str
    everywhere: _Value | None
    by_domain: Mapping[int, _Value]
    number: Callable[[_Value], int]

    def values(self, default: Mapping[int, int | None], problems: list[str]) -> dict[int, int]:
        """The numbers by domain; ``default`` has the domains, and the numbers without a limit."""
        found = {}
        for domain, value in default.items():
            desired = self.by_domain.get(domain, self.everywhere)
            try:
                value = value if desired is None else self.number(desired)
            except ValueError as error:
                problems.append(f"{self.key}: {error}")
            if value is not None:
                found[domain] = value
        for domain in sorted(set(self.by_domain) - set(default)):
            there = ", ".join(str(domain) for domain in sorted(default))
            problems.append(f"{self.key}: cacheID {domain} does not exist; there are: {there}")
        return found


def _of_cache(name: str, limits: ResctrlLimits, cache: CacheInfo) -> _ResourceRequest[CacheWays]:
    # With code and data prioritization (CDP), both get the same limit.
    if name.startswith("L3"):
        return _ResourceRequest("llc", limits.llc, limits.llc_by_domain, cache.mask)
    return _ResourceRequest("l2", limits.l2, limits.l2_by_domain, cache.mask)
