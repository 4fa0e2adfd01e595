"""Diagnosis of a class whose pods can run on no node, or on few. No IO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from koord_scheduler.extenders.refusal import ExtenderRefusal
from koord_scheduler.framework.class_scores import ClassScores, PluginReasons
from koord_scheduler.framework.nearest_miss import NearMiss, nearest_misses
from koord_scheduler.framework.pre_filter import merge_pre_filter, not_named
from koord_scheduler.plugin import Plugin, PreFilterResult, Reason
from koord_scheduler.state.arrays import Mask, Rows
from koord_scheduler.state.cluster_state import ClusterState


@dataclass(frozen=True, slots=True)
class PluginRejections:
    """Number of nodes that a plugin rejects, and of those that no other (``alone``) rejects.

    ``helped_by`` names changes that may end that, in general; ``cure`` what has to change in this
    case, where the plugin says so.
    """

    plugin: str
    nodes: int
    alone: int
    helped_by: str = ""
    cure: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Diagnosis:
    """Reasons why the pods of a class can run on ``feasible`` of ``nodes`` nodes only.

    ``reasons`` has the number of nodes for each reason, as kube-scheduler counts: a node counts
    for all reasons of the first plugin that rejects it, and for no others. There are none where
    ``pre_filter`` says why all nodes are rejected before they are looked at. ``resolvable`` are
    the rows where preemption may help. ``plugins`` are those that reject nodes, in the
    profile's order.
    """

    nodes: int
    feasible: int
    pre_filter: str
    reasons: dict[str, int]
    plugins: tuple[PluginRejections, ...]
    nearest: tuple[NearMiss, ...]
    resolvable: Rows


_EXTENDERS = "another answer of an extender, which is asked again"


def diagnose(scores: ClassScores, refusal: ExtenderRefusal | None = None) -> Diagnosis:
    """Diagnose why nodes reject the pods of a class, or one of them that extenders refused."""
    diagnosis = _by_plugins(scores)
    return diagnosis if refusal is None else _by_extenders(diagnosis, scores, refusal)


def _by_extenders(diagnosis: Diagnosis, scores: ClassScores, refusal: ExtenderRefusal) -> Diagnosis:
    """With the nodes that extenders alone reject: they are asked about those that are left."""
    nodes = scores.nodes
    rows = {name: nodes.row(name) for name in refusal.nodes}
    left = set(scores.feasible().tolist())
    failed = {rows[name]: node for name, node in refusal.nodes.items() if rows[name] in left}
    if not failed:
        return diagnosis
    reasons = Counter(diagnosis.reasons)
    reasons.update(one.reason for one in failed.values() if one.reason is not None)
    resolvable = [row for row, one in failed.items() if one.resolvable]
    number = len(failed)
    return replace(
        diagnosis,
        feasible=diagnosis.feasible - number,
        reasons=dict(reasons),
        plugins=(*diagnosis.plugins, PluginRejections(refusal.by, number, number, _EXTENDERS)),
        resolvable=np.sort(np.concatenate((diagnosis.resolvable, np.array(resolvable, np.intp)))),
    )


def _by_plugins(scores: ClassScores) -> Diagnosis:
    nodes = scores.nodes
    rows = np.flatnonzero(nodes.is_node)
    found = [reason for reason in scores.reasons(rows) if reason.rejects.any()]
    results = scores.pre_filter()
    found += _not_admitting(results, {one.plugin for one in found}, len(rows))
    merged = merge_pre_filter(results)
    if merged.rejection:
        reasons: dict[str, int] = {}
        resolvable = np.full(len(rows), merged.resolvable)
    else:
        named = _named(merged, nodes, rows)
        reasons, resolvable = _first_rejections(found, named)
        if left_out := len(rows) - int(named.sum()):
            reasons[not_named(results)] = left_out
    against = _number_rejecting(found, len(rows))
    cures = {plugin: result.cure for plugin, result in results if result.rejection}
    return Diagnosis(
        len(rows),
        int((against == 0).sum()),
        merged.rejection,
        reasons,
        tuple(
            PluginRejections(
                one.plugin,
                int(one.rejects.sum()),
                _alone(one, against),
                _helped_by(scores.plugin(one.plugin), pods_help=_pods_help(one, against)),
                cures.get(one.plugin, ""),
            )
            for one in found
        ),
        nearest_misses(nodes, rows, found, against),
        rows[resolvable],
    )


def _not_admitting(
    results: Iterable[tuple[str, PreFilterResult]], rejecting: Container[str], length: int
) -> Iterator[PluginReasons]:
    """Plugins that keep a class off all nodes, and have nothing against any of them."""
    for plugin, result in results:
        if result.rejection and plugin not in rejecting:
            everywhere = np.ones(length, np.bool_)
            reason = Reason(result.rejection, everywhere, result.resolvable)
            yield PluginReasons(plugin, [reason], everywhere)


def _named(merged: PreFilterResult, nodes: ClusterState, rows: Rows) -> Mask:
    if merged.nodes is None:
        return np.ones(len(rows), np.bool_)
    named = [row for row in map(nodes.row, merged.nodes) if row is not None]
    return np.isin(rows, named)


def _first_rejections(found: Sequence[PluginReasons], named: Mask) -> tuple[dict[str, int], Mask]:
    """Nodes by reason, and where preemption may help, by the first plugin that rejects a node."""
    counts: Counter[str] = Counter()
    left, resolvable = named, np.zeros(len(named), np.bool_)
    for one in found:
        rejected = left & one.rejects
        can_help = rejected.copy()
        for reason in one.reasons:
            if number := int((reason.rows & left).sum()):
                counts[reason.text] += number
            if not reason.resolvable:
                can_help &= ~reason.rows
        resolvable |= can_help
        left = left & ~one.rejects
    return dict(counts), resolvable


def _number_rejecting(found: Sequence[PluginReasons], length: int) -> Rows:
    """Of each row, how many plugins reject it."""
    against = np.zeros(length, np.intp)
    for one in found:
        against += one.rejects
    return against


def _pods_help(plugin_reasons: PluginReasons, against: Rows) -> bool:
    """True if all its reasons are resolvable somewhere: on nodes that it alone rejects, if any."""
    alone = plugin_reasons.rejects & (against == 1)
    helped = alone if alone.any() else plugin_reasons.rejects.copy()
    for reason in plugin_reasons.reasons:
        if not reason.resolvable:
            helped &= ~reason.rows
    return bool(helped.any())


def _alone(plugin_reasons: PluginReasons, against: Rows) -> int:
    return int((plugin_reasons.rejects & (against == 1)).sum())


def _helped_by(plugin: Plugin, *, pods_help: bool) -> str:
    """Changes that may end a plugin's rejections; ``pods_help`` if the end of other pods may."""
    return plugin.helped_by if pods_help else plugin.helped_by_nodes or plugin.helped_by
