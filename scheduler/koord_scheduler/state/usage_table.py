"""The different usages of placed pods; most pods are copies of others. No IO."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from koord_scheduler.state.arrays import Amounts, Codes, lengthened
from koord_scheduler.state.pod_usage import PodUsage

CountOf = str | Callable[[PodUsage], float]
"""Counted part of a pod: its request of this resource, or the result of a function."""
_MOST_RESOURCES = 64
"""Number of resources with tables; others replace them."""


class UsageTable:
    """Usages by code; the code of a usage that no pod has any more is given to another one."""

    def __init__(self) -> None:
        self._usages: list[PodUsage | None] = []
        self._requests: dict[str, Amounts] = {}
        self._code_of: dict[PodUsage, int] = {}
        self._pods: list[int] = []
        self._free: list[int] = []

    def __getitem__(self, code: int) -> PodUsage:
        usage = self._usages[code]
        if usage is None:
            raise KeyError(code)
        return usage

    def __len__(self) -> int:
        """One more than the highest code."""
        return len(self._usages)

    def add(self, usage: PodUsage) -> int:
        """One more pod has a usage; returns its code."""
        code = self._code_of.get(usage)
        if code is None:
            code = self._code_of[usage] = self._new_code()
            self._usages[code] = usage
            self._set_request(code, usage)
        self._pods[code] += 1
        return code

    def remove(self, code: int) -> None:
        """One pod less has a usage."""
        self._pods[code] -= 1
        if not self._pods[code]:
            del self._code_of[self[code]]
            self._usages[code] = None
            self._free.append(code)

    def amounts(self, of: CountOf, codes: Codes) -> Amounts:
        """Return the amounts that ``of`` counts of usages with these codes, once for each usage."""
        if isinstance(of, str):
            return self._table(of)[codes] if len(codes) else np.zeros(0)
        table = np.zeros(len(self))
        for code in np.flatnonzero(np.bincount(codes, minlength=len(self))).tolist():
            table[code] = of(self[code])
        return table[codes]

    def _new_code(self) -> int:
        if self._free:
            return self._free.pop()
        self._usages.append(None)
        self._pods.append(0)
        return len(self._usages) - 1

    def _table(self, resource: str) -> Amounts:
        """Return each usage's request of a resource; kept up to date from the first call on."""
        found = self._requests.get(resource)
        if found is None:
            if len(self._requests) >= _MOST_RESOURCES:
                self._requests.clear()
            found = np.zeros(len(self))
            for code, usage in enumerate(self._usages):
                if usage is not None:
                    found[code] = dict(usage.request).get(resource, 0.0)
            self._requests[resource] = found
        return found

    def _set_request(self, code: int, usage: PodUsage) -> None:
        request = dict(usage.request)
        for resource, table in self._requests.items():
            if code >= len(table):
                table = self._requests[resource] = lengthened(table, 2 * len(self), 0)
            table[code] = request.get(resource, 0.0)
