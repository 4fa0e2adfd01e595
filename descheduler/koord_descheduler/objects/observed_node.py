"""A Node as the descheduler reads it. No IO."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from koord_kube.views.decode import decode_view
from koord_model.demand import Amounts
from koord_scheduler.objects.node import Node, read_node
from koord_scheduler.plugins.load_aware.load_node import load_node


class ObservedNode(NamedTuple):
    """A node as the scheduler reads it, and whether it is ready.

    ``capacity`` is what pods can have of it, before any amplification: usage is measured in real
    CPUs and bytes.
    """

    node: Node
    is_ready: bool
    capacity: Amounts

    @property
    def name(self) -> str:
        """The name, which is unique."""
        return self.node.name

    @property
    def labels(self) -> dict[str, str]:
        """The labels."""
        return self.node.labels

    @property
    def is_schedulable(self) -> bool:
        """False if it is cordoned."""
        return not self.node.spec.unschedulable


class _Condition(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class _Node(msgspec.Struct, frozen=True):
    status: _Status = _Status()


_DECODER = msgspec.json.Decoder(_Node)


def read_observed_node(text: bytes) -> ObservedNode:
    """The node in a JSON document.

    Raises:
        ValueError: it is not a Node.
    """
    conditions = decode_view(_DECODER, text, "a valid Node").status.conditions or ()
    is_ready = ("Ready", "True") in ((found.type, found.status) for found in conditions)
    node = read_node(text)
    return ObservedNode(node, is_ready, load_node(node)[0].allocatable)
