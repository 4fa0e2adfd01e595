"""All rules over what the API says of a cluster. Pure, and independent of the scheduler."""

from __future__ import annotations

from tests.chaos_scheduler import group_rules, node_rules
from tests.chaos_scheduler.cluster_state import ClusterState

ALWAYS = (
    node_rules.rooms,
    node_rules.cards,
    node_rules.cpusets,
    node_rules.neighbours,
    group_rules.quotas,
    group_rules.owners,
)
AT_REST = (group_rules.gangs, group_rules.reported_use, group_rules.said_of_owners)
"""Bindings of a gang, and reports, take a moment."""


def always(state: ClusterState) -> list[str]:
    """What is wrong, and may be at no moment."""
    return [line for rule in ALWAYS for line in rule(state)]


def at_rest(state: ClusterState) -> list[str]:
    """What is wrong where nothing happens any more."""
    return [line for rule in (*ALWAYS, *AT_REST) for line in rule(state)]
