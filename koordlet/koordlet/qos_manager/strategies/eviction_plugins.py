"""Evicts pods that plugins of others name: Katalyst's eviction plugins, by its protocol.

They are asked beside the strategies (``eviction.plugins``), and only their answers are here. Each
plugin has its mode; in shadow, as by default, what it would evict is shown. The rule is the
plugin's name. Set in the NodeSLO::

    extensions:
      pykoord:
        strategies:
          eviction_plugins:
            modes: {numa-memory-pressure: on}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated

from koord_model.excerpt import excerpt
from koord_model.node_slo import NodeSLO
from msgspec import Meta

from koordlet.qos_manager.core.strategy import Decision, Plan, StrategyMode, StrategyView
from koordlet.qos_manager.eviction.claims import eviction_claim
from koordlet.qos_manager.eviction.claims.plugin_claims import PluginMemory, claims_of
from koordlet.qos_manager.eviction.plugins.core.answers import PluginAnswer, PluginAnswers

GATE = "EvictionPlugins"
INTERVAL = "reconcile_interval_seconds"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the NodeSLO's ``extensions``; without them every plugin is in shadow mode."""

    default_mode: StrategyMode = StrategyMode.SHADOW
    """Mode of plugins that ``modes`` does not name. One that is ``off`` is not asked."""
    modes: dict[str, str | bool] = field(default_factory=dict)
    """Modes by plugin: `off`, `shadow` or `on`; one that is none of these counts as `shadow`."""
    priority: Annotated[int, Meta(ge=0, le=7999)] = 7999
    """Pods up to this ``spec.priority``, or their class's without one, are offered."""

    def mode(self, plugin: str) -> StrategyMode:
        """The mode of a plugin."""
        try:
            return StrategyMode.of(self.modes.get(plugin, self.default_mode))
        except ValueError:
            return StrategyMode.SHADOW

    def wrong(self) -> tuple[Decision, ...]:
        """Decisions that name modes that are none."""
        expected = " or ".join(StrategyMode)
        return tuple(
            Decision(
                f"the mode of {name} is {excerpt(given)}; expected {expected} (shadow until then)",
                aspect=f"mode {name}",
            )
            for name, given in self.modes.items()
            if isinstance(given, str) and given not in list(StrategyMode)
        )


def settings(slo: NodeSLO) -> Settings:
    """The defaults: Koordinator's NodeSLO has no plugins."""
    return Settings()


def plan(view: StrategyView, settings: Settings, memory: object) -> Plan:
    """Claims of what the plugins have answered."""
    before = memory if isinstance(memory, Mapping) else {}
    if (waiting := eviction_claim.waits(view)) is not None:
        return replace(waiting, memory=before)
    found = view.latest.info(PluginAnswers) or PluginAnswers()
    if not found.answers:
        return replace(eviction_claim.nothing("no eviction plugin has answered"), memory=before)
    plans = {
        answer.plugin: _plan_of(view, answer, settings, before.get(answer.plugin))
        for answer in found.answers
        if settings.mode(answer.plugin) is not StrategyMode.OFF
    }
    return replace(
        eviction_claim.together(Plan(decisions=settings.wrong()), *plans.values()),
        notices=tuple(notice for one in plans.values() for notice in one.notices),
        memory={name: one.memory for name, one in plans.items()},
    )


def _plan_of(
    view: StrategyView, answer: PluginAnswer, settings: Settings, before: PluginMemory | None
) -> Plan:
    """The plan of one plugin alone."""
    result = claims_of(view, answer, settings.priority, before or PluginMemory())
    shadow = settings.mode(answer.plugin) is StrategyMode.SHADOW
    decisions = result.decisions
    if shadow:
        decisions = tuple(
            replace(decision, outcome=f"{decision.outcome} (shadow)") for decision in decisions
        )
    return Plan(
        decisions=decisions,
        claims=tuple(replace(claim, shadow=shadow) for claim in result.claims),
        notices=() if shadow else result.notices,
        memory=result.memory,
    )
