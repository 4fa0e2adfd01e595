"""The quotas of one parent, which share what it may use, resource by resource. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from koord_model.demand import Amounts
from koord_model.elastic_quota import ElasticQuota

from koord_scheduler.plugins.elastic_quota.fair_share import (
    Integers,
    SiblingClaims,
    exact_sum,
    fair_share,
)

_MOST = 2**63 - 1


class Siblings:
    """Sharing of ``resources`` between ``quotas``; a quota is known by its place among them.

    With ``scales_min``, if there is less than the sum of their mins, each min counts in proportion.
    Nothing is computed again unless what they ask for, are guaranteed, or share has changed.
    """

    def __init__(
        self,
        quotas: Sequence[ElasticQuota],
        resources: Sequence[str],
        *,
        scales_min: bool,
        lends: Callable[[ElasticQuota], bool],
    ) -> None:
        self._resources = {name: number for number, name in enumerate(resources)}
        self._scales_min = scales_min
        self._min = self._table([quota.min for quota in quotas])
        self._weight = self._table([quota.shared_weight for quota in quotas])
        self._lends = np.array([lends(quota) for quota in quotas], np.bool_)
        self._request = np.zeros_like(self._min)
        self._guaranteed = np.zeros_like(self._min)
        self._scaled = self._min.copy()
        self._runtime = np.zeros_like(self._min)
        self._totals: list[int | None] = []
        self._is_stale = True

    def set_request(self, place: int, resource: str, amount: int) -> None:
        """Set a quota's request, its max considered."""
        self._set(self._request, place, resource, amount)

    def set_guaranteed(self, place: int, resource: str, amount: int) -> None:
        """Set a quota's guaranteed amount, beside its min."""
        self._set(self._guaranteed, place, resource, amount)

    def share(self, total: Amounts) -> None:
        """Share this; resources that are not in it are not there."""
        totals = [total.get(name) for name in self._resources]
        if not self._is_stale and totals == self._totals:
            return
        self._totals, self._is_stale = totals, False
        for number, amount in enumerate(totals):
            self._scaled[number] = self._scaled_min(number, amount)
            floor = np.maximum(self._scaled[number], self._guaranteed[number])
            claims = SiblingClaims(self._request[number], floor, self._weight[number], self._lends)
            self._runtime[number] = fair_share(amount or 0, claims)

    def runtime(self, place: int) -> Mapping[str, int]:
        """Return a quota's runtime by the last ``share``."""
        return self._of(self._runtime, place)

    def scaled_min(self, place: int) -> Mapping[str, int]:
        """The min of a quota, as it counted in the last ``share``."""
        return self._of(self._scaled, place)

    def _scaled_min(self, number: int, total: int | None) -> Integers:
        mins: Integers = self._min[number]
        whole = exact_sum(mins)
        if not self._scales_min or total is None or total >= whole:
            return mins
        if total <= 0:
            return np.zeros_like(mins)
        # In this order, as Koordinator, with its rounding.
        scaled: Integers = (float(total) * mins / float(whole)).astype(np.int64)
        return scaled

    def _set(self, table: Integers, place: int, resource: str, amount: int) -> None:
        number = self._resources.get(resource)
        if number is not None:
            table[number, place] = min(amount, _MOST)
            self._is_stale = True

    def _of(self, table: Integers, place: int) -> Mapping[str, int]:
        return dict(zip(self._resources, table[:, place].tolist(), strict=True))

    def _table(self, amounts: Sequence[Amounts]) -> Integers:
        rows = [[min(amount.get(name, 0), _MOST) for amount in amounts] for name in self._resources]
        return np.array(rows, np.int64).reshape(len(self._resources), len(amounts))
