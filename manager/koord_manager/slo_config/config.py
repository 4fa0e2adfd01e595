"""All strategies of the ConfigMap ``slo-controller-config``, as they are in force. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from koord_manager.slo_config import sections
from koord_manager.slo_config.colocation import (
    Amplification,
    ColocationStrategy,
    CPUNormalization,
    NodeStrategies,
)
from koord_manager.slo_config.colocation_document import on_node
from koord_manager.slo_config.colocation_document import overlay as overlay_colocation
from koord_manager.slo_config.layers import Document, Layers, Overlay, read
from koord_manager.slo_config.ratios_document import overlay_amplification, overlay_normalization

COLOCATION = "colocation-config"
RESOURCE_THRESHOLD = "resource-threshold-config"
RESOURCE_QOS = "resource-qos-config"
CPU_BURST = "cpu-burst-config"
SYSTEM = "system-config"
HOST_APPLICATIONS = "host-application-config"
CPU_NORMALIZATION = "cpu-normalization-config"
RESOURCE_AMPLIFICATION = "resource-amplification-config"
STRATEGIES = "pykoord-config"
"""Our own: what becomes ``extensions.pykoord`` of NodeSLOs, ``strategies`` for example."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a key cannot be used: one line that begins with the key."""

    key: str
    line: str


@dataclass(frozen=True, slots=True)
class _Key:
    """How a key is read, and where ``SLOConfig`` has it."""

    attribute: str
    usual: Any
    overlay: Overlay[Any]
    cluster_in: str = "clusterStrategy"
    nodes_in: str = "nodeStrategies"

    def read(self, key: str, text: str, problems: list[str]) -> Layers[Any]:
        return read(
            key,
            text,
            self.usual,
            self.overlay,
            problems,
            cluster_in=self.cluster_in,
            nodes_in=self.nodes_in,
        )


def _flat(attribute: str, usual: Any, overlay: Overlay[Any]) -> _Key:
    return _Key(attribute, usual, overlay, cluster_in="", nodes_in="nodeConfigs")


_NO_APPLICATIONS: Document = {"applications": []}

_KEYS: Mapping[str, _Key] = {
    COLOCATION: _flat("colocation", ColocationStrategy(), overlay_colocation),
    RESOURCE_THRESHOLD: _Key("threshold", sections.THRESHOLD, sections.RESOURCE_THRESHOLD.overlay),
    RESOURCE_QOS: _Key("qos", {}, sections.RESOURCE_QOS.overlay),
    CPU_BURST: _Key("burst", sections.BURST, sections.CPU_BURST.overlay),
    SYSTEM: _Key("system", sections.SYSTEM, sections.SYSTEM_STRATEGY.overlay),
    HOST_APPLICATIONS: _flat("host_applications", _NO_APPLICATIONS, sections.overlay_applications),
    CPU_NORMALIZATION: _flat("normalization", CPUNormalization(), overlay_normalization),
    RESOURCE_AMPLIFICATION: _flat("amplification", Amplification(), overlay_amplification),
    STRATEGIES: _Key("extension", {}, sections.STRATEGIES.overlay),
}

KEYS = frozenset(_KEYS)
"""Every key that the ConfigMap may have: Koordinator's eight, and one of our own."""


@dataclass(frozen=True)
class SLOConfig:
    """What is in force, key by key; sections of NodeSLOs are documents.

    ``extension`` is ``None`` while the ConfigMap does not have its key: then nodes keep what
    somebody else gave them. ``unknown`` are keys of which nothing good has been seen yet:
    what they decide stays on nodes as it is found there.
    """

    colocation: Layers[ColocationStrategy]
    normalization: Layers[CPUNormalization]
    amplification: Layers[Amplification]
    threshold: Layers[Document]
    qos: Layers[Document]
    burst: Layers[Document]
    system: Layers[Document]
    host_applications: Layers[Document]
    extension: Layers[Document] | None
    unknown: frozenset[str] = frozenset()

    def strategies_for(
        self, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> NodeStrategies:
        """What holds for a Node that says this of itself.

        Co-location that is off for the cluster is off on all nodes, whatever is said for some
        of them, as in Koordinator.
        """
        colocation, ignored = on_node(self.colocation.of(labels), labels, annotations)
        on = colocation.enable and self.colocation.cluster.enable
        return NodeStrategies(
            colocation=replace(colocation, enable=on) if on != colocation.enable else colocation,
            normalization=self.normalization.of(labels),
            amplification=self.amplification.of(labels),
            ignored=ignored,
        )


def advance(before: SLOConfig, data: Mapping[str, str]) -> tuple[SLOConfig, tuple[Problem, ...]]:
    """What is in force with this data of the ConfigMap, ``{}`` where there is none, and why not.

    A key that is wrong anywhere keeps all of its last good value, the others apply. One that
    is not there, or is empty, has its defaults.
    """
    changes: dict[str, Any] = {}
    problems: list[Problem] = []
    good: set[str] = set()
    for key in _KEYS:
        text = data.get(key, "")
        layers, lines = read_key(key, text)
        problems.extend(Problem(key, line) for line in lines)
        if not lines:
            changes[_KEYS[key].attribute] = layers
            good.add(key)
    return replace(before, **changes, unknown=before.unknown - good), tuple(problems)


def read_key(key: str, text: str) -> tuple[Layers[Any] | None, tuple[str, ...]]:
    """What a key's text gives, and every reason why it cannot be used; ``None`` is no text."""
    if not text.strip():
        return _usual(key), ()
    lines: list[str] = []
    layers = _KEYS[key].read(key, text, lines)
    return layers, tuple(dict.fromkeys(_plain(line) for line in lines))


def _usual(key: str) -> Any:
    return None if key == STRATEGIES else Layers(_KEYS[key].usual)


def _plain(line: str) -> str:
    """Without what a reader says that it does instead: here all of the key is left as it was."""
    head, expected, rest = line.rpartition("; expected ")
    return f"{head}{expected}{rest.partition(' (')[0]}" if expected else line


DEFAULTS = SLOConfig(**{one.attribute: _usual(key) for key, one in _KEYS.items()})
"""What holds where the ConfigMap says nothing."""

UNREAD = replace(DEFAULTS, unknown=KEYS)
"""What a manager begins with, before it has seen the ConfigMap."""
