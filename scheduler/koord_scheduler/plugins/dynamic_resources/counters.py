"""The counters of pools, of which partitions of devices take what they have in common. No IO."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from koord_model.quantity import nano

from koord_scheduler.plugins.dynamic_resources.pool_devices import PoolDevice
from koord_scheduler.plugins.dynamic_resources.pools import Pool
from koord_scheduler.plugins.dynamic_resources.requests import UsedDevices

_Counter = tuple[str, str]


class PoolCounters:
    """Rest of the counters of a pool, in billionths; below 0 where too much is taken."""

    def __init__(self, pool: Pool, used: UsedDevices) -> None:
        self._left: dict[_Counter, int] = defaultdict(int)
        for one in (pool.counters or {}).values():
            for name, counter in one.counters.items():
                self._left[one.name, name] = nano(counter.value)
        for device in (*pool.devices, *pool.elsewhere):
            if device.id in used:
                self._add(device, -1)

    def take(self, device: PoolDevice) -> bool:
        """Take what a device needs, if that is left."""
        self._add(device, -1)
        if all(one >= 0 for one in self._left.values()):
            return True
        self._add(device, 1)
        return False

    def give_back(self, device: PoolDevice) -> None:
        """Undo ``take``."""
        self._add(device, 1)

    def _add(self, device: PoolDevice, sign: int) -> None:
        for counter, amount in _consumption(device):
            self._left[counter] += sign * amount


def _consumption(device: PoolDevice) -> Iterator[tuple[_Counter, int]]:
    for consumed in device.device.consumes_counters:
        for name, counter in consumed.counters.items():
            yield (consumed.counter_set, name), nano(counter.value)
