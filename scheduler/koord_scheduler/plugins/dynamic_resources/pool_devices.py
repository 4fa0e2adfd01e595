"""Devices as the allocator looks at them: which node can use them, and which selectors mean them.

No IO.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from koord_scheduler.objects.node_selector import NodeSelectorTerm, node_selector_terms
from koord_scheduler.plugins.dynamic_resources.objects import (
    DeviceAttribute,
    DRADevice,
    ResourceSlice,
)
from koord_scheduler.plugins.dynamic_resources.selectors import (
    Selector,
    SelectorError,
    compile_selector,
)

Document = dict[str, Any]


class DeviceId(NamedTuple):
    """A device of the cluster."""

    driver: str
    pool: str
    device: str


class ClaimingNode(NamedTuple):
    """The node for which devices are looked for."""

    name: str
    labels: Mapping[str, str]


class PoolDevice:
    """A device of a slice; what selectors say about it is kept."""

    def __init__(self, device: DRADevice, piece: ResourceSlice) -> None:
        spec = piece.spec
        self.device = device
        self.slice = piece
        self.id = DeviceId(spec.driver, spec.pool.name, device.name)
        self._matches: dict[str, bool | SelectorError] = {}

    def is_usable_on(self, node: ClaimingNode) -> bool:
        """True if a node can use it, where devices of the slice say that one by one."""
        if not self.slice.spec.per_device_node_selection:
            return True
        one = self.device
        return node_matches(node, one.node_name, one.all_nodes, one.node_selector)

    def matches(self, expression: str) -> bool:
        """True if a selector selects it; raises ``SelectorError``."""
        found = self._matches.get(expression)
        if found is None:
            found = self._matches[expression] = self._evaluate(expression)
        if isinstance(found, SelectorError):
            raise found
        return found

    def attribute(self, name: str) -> DeviceAttribute | None:
        """An attribute by its full name; the domain of the driver's own is the driver."""
        found = self.device.attributes.get(name)
        domain, _, plain = name.partition("/")
        if found is None and domain == self.id.driver:
            found = self.device.attributes.get(plain)
        return found

    def _evaluate(self, expression: str) -> bool | SelectorError:
        selector = compile_selector(expression)
        if isinstance(selector, Selector):
            try:
                return selector.matches(self.id.driver, self.device)
            except SelectorError as error:
                return error
        return selector


def node_matches(
    node: ClaimingNode, name: str | None, all_nodes: bool, selector: Document | None
) -> bool:
    """True if slices', devices' or allocations' conditions on nodes include a node."""
    if name:
        return node.name == name
    if all_nodes:
        return True
    if selector is None:
        return False
    return any(_matches(term, node) for term in _terms(msgspec.json.encode(selector)))


@lru_cache(4096)
def _terms(selector: bytes) -> tuple[NodeSelectorTerm, ...]:
    return node_selector_terms(msgspec.json.decode(selector))


def _matches(term: NodeSelectorTerm, node: ClaimingNode) -> bool:
    if not term.labels and not term.names:
        return False
    return all(label.allows(node.labels.get(label.key)) for label in term.labels) and all(
        name.allows(node.name) for name in term.names
    )
