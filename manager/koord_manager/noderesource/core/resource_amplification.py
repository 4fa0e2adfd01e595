"""Amplification of a node in the scheduler's eyes: ratios by resource. No IO.

The webhook of node statuses multiplies the allocatable amounts by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from koord_model.decision import Decision, Term
from koord_model.keys import ANNOTATION_AMPLIFICATION_RATIO, CPU

from koord_manager.noderesource.core.desired_node import DesiredNode
from koord_manager.slo_config.core.colocation import ResourceAmplification


def amplification(
    strategy: ResourceAmplification,
    normalization: float,
    realtime: Mapping[str, float] = MappingProxyType({}),
) -> DesiredNode:
    """The ratios a Node should have; no annotation without any.

    ``normalization`` is the Node's CPU normalization ratio. The ratio of CPU is what is
    configured, or 1, times that. A ratio below 1 is left out with a decision that says so.
    ``realtime`` ratios bound the configured ones.
    """
    configured = dict(strategy.ratios) if strategy.enable else {}
    bounded = {name: min(ratio, realtime.get(name, ratio)) for name, ratio in configured.items()}
    ratios = {**bounded, CPU: bounded.get(CPU, 1.0) * normalization}
    if CPU not in configured and ratios[CPU] <= 1:
        del ratios[CPU]
    kept = {name: ratio for name, ratio in sorted(ratios.items()) if ratio >= 1}
    decisions = [
        _decision(name, ratios, configured, normalization, realtime) for name in sorted(ratios)
    ]
    return DesiredNode(
        annotations={ANNOTATION_AMPLIFICATION_RATIO: _json(kept) if kept else None},
        decisions=tuple(decisions) or (Decision("no resource is amplified"),),
    )


def _decision(
    name: str,
    ratios: Mapping[str, float],
    configured: Mapping[str, float],
    normalization: float,
    realtime: Mapping[str, float],
) -> Decision:
    ratio = ratios[name]
    outcome = f"{name} is amplified by {ratio:.2f}"
    if ratio < 1:
        outcome = f"{name} is not amplified: its ratio {ratio:g} is below 1"
    given = [Term("configured", configured.get(name, 1.0))]
    formula = "configured"
    if name in realtime:
        given.append(Term("real time", round(realtime[name], 2)))
        formula = "min(configured, real time)"
    if name == CPU:
        given.append(Term("CPU normalization", normalization))
        formula = f"{formula} × CPU normalization"
    return Decision(outcome, formula, tuple(given), aspect=name)


def _json(ratios: Mapping[str, float]) -> str:
    """With two decimals each, as Koordinator writes them."""
    raw = {name: msgspec.Raw(f"{ratio:.2f}".encode()) for name, ratio in ratios.items()}
    return msgspec.json.encode(raw).decode()
