"""The devices of one type in arrays: by device, in the order of their numbers, and row. No IO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from koord_scheduler.plugins.device_share.node_device_state import FreeDevice
from koord_scheduler.state.arrays import Amounts, Rows, lengthened, span

ByDevice = NDArray[np.float64]
"""By device, in the order of the numbers, and row; what a row does not have is 0."""
_FEWEST = 8
_Kind = TypeVar("_Kind", bound=np.generic)


class DeviceAmounts:
    """Amounts of one resource by device and row, and their ``sums`` by row."""

    def __init__(self, devices: int, length: int) -> None:
        self.by_device: ByDevice = np.zeros((devices, length))
        self.sums: Amounts = np.zeros(length)

    def lengthen(self, length: int) -> None:
        """Make room for more rows."""
        self.by_device = lengthened(self.by_device, length, 0)
        self.sums = lengthened(self.sums, length, 0)

    def make_room(self, more: int) -> None:
        """Make room for more devices."""
        self.by_device = np.pad(self.by_device, ((0, more), (0, 0)))

    def set(self, rows: Rows, amounts: list[int]) -> None:
        """Set the amounts of these rows, by device."""
        self.by_device[:, rows] = _column(amounts, len(self.by_device))
        self.sums[rows] = sum(amounts)


class DeviceTypeRoom:
    """The devices of one type. What is read of it may be a view: for reading only."""

    def __init__(self, length: int) -> None:
        self._length = length
        self.is_healthy: NDArray[np.bool_] = np.zeros((_FEWEST, length), np.bool_)
        self._total: dict[str, DeviceAmounts] = {}
        self._free: dict[str, DeviceAmounts] = {}

    def lengthen(self, length: int) -> None:
        """Make room for more rows."""
        self._length = length
        self.is_healthy = lengthened(self.is_healthy, length, fill=False)
        for amounts in (*self._total.values(), *self._free.values()):
            amounts.lengthen(length)

    def set(self, rows: Rows, devices: list[FreeDevice]) -> None:
        """Replace the devices of these rows."""
        self._make_room(len(devices))
        self.is_healthy[:, rows] = _column([bool(device.total) for device in devices], len(self))
        for name in {*self._total, *(name for device in devices for name in device.total)}:
            for table, amounts in (
                (self._total, [device.total.get(name, 0) for device in devices]),
                (self._free, [device.free.get(name, 0) for device in devices]),
            ):
                if name not in table:
                    table[name] = DeviceAmounts(len(self), self._length)
                table[name].set(rows, amounts)

    def __len__(self) -> int:
        return len(self.is_healthy)

    def has(self, name: str) -> bool:
        """True if any row has, or had, anything of a resource."""
        return name in self._total

    def total(self, name: str, rows: Rows) -> ByDevice:
        """Return the total amounts of these rows."""
        return self._read(self._total, name, rows)

    def free(self, name: str, rows: Rows) -> ByDevice:
        """Return the free amounts of these rows."""
        return self._read(self._free, name, rows)

    def sums(self, name: str, rows: Rows) -> tuple[Amounts, Amounts]:
        """Return the total and the free amount of a resource that it ``has``."""
        at = span(rows)
        return self._total[name].sums[at], self._free[name].sums[at]

    def _read(self, table: dict[str, DeviceAmounts], name: str, rows: Rows) -> ByDevice:
        found = table.get(name)
        if found is None:
            return np.zeros((len(self), len(rows)))
        return of_rows(found.by_device, rows)

    def _make_room(self, devices: int) -> None:
        more = devices - len(self)
        if more > 0:
            self.is_healthy = np.pad(self.is_healthy, ((0, more), (0, 0)))
            for amounts in (*self._total.values(), *self._free.values()):
                amounts.make_room(more)


def _column(values: Sequence[float], height: int) -> NDArray[Any]:
    """The values of one row, for all devices that there is place for."""
    return np.array([*values, *(0 for _ in range(height - len(values)))])[:, None]


def of_rows(table: NDArray[_Kind], rows: Rows) -> NDArray[_Kind]:
    """Return a table's columns of some rows; it may be a view."""
    at = span(rows)
    found: NDArray[_Kind] = table[:, at] if isinstance(at, slice) else table.take(rows, axis=1)
    return found
