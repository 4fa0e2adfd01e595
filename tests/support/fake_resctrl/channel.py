"""A model of saturated memory behind a double of resctrl: what moves, and what counters show.

Its assumptions; no hardware was measured:

- the memory of a domain moves ``capacity`` bytes a second, and no more;
- a group asks, through a cache, for its ``demand``, a part of it (``local``) from the memory
  beside, the rest from the other domains alike;
- an MB line holds back exactly what is above it: percent are of ``cache_full``, AMD's numbers
  are eighths of 10⁹ bytes a second, mba_MBps' are MiB/s;
- memory that is asked for more serves everybody the same part of what he asks for: who asks for
  much takes from who asks for little. That is why a limit is needed at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from koord_host.kernel_files.schemata import parse

from tests.support.fake_resctrl.filesystem import FakeResctrl

_UNITS = {"intel": 0.0, "amd": 1e9 / 8, "mbps": float(1 << 20)}

Key = tuple[str, int]
"""A group ("root" for the root group), and a cache."""


class BandwidthDemand(NamedTuple):
    """Bytes a second, and the part that is local."""

    rate: float
    local: float = 1.0


@dataclass
class MemoryChannel:
    """Moves what groups ask for, as far as limits and the memory let it."""

    files: FakeResctrl
    domains: Mapping[int, int]
    capacity: float
    cache_full: float
    mb: str = "intel"
    demands: dict[Key, BandwidthDemand] = field(default_factory=dict)
    counted: dict[tuple[str, int, str], float] = field(default_factory=dict)

    def run(self, seconds: float) -> dict[Key, float]:
        """Let time pass, and return what each group got through each cache, in bytes a second."""
        flows = {key: self._flow(key, demand) for key, demand in self.demands.items()}
        arriving = {
            domain: sum(flow[domain] for flow in flows.values()) for domain in self._homes()
        }
        served = {
            domain: min(1.0, self.capacity / max(got, 1.0)) for domain, got in arriving.items()
        }
        result = {}
        for (group, cache), flow in flows.items():
            got = {domain: rate * served[domain] for domain, rate in flow.items()}
            result[group, cache] = sum(got.values())
            self._count(group, cache, "mbm_total_bytes", sum(got.values()) * seconds)
            self._count(group, cache, "mbm_local_bytes", got[self.domains[cache]] * seconds)
        return result

    def _homes(self) -> list[int]:
        return sorted(set(self.domains.values()))

    def _flow(self, key: Key, demand: BandwidthDemand) -> dict[int, float]:
        """Traffic that is asked for of each domain."""
        group, cache = key
        homes = self._homes()
        local = demand.local if len(homes) > 1 else 1.0
        rate = min(demand.rate, self._limit(group, cache))
        remote = rate * (1 - local) / max(len(homes) - 1, 1)
        return {home: rate * local if home == self.domains[cache] else remote for home in homes}

    def _limit(self, group: str, cache: int) -> float:
        path = f"{self._directory(group)}/schemata"
        number = parse(self.files.read(path))["MB"][cache]
        return number * (_UNITS[self.mb] or self.cache_full / 100)

    def _directory(self, group: str) -> str:
        return self.files.root if group == "root" else f"{self.files.root}/{group}"

    def _count(self, group: str, cache: int, event: str, more: float) -> None:
        key = (group, cache, event)
        self.counted[key] = self.counted.get(key, 0.0) + more
        path = f"{self._directory(group)}/mon_data/mon_L3_{cache:02}/{event}"
        self.files.set_text(path, f"{int(self.counted[key])}\n")
