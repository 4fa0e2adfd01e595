"""Speed of a node's CPUs over the reference's, by model and enabled features. No IO.

Where that cannot be found out the Node is left as it is, as in Koordinator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord_model.decision import Decision, Term
from koord_model.excerpt import excerpt
from koord_model.keys import (
    ANNOTATION_CPU_BASIC_INFO,
    ANNOTATION_CPU_NORMALIZATION_RATIO,
    LABEL_CPU_NORMALIZATION_ENABLED,
)
from koord_model.node_document import CPUBasicInfo, cpu_basic_info, normalization_ratio

from koord_manager.noderesource.core.desired_node import DesiredNode
from koord_manager.slo_config.core.colocation import CPUNormalization, ModelRatios

LEAST_RATIO, MOST_RATIO = 1.0, 5.0

_SWITCH = {"true": True, "1": True, "t": True, "false": False, "0": False, "f": False}


def cpu_normalization(
    node: Mapping[str, Any], topology: Mapping[str, Any] | None, strategy: CPUNormalization
) -> DesiredNode:
    """The ratio a Node should have, of its NodeResourceTopology; "1.00" where switched off."""
    try:
        if not _enabled(node, strategy):
            return _desired(1.0, Decision("CPU normalization is off: ratio 1"))
        info = _basic_info(topology)
        ratio, formula = _ratio(info, strategy)
    except ValueError as error:
        return DesiredNode(decisions=(Decision(f"CPU normalization ratio left as it is: {error}"),))
    given = (
        Term("model", info.model),
        Term("hyper-threads", _on(info.hyper_threads)),
        Term("turbo", _on(info.turbo)),
    )
    return _desired(ratio, Decision(f"CPU normalization ratio {ratio:.2f}", formula, given))


def ratio_in_force(node: Mapping[str, Any], desired: DesiredNode) -> float:
    """The Node's ratio once the desired one is written; 1 if it has no valid one."""
    written = desired.annotations.get(ANNOTATION_CPU_NORMALIZATION_RATIO)
    if written is not None:
        return float(written)
    return normalization_ratio(node)[0]


def _enabled(node: Mapping[str, Any], strategy: CPUNormalization) -> bool:
    """The Node's label counts before the strategy."""
    label = ((node.get("metadata") or {}).get("labels") or {}).get(LABEL_CPU_NORMALIZATION_ENABLED)
    if label is None:
        return strategy.enable
    word = str(label).lower()
    if word not in _SWITCH:
        label_text = f"label {LABEL_CPU_NORMALIZATION_ENABLED} is {excerpt(str(label))}"
        raise ValueError(f"{label_text}; expected true or false")
    return _SWITCH[word]


def _basic_info(topology: Mapping[str, Any] | None) -> CPUBasicInfo:
    if topology is None:
        raise ValueError("the node has no NodeResourceTopology; its koordlet writes it")
    info, ignored = cpu_basic_info(topology)
    if info is None:
        missing = f"NodeResourceTopology annotation {ANNOTATION_CPU_BASIC_INFO} names no CPU model"
        raise ValueError("; ".join(ignored) or missing)
    return info


def _ratio(info: CPUBasicInfo, strategy: CPUNormalization) -> tuple[float, str]:
    """The ratio, and what it is taken from."""
    of_model = _ratio_of_model(dict(strategy.models).get(info.model), info)
    found = strategy.default_ratio if of_model is None else of_model
    formula = "default ratio" if of_model is None else "ratio of model"
    if found is None:
        state = f"hyper-threads {_on(info.hyper_threads)} and turbo {_on(info.turbo)}"
        model = excerpt(info.model)
        raise ValueError(f"no ratio for CPU model {model} with {state}, and no default ratio")
    if not LEAST_RATIO <= found <= MOST_RATIO:
        raise ValueError(f"{formula} is {found:g}; expected {LEAST_RATIO:g} to {MOST_RATIO:g}")
    return found, formula


def _ratio_of_model(ratios: ModelRatios | None, info: CPUBasicInfo) -> float | None:
    if ratios is None:
        return None
    if info.hyper_threads:
        return ratios.both if info.turbo else ratios.hyper_threads
    return ratios.turbo if info.turbo else ratios.base


def _desired(ratio: float, decision: Decision) -> DesiredNode:
    return DesiredNode(
        annotations={ANNOTATION_CPU_NORMALIZATION_RATIO: f"{ratio:.2f}"}, decisions=(decision,)
    )


def _on(flag: bool) -> str:
    return "on" if flag else "off"
