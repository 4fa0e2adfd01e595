"""Answers of all plugins about a class before nodes are looked at. No IO.

As Kubernetes' ``RunPreFilterPlugins`` puts it together.
"""

from __future__ import annotations

from collections.abc import Iterable

from koord_scheduler.plugin import PreFilterResult


def merge_pre_filter(results: Iterable[tuple[str, PreFilterResult]]) -> PreFilterResult:
    """One result of those that plugins have, by their names, in the profile's order.

    The first rejection counts that is not resolvable, otherwise the last one. Where plugins name
    nodes, those that all of them name come into question; no such node is a rejection, too.
    """
    rejected = PreFilterResult()
    nodes: frozenset[str] | None = None
    naming: list[str] = []
    for plugin, result in results:
        if result.rejection and not result.resolvable:
            return result
        if result.rejection:
            rejected = result
        elif result.nodes is not None:
            naming.append(plugin)
            nodes = result.nodes if nodes is None else nodes & result.nodes
            if not nodes:
                return PreFilterResult(_no_node_left(naming))
    return rejected if rejected.rejection else PreFilterResult(nodes=nodes)


def not_named(results: Iterable[tuple[str, PreFilterResult]]) -> str:
    """The reason that nodes have that plugins do not name."""
    naming = sorted(plugin for plugin, result in results if result.nodes is not None)
    return f"node(s) didn't satisfy plugin(s) [{' '.join(naming)}]"


def _no_node_left(naming: list[str]) -> str:
    if len(naming) == 1:
        return f"node(s) didn't satisfy plugin {naming[0]}"
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(naming))}] simultaneously"
