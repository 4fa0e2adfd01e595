"""Occupancy of last-level caches and memory bandwidth of LSR, LS, BE, and of all other tasks.

``resctrl_resource_llc`` in bytes from llc_occupancy, ``resctrl_resource_mb`` in bytes a
second from the growth of mbm_total_bytes and mbm_local_bytes (Koordinator's is the bare
counter), both of mon_data/mon_L3_<cache id> in the resctrl groups of that name; see
Documentation/filesystems/resctrl.rst. LSE's tasks are in LSR's group, those of no class in the
root group, "root". Pods with a group of their own are in none of them and are not counted. Cache
ids may have gaps; of the parts that a cache has under sub-NUMA clustering, the kernel's sum
counts. Info ``MemoryBandwidthInfo``: limits of memory bandwidth, from schemata and info/MB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from koord_host.kernel_files import schemata
from koord_model.node_info import MemoryBandwidthInfo
from koord_model.resctrl import CLASS_GROUPS

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.collector import (
    ANY_INTERVAL_SECONDS,
    CollectContext,
    CollectorSources,
    CounterRates,
    Samples,
    UnavailableError,
)

INTERVAL = "resctrl_collector_interval"
ENABLED_BY: tuple[str, ...] = ("ResctrlCollector", "enable_resctrl_collector")

ROOT = "root"
_CACHE = re.compile(r"mon_L3_([0-9]{2,6})")
_OCCUPANCY = "llc_occupancy"
_BANDWIDTH = (("total", "mbm_total_bytes"), ("local", "mbm_local_bytes"))


class Collector:
    """Reads the groups' counters, and remembers them for their growth."""

    def __init__(self, sources: CollectorSources) -> None:
        self._tree = sources.tree
        self._root = sources.layout.resctrl_root
        self._counters = CounterRates(ANY_INTERVAL_SECONDS)

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        self._check()
        samples: list[Sample] = []
        partial: list[str] = []
        groups: list[str] = []
        for group in (*CLASS_GROUPS, ROOT):
            if group == ROOT and not groups:
                break
            try:
                samples += self._group(group, context.steady, partial)
                groups.append(group)
            except (FileNotFoundError, NotADirectoryError):
                continue  # not created, or removed meanwhile
        if not groups:
            partial.append(f"{self._root} has none of the groups {', '.join(CLASS_GROUPS)}")
        self._counters.forget(context.steady)
        infos = tuple(self._limits(groups, context.steady, partial))
        return Samples(samples, infos=infos, partial=tuple(partial))

    def _limits(
        self, groups: Iterable[str], steady: float, partial: list[str]
    ) -> Iterator[MemoryBandwidthInfo]:
        """The limits of these groups, where the hardware limits memory bandwidth."""
        directory = f"{self._root}/info/{schemata.MB}"
        if not self._tree.exists(directory):
            return
        try:
            files = {
                name: self._tree.read(f"{directory}/{name}")
                for name in ("min_bandwidth", "bandwidth_gran")
            }
            event = self._tree.exists(f"{self._root}/mba_MBps_event")
            found = schemata.read_bandwidth(files, self._set(""), event)
            limits = {group: self._set(group) for group in groups if group != ROOT}
        except FileNotFoundError:
            return  # a group was removed meanwhile
        except (OSError, ValueError) as error:
            partial.append(f"limits of memory bandwidth: {error}")
            return
        yield MemoryBandwidthInfo(steady, found.least, found.step, found.full, limits)

    def _set(self, group: str) -> dict[int, int]:
        path = f"{self._root}/{group}/schemata" if group else f"{self._root}/schemata"
        return schemata.parse(self._tree.read(path)).get(schemata.MB, {})

    def _check(self) -> None:
        if not self._tree.exists(f"{self._root}/info"):
            raise UnavailableError(
                f"resctrl is not mounted (mount -t resctrl resctrl {self._root}), "
                "or the CPU or the kernel has none"
            )
        if not self._tree.exists(f"{self._root}/info/L3_MON"):
            raise UnavailableError(
                f"resctrl at {self._root} does not monitor: the CPU needs CMT or MBM "
                "(cqm_llc, cqm_mbm_total), and rdt= on the kernel command line not to forbid it"
            )

    def _group(self, group: str, steady: float, partial: list[str]) -> Iterator[Sample]:
        directory = self._root if group == ROOT else f"{self._root}/{group}"
        # The counters of a group that was created again start anywhere.
        identity = self._tree.identity(directory)
        for name in self._tree.entries(f"{directory}/mon_data"):
            match = _CACHE.fullmatch(name)
            if match is None:
                continue
            labels = (group, str(int(match[1])))
            cache = f"{directory}/mon_data/{name}"
            occupied = self._number(f"{cache}/{_OCCUPANCY}", partial)
            if occupied is not None:
                yield Sample(Series("resctrl_resource_llc", labels), occupied)
            for kind, event in _BANDWIDTH:
                counted = self._number(f"{cache}/{event}", partial)
                key = (identity, *labels, kind)
                if counted is None:
                    continue
                rate = self._counters.rate(key, counted, steady)
                if rate is not None:
                    yield Sample(Series("resctrl_resource_mb", (*labels, kind)), rate)

    def _number(self, path: str, partial: list[str]) -> float | None:
        """A counter; ``None`` where the CPU has none, or gives no number now."""
        try:
            text = self._tree.read(path).strip()
        except FileNotFoundError:
            return None
        except OSError as error:
            partial.append(f"{path}: {error.strerror or error}")
            return None
        # Else "Unavailable", "Error" or "Unassigned".
        if not (text.isascii() and text.isdigit()):
            partial.append(f"{path} says {text[:40]!r}")
            return None
        return float(text)
