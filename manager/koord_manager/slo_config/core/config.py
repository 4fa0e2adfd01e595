"""All strategies of the ConfigMap ``slo-controller-config``, as they are in force. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import Any

import msgspec
from koord_kube.definitions.schema import Schema
from koord_model.annotations import decode
from koord_model.excerpt import excerpt

from koord_manager.slo_config.core import sections
from koord_manager.slo_config.core.backstop import (
    BACKSTOP_SCHEMA,
    BackstopRules,
    overlay_backstop,
)
from koord_manager.slo_config.core.colocation import (
    ColocationStrategy,
    CPUNormalization,
    NodeStrategies,
    ResourceAmplification,
)
from koord_manager.slo_config.core.colocation_document import SCHEMA as COLOCATION_SCHEMA
from koord_manager.slo_config.core.colocation_document import on_node
from koord_manager.slo_config.core.colocation_document import overlay as overlay_colocation
from koord_manager.slo_config.core.layers import ConfigLayers, Document, Overlay, layered, read
from koord_manager.slo_config.core.ratios_document import (
    AMPLIFICATION_SCHEMA,
    NORMALIZATION_SCHEMA,
    overlay_amplification,
    overlay_normalization,
)
from koord_manager.slo_config.core.schema import fields_of, unknown_fields
from koord_manager.slo_config.core.sections import NodeSLOSection

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
NODE_BACKSTOP = "node-backstop-config"
"""Our own: when nodes are tainted, and whose pods go."""

MOST_UNKNOWN = 8
"""Unknown fields of a key that are named; what follows is most likely of the same kind."""

_LONGEST_KEY = 64
_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """Error of a key, or of a field of it: one line that begins with the key."""

    key: str
    line: str


@dataclass(frozen=True, slots=True)
class _Key:
    """Reading of a key, and its place in ``SLOConfig``."""

    attribute: str
    usual: Any
    overlay: Overlay[Any]
    value: Schema
    """Schema of the values that the overlay knows."""
    cluster_in: str = "clusterStrategy"
    nodes_in: str = "nodeStrategies"
    with_reach: bool = False

    def read(self, key: str, text: str, problems: list[str]) -> ConfigLayers[Any]:
        return read(
            key,
            text,
            self.usual,
            self.overlay,
            problems,
            cluster_in=self.cluster_in,
            nodes_in=self.nodes_in,
            with_reach=self.with_reach,
        )

    @property
    def schema(self) -> Schema:
        """The names of all fields that the key may have."""
        return layered(self.value, self.cluster_in, self.nodes_in, with_reach=self.with_reach)


def _flat(attribute: str, usual: Any, overlay: Overlay[Any], value: Schema) -> _Key:
    return _Key(attribute, usual, overlay, value, cluster_in="", nodes_in="nodeConfigs")


def _section(attribute: str, usual: Document, section: NodeSLOSection) -> _Key:
    return _Key(attribute, usual, section.overlay, section.schema)


_NO_APPLICATIONS: Document = {"applications": []}
_APPLICATIONS = fields_of([], applications=sections.HOST_APPLICATIONS.schema)

_KEYS: Mapping[str, _Key] = {
    COLOCATION: _flat("colocation", ColocationStrategy(), overlay_colocation, COLOCATION_SCHEMA),
    RESOURCE_THRESHOLD: _section("threshold", sections.THRESHOLD, sections.RESOURCE_THRESHOLD),
    RESOURCE_QOS: _section("qos", {}, sections.RESOURCE_QOS),
    CPU_BURST: _section("burst", sections.BURST, sections.CPU_BURST),
    SYSTEM: _section("system", sections.SYSTEM, sections.SYSTEM_STRATEGY),
    HOST_APPLICATIONS: _flat(
        "host_applications", _NO_APPLICATIONS, sections.overlay_applications, _APPLICATIONS
    ),
    CPU_NORMALIZATION: _flat(
        "normalization", CPUNormalization(), overlay_normalization, NORMALIZATION_SCHEMA
    ),
    RESOURCE_AMPLIFICATION: _flat(
        "amplification", ResourceAmplification(), overlay_amplification, AMPLIFICATION_SCHEMA
    ),
    STRATEGIES: _Key(
        "extension",
        {},
        sections.STRATEGIES.overlay,
        sections.STRATEGIES_SCHEMA,
        with_reach=True,
    ),
    NODE_BACKSTOP: _flat("backstop", BackstopRules(), overlay_backstop, BACKSTOP_SCHEMA),
}

KEYS = frozenset(_KEYS)
"""Every key that the ConfigMap may have: Koordinator's eight, and two of our own."""


