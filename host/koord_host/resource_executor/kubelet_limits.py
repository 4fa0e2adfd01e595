"""The kubelet's latest word about limits that are changed here: in its files, and in its list.

A pod can be resized at any moment, also while a strategy holds its limits. Two witnesses say so:

1. The file. What it holds, of a knob that the kubelet writes too, and is neither ours nor what was
   found, is the kubelet's newer word: it becomes what is put back, and what strategies compute
   from. What strategies want waits until they have computed it from that (``WAIT_SECONDS``).
2. The kubelet's list, for what the file cannot show: a word that equals ours, or was written
   between our look at the file and our write. What it has said of a limit for ``SURE_SECONDS``
   becomes what is put back, also where a limit was put back already. Not at once: it may say
   what the kubelet is yet to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from koord_host.kernel_files.interface import FileReader
from koord_host.knobs.forms import NO_LIMIT
from koord_host.knobs.layout import Layout
from koord_host.knobs.table import KNOBS
from koord_host.planning.desired_values import Target
from koord_host.planning.ordering import PERIOD, QUOTA
from koord_host.resource_executor import place_identity
from koord_host.resource_executor.baselines import BaselineStore, BaselineValue
from koord_host.resource_executor.restore import is_ours
from koord_host.resource_executor.writer import decoded

WAIT_SECONDS = 2.0
"""Two rounds of strategies: a plan that was under way, and the one that knows."""
SURE_SECONDS = 30.0
"""The kubelet has long done, or found in the files, what its list says."""
WHY = "the kubelet has set it meanwhile; ours waits until it is computed from that"
LISTED_PERIOD = 100_000
"""µs; in terms of which lists say quotas."""


class KubeletLimits:
    """Follows both witnesses; in the writer's thread."""

    def __init__(self, files: FileReader, layout: Layout, baselines: BaselineStore) -> None:
        self._files = files
        self._layout = layout
        self._baselines = baselines
        self._listed: dict[Target, int] = {}
        self._since: dict[Target, float] = {}
        self._scopes: dict[str, Mapping[Target, int]] = {}
        self._newer: list[BaselineValue] = []
        self._waits: dict[Target, float] = {}

    # ---- the file

    def look(self, target: Target, text: str, now: float) -> None:
        """Note what the kubelet has set since a file was found, or written here."""
        baseline = self._baselines.get(target)
        if baseline is None or not KNOBS[target.knob].kubelet:
            return
        with suppress(ValueError):
            if not is_ours(baseline, text, self._layout) and self._is_same(baseline):
                self._newer.append(baseline._replace(text=text))
                self._waits[target] = now + WAIT_SECONDS

    def follow(self) -> None:
        """Have what was noted put back one day."""
        newer, self._newer = self._newer, []
        self._baselines.amend(newer)

    def waits(self, target: Target, now: float) -> float:
        """Seconds until a strategy's value may be written; 0 for at once."""
        return max(self._waits.get(target, now) - now, 0.0)

    def waiting(self, now: float) -> Iterator[Target]:
        """The targets that wait."""
        self._waits = {target: until for target, until in self._waits.items() if until > now}
        return iter(tuple(self._waits))

    # ---- the list

    def set_listed(self, scope: str, limits: Mapping[Target, int], now: float) -> None:
        """Set the limits of a scope in the list in place of its former ones."""
        for target in self._scopes.pop(scope, {}).keys() - limits.keys():
            del self._listed[target], self._since[target]
        if limits:
            self._scopes[scope] = limits
        for target, limit in limits.items():
            if self._listed.get(target) != limit:
                self._listed[target], self._since[target] = limit, now

    def settle(self, now: float) -> list[Target]:
        """Believe what the list has said for long.

        Returns:
            What has to be put back again, since it was put back to a former word.
        """
        held = (target for target in self._listed if self._holds(target))
        return self._as_listed(
            target for target in held if now >= self._since[target] + SURE_SECONDS
        )

    def forget_gone(self) -> None:
        """Forget what groups were put back to that are gone."""
        put_back = self._baselines.put_back.items()
        self._baselines.forget_put_back(
            [target for target, row in put_back if not self._is_same(row)]
        )

    def note_put_back(self, baselines: Iterable[BaselineValue]) -> None:
        """Remember what targets were put back to, for as long as their groups are there."""
        self._baselines.note_put_back(
            baseline._replace(ours=baseline.text, pending=())
            for baseline in baselines
            if baseline.target.knob == QUOTA
        )

    def _holds(self, target: Target) -> bool:
        """True if a strategy changes a target, or did."""
        baseline = self._baselines.get(target) or self._baselines.put_back.get(target)
        return baseline is not None and bool(baseline.strategy)

    def _as_listed(self, targets: Iterable[Target]) -> list[Target]:
        """Have put back what the list says; where files have no limit, there is none."""
        again, newer = [], []
        for target in targets:
            baseline = self._baselines.get(target)
            row = baseline or self._baselines.put_back.get(target)
            if row is None or row.text is None:
                continue
            form = self._layout.form(KNOBS[target.knob], target.place)
            found, limit = decoded(self._layout, target, row.text), self._listed[target]
            if found in (limit, NO_LIMIT, None):
                continue
            if target.knob == QUOTA:
                limit = limit * self._period(target.place) // LISTED_PERIOD
            if found == limit:
                continue
            newer.append(row._replace(text=form.encode(limit, "")))
            if baseline is None:
                again.append(target)
        self._baselines.amend(newer)
        self._baselines.forget_put_back(again)
        return again

    def _period(self, place: str) -> int:
        knob = KNOBS[PERIOD]
        try:
            text = self._files.read(self._layout.path(knob, place))
            return int(self._layout.form(knob, place).decode(text))
        except (OSError, ValueError):
            return LISTED_PERIOD

    def _is_same(self, baseline: BaselineValue) -> bool:
        return place_identity.is_same(self._files, self._layout, baseline)
