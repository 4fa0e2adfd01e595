"""Reasons of a node's amounts, for people and for the Node's annotation. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from koord_model.decision import Decision, Term
from koord_model.keys import ANNOTATION_BATCH_WHY, ANNOTATION_ORIGIN_ALLOCATABLE
from koord_model.quantity import quantity_texts

from koord_manager.noderesource.core.calculation import CalculationPass
from koord_manager.noderesource.core.node_state import NodeState
from koord_manager.noderesource.core.outcomes import (
    TIERS,
    ResourceOutcome,
    aspect,
    batch_decision,
    mid_decision,
    outcome_text,
    short,
)
from koord_manager.noderesource.core.smoothing import NONE
from koord_manager.noderesource.core.table import Rows
from koord_manager.slo_config.core.colocation import ColocationStrategy, MidReclaimMode

_SHORT = ("offered", "capacity", "margin", "kept", "high")


@dataclass(frozen=True, slots=True)
class Reasons:
    """One node's: its row of ``ACCOUNT``, its levels of ``STATE``, and its ``row`` of a pass."""

    node_state: NodeState
    strategy: ColocationStrategy
    summed: Rows
    levels: Rows
    done: CalculationPass
    row: int

    def decision(self, tier: int, resource: int) -> Decision:
        """Return the reason of an amount, with its arithmetic."""
        outcome = outcome_text(self._outcome(tier, resource), tier, resource, self.strategy)
        terms, named = self._terms(tier, resource), aspect(tier, resource)
        if tier == 0:
            found = batch_decision(outcome, resource, terms, self.node_state.ratio, named)
        else:
            static = self.strategy.mid_mode is MidReclaimMode.STATIC
            found = mid_decision(outcome, resource, terms, named, static=static)
        said_by = Term("configured by", self.strategy.source)
        return replace(found, given=(*found.given, said_by))

    def annotations(self) -> dict[str, str | None]:
        """The Node's annotations about its batch resources."""
        off = self._outcome(0, 0) is ResourceOutcome.OFF
        nothing = off or self.done.offered[self.row, 0, 0] == NONE
        return {
            ANNOTATION_BATCH_WHY: None if off else self._short(),
            ANNOTATION_ORIGIN_ALLOCATABLE: None if nothing else self._origin(),
        }

    def _outcome(self, tier: int, resource: int) -> ResourceOutcome:
        return ResourceOutcome(self.done.outcomes[self.row, tier, resource])

    def _terms(self, tier: int, resource: int) -> Mapping[str, int]:
        """By name, as whole numbers."""
        found: dict[str, Any] = (self.done.mid if tier else self.done.batch)._asdict()
        terms = {name: int(array[self.row, resource]) for name, array in found.items()}
        terms["capacity"] = self.node_state.capacity[resource]
        terms["third"] = (self.node_state.third_batch, self.node_state.third_mid)[tier][resource]
        terms["offered"] = int(self.done.offered[self.row, tier, resource])
        return terms if tier else terms | self._sources(resource)

    def _sources(self, resource: int) -> dict[str, int]:
        """Return the sources of batch terms; ``reclaim`` in percent."""
        strategy = self.strategy
        return {
            "reclaim": (strategy.cpu_reclaim_percent, strategy.memory_reclaim_percent)[resource],
            "reserved": self.node_state.reserved[resource],
            **{name: int(self.summed[name][resource]) for name in ("system", "used", "request")},
        }

    def _short(self) -> str:
        terms, outcomes = {}, {}
        for resource, name in enumerate(("cpu", "memory")):
            whole = self._terms(0, resource)
            terms[name] = {term: whole[term] for term in _SHORT}
            outcomes[name] = outcome_text(self._outcome(0, resource), 0, resource, self.strategy)
        return short(outcomes, terms)

    def _origin(self) -> str:
        """Batch resources before what other schedulers gave away, for those schedulers."""
        both = zip(TIERS[0], self.levels[0].tolist(), strict=True)
        amounts = quantity_texts({name: level for name, level in both if level != NONE})
        return msgspec.json.encode({"resources": amounts}).decode()
