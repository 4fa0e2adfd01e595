"""The spec of a Node's NodeSLO: the strategies that apply to it. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from koord_model.fields import shown
from koord_model.keys import ANNOTATION_NETWORK_BANDWIDTH
from koord_model.node_slo_document import MAX_BITS
from koord_model.quantity import whole

from koord_manager.node_objects.core.nodes import ClusterNode, Object
from koord_manager.node_objects.core.reconciler import ExistingObject
from koord_manager.nodeslo.core.rollout import Rollout
from koord_manager.slo_config.core import config as keys
from koord_manager.slo_config.core.config import SLOConfig

_EXTENSIONS = "extensions"
_OURS = "pykoord"
_SERVICES = "services"

ServicesOf = Callable[[str, Sequence[Mapping[str, Any]]], list[Mapping[str, Any]]]
"""The profiles of services for a node, given those that its NodeSLO has."""


def no_services(_node: str, _there: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """No profiles: the gate is off."""
    return []


def desired(
    config: SLOConfig,
    node: ClusterNode,
    there: ExistingObject | None,
    rollout: Rollout,
    services: ServicesOf = no_services,
) -> tuple[Object, list[str]]:
    """The spec, and a line for each annotation of the Node that cannot be used.

    A section whose key never had a good value stays as it is; so do fields and extensions of
    others.
    """
    ignored: list[str] = []
    spec = there.decoded() if there else {}
    labels = node.labels
    sections = {
        keys.RESOURCE_THRESHOLD: ("resourceUsedThresholdWithBE", config.threshold.of(labels)),
        keys.RESOURCE_QOS: ("resourceQOSStrategy", config.qos.of(labels)),
        keys.CPU_BURST: ("cpuBurstStrategy", config.burst.of(labels)),
        keys.SYSTEM: ("systemStrategy", _system(config, node, ignored)),
        keys.HOST_APPLICATIONS: (
            "hostApplications",
            config.host_applications.of(labels)["applications"],
        ),
        keys.STRATEGIES: (
            _EXTENSIONS,
            _with_services(_extensions(config, node, spec, rollout), node, spec, services),
        ),
    }
    for key, (field, value) in sections.items():
        if there is not None and key in config.unknown and field != _EXTENSIONS:
            continue
        spec.pop(field, None)
        if value:
            spec[field] = value
    return spec, ignored


def _system(config: SLOConfig, node: ClusterNode, ignored: list[str]) -> Mapping[str, object]:
    """The strategy; a node may know its own bandwidth better."""
    strategy = config.system.of(node.labels)
    given = node.annotations.get(ANNOTATION_NETWORK_BANDWIDTH)
    if given is None:
        return strategy
    try:
        if not 0 <= whole(given) <= MAX_BITS:
            raise ValueError(given)
    except ValueError:
        ignored.append(
            f"node {node.name}: annotation {ANNOTATION_NETWORK_BANDWIDTH} is {shown(given)}; "
            'expected bits a second like "10G" (ignored)'
        )
        return strategy
    return {**strategy, "totalNetworkBandwidth": given}


def _with_services(
    extensions: Mapping[str, Any], node: ClusterNode, spec: Object, services: ServicesOf
) -> Mapping[str, object]:
    """With the profiles of services that have pods on the node."""
    there = ((spec.get(_EXTENSIONS) or {}).get(_OURS) or {}).get(_SERVICES) or []
    found = services(node.name, there)
    ours = {**(extensions.get(_OURS) or {})}
    ours.pop(_SERVICES, None)
    if found:
        ours[_SERVICES] = found
    others = {name: section for name, section in extensions.items() if name != _OURS}
    return {**others, _OURS: ours} if ours else others


def _extensions(
    config: SLOConfig, node: ClusterNode, spec: Object, rollout: Rollout
) -> Mapping[str, object]:
    """Those of others stay; ours do while the ConfigMap does not have the key, or holds it back."""
    found = spec.get(_EXTENSIONS) or {}
    if config.extension is None:
        return found
    is_new = _OURS not in found
    entry = rollout.entry_for(config.extension, node.name, node.labels, is_new=is_new)
    if entry is not None and rollout.is_paused(entry):
        return found
    is_compared = rollout.is_compared(config.extension, node.name, node.labels)
    ours = rollout.section_of(config.extension, entry, is_compared=is_compared)
    others = {name: section for name, section in found.items() if name != _OURS}
    return {**others, _OURS: ours} if ours else others
