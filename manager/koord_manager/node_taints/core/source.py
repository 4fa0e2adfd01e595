"""The contract between the writer of taints and the sources that ask for them. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from koord_manager.node_taints.core.taints import NodeTaint

NodeTaints = Mapping[str, frozenset[NodeTaint]]
"""Taints by node."""


class TaintSource(Protocol):
    """One reason to taint nodes; it is asked at each look."""

    @property
    def problem(self) -> str:
        """Reason why it asks for less than it sees, in a line; "" while there is none."""
        ...

    async def asked(self, present: NodeTaints) -> NodeTaints:
        """The taints that it wants now; ``present`` are those that nodes have from here."""
        ...

    def bars(self, taint: NodeTaint) -> bool:
        """True if a taint of its kind may not be set anew at present; what is there stays."""
        ...

    def reason(self, node: str, taint: NodeTaint) -> str:
        """Reason why a node has, or no longer has, a taint of its kind; "" of others."""
        ...
