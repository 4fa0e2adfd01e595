"""Reasons against a pod on nodes that filters had passed. No IO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

EXTENDERS = "Extender"
"""Name of extenders in kube-scheduler's lists of plugins."""
RESERVE = "Reserve"
"""The extension point at which plugins reject nodes late."""


class NodeFailure(NamedTuple):
    """Rejection of a node by an extender, or by a reserving plugin; ``None``: without a reason.

    It is ``resolvable`` where preemption may help.
    """

    reason: str | None
    resolvable: bool


class ExtenderRefusal(NamedTuple):
    """The ``nodes`` that they reject, by name; or the ``failure`` for which nobody knows.

    It was said ``by`` extenders, or where plugins reserve.
    """

    nodes: Mapping[str, NodeFailure] = {}
    failure: str = ""
    by: str = EXTENDERS