@dataclass(frozen=True)
class SLOConfig:
    """Configuration in force, key by key; sections of NodeSLOs are documents.

    ``extension`` is ``None`` while the ConfigMap does not have its key: then nodes keep what others
    have set. ``unknown`` are keys of which nothing good has been seen yet:
    what they decide stays on nodes as it is found there.
    """

    colocation: ConfigLayers[ColocationStrategy]
    normalization: ConfigLayers[CPUNormalization]
    amplification: ConfigLayers[ResourceAmplification]
    threshold: ConfigLayers[Document]
    qos: ConfigLayers[Document]
    burst: ConfigLayers[Document]
    system: ConfigLayers[Document]
    host_applications: ConfigLayers[Document]
    extension: ConfigLayers[Document] | None
    backstop: ConfigLayers[BackstopRules]
    unknown: frozenset[str] = frozenset()

    def strategies_for(
        self, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> NodeStrategies:
        """The strategies for a Node with these labels and annotations.

        Co-location that is off for the cluster is off on all nodes, whatever its layers say, as in
        Koordinator.
        """
        colocation, ignored = on_node(self.colocation.of(labels), labels, annotations)
        on = colocation.enable and self.colocation.cluster.enable
        return NodeStrategies(
            colocation=replace(colocation, enable=on) if on != colocation.enable else colocation,
            normalization=self.normalization.of(labels),
            amplification=self.amplification.of(labels),
            ignored=ignored,
        )


def advance(
    before: SLOConfig, data: Mapping[str, str]
) -> tuple[SLOConfig, tuple[ConfigProblem, ...]]:
    """Apply the ConfigMap's data, ``{}`` if there is none; return the result and the errors.

    A key that is wrong anywhere keeps all of its last good value, the others apply. One that
    is not there, or is empty, has its defaults.
    """
    changes: dict[str, Any] = {}
    problems: list[ConfigProblem] = []
    good: set[str] = set()
    for key in _KEYS:
        text = data.get(key, "")
        layers, lines = read_key(key, text)
        problems.extend(ConfigProblem(key, line) for line in lines)
        if not lines:
            changes[_KEYS[key].attribute] = layers
            good.add(key)
    return replace(before, **changes, unknown=before.unknown - good), tuple(problems)


def read_key(key: str, text: str) -> tuple[ConfigLayers[Any] | None, tuple[str, ...]]:
    """Parse a key's text; return the result and all errors.

    Without text, or of text that nothing can be read of, the former may be ``None``.
    """
    if not text.strip():
        return _usual(key), ()
    lines: list[str] = []
    try:
        layers = _KEYS[key].read(key, text, lines)
    except RecursionError:
        return None, (f"{key} is nested too deep; expected a few levels",)
    return layers, tuple(dict.fromkeys(_plain(line) for line in lines))


def unknown_in(data: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Names in the ConfigMap's data that mean nothing, but do not keep the rest from applying.

    A key that cannot be read at all has a line already.
    """
    for key in islice(sorted(data.keys() - KEYS), MOST_UNKNOWN):
        near = get_close_matches(key[:_LONGEST_KEY], KEYS, 1)
        hint = f"did you mean {near[0]}?" if near else f"expected {', '.join(sorted(KEYS))}"
        yield ConfigProblem(key, f"{excerpt(key)} is not a key of this ConfigMap; {hint}")
    for key in sorted(data.keys() & KEYS):
        try:
            document = decode(_ANY, data[key]) if data[key].strip() else None
        except ValueError:
            continue
        for unknown_field in islice(unknown_fields(document, _KEYS[key].schema), MOST_UNKNOWN):
            yield ConfigProblem(key, f"{key}: {unknown_field}")


def _usual(key: str) -> Any:
    return None if key == STRATEGIES else ConfigLayers(_KEYS[key].usual)


def _plain(line: str) -> str:
    """Without what a reader says that it does instead: here all of the key is left as it was."""
    head, expected, rest = line.rpartition("; expected ")
    return f"{head}{expected}{rest.partition(' (')[0]}" if expected else line


DEFAULTS = SLOConfig(**{row.attribute: _usual(key) for key, row in _KEYS.items()})
"""The configuration without a ConfigMap."""

UNREAD = replace(DEFAULTS, unknown=KEYS)
"""Configuration of a manager that has not seen the ConfigMap yet."""
