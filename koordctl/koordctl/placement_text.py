"""Reasons why a pod waits, or has its node, as text for people. No IO."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence

from koordctl.output.tables import Block, indented, table
from koordctl.render import clean, count, span, time_text
from koordctl.scheduler_documents import (
    DiagnosisRow,
    GangRow,
    NearMissRow,
    NodeScoresRow,
    PlacementDocument,
    QuotaRefusalRow,
)

_STATES = {
    "active": "its turn has not come yet",
    "backoff": "its last attempt failed",
    "gated": "it has scheduling gates",
    "unschedulable": "no node takes it at present",
}


def waiting_lines(found: PlacementDocument, zone: datetime.tzinfo | None = None) -> Iterator[Block]:
    """Explain why a pod waits; ``zone`` is that of the times, None the machine's."""
    state, pod = clean(found.state), clean(found.pod)
    if found.reason:
        yield f"{clean(found.reason)}."
        return
    if found.node:
        yield f"{pod} has its node, {clean(found.node)}: see koordctl why scheduled {pod}."
        return
    because = f": {_STATES[state]}" if state in _STATES else ""
    yield f"{pod} is {state}{because}"
    yield table(_details(found, zone), indent=2, has_header=False)
    if found.gang is not None:
        yield ""
        yield from _gang_lines(found.gang)
    if found.quota is not None:
        yield ""
        yield from quota_lines(found.quota)
    if found.diagnosis is not None:
        yield ""
        yield from diagnosis_lines(found.diagnosis, found.held_nodes)
    if found.best:
        yield ""
        yield "Best nodes now"
        yield from indented(score_lines(found.best))


def _gang_lines(found: GangRow) -> Iterator[Block]:
    """Describe the missing members of a pod's gang."""
    if found.policy:
        yield f"Its gang asks for: {clean(found.policy)}"
    if found.reason:
        yield f"Its gang group {clean(found.group)} cannot be tried: {clean(found.reason)}"
        return
    needed = count(found.needed, "pod")
    yield f"Its gang group {clean(found.group)} needs nodes for {needed} at once"
    if not found.failed:
        yield f"All {found.fitted} fit now; its next attempt is due shortly."
        return
    failed = clean(found.failed)
    yield f"{found.fitted} of {found.waiting} fit; the first that does not is {failed}:"


def scheduled_lines(found: PlacementDocument) -> Iterator[Block]:
    """Describe the scheduler's present opinion of the node that a pod has."""
    pod, node = clean(found.pod), clean(found.node)
    if found.reason:
        yield f"{clean(found.reason)}."
        return
    if not found.node:
        yield f"{pod} has no node: see koordctl why pending {pod}."
        return
    assumed = ", but its binding is not confirmed yet" if found.state == "assumed" else ""
    yield f"{pod} is on {node}{assumed}"
    yield ""
    if not found.is_node:
        yield f"The node {node} is not in the cluster any more."
    elif found.rejected_by:
        plugins = ", ".join(map(clean, found.rejected_by))
        yield f"The pod would not fit there now, because of {plugins}."
    yield f"Placed again now, it would fit on {found.feasible} of {count(found.nodes, 'node')}:"
    yield from indented(score_lines(found.best, found.node))


def placement_lines(found: PlacementDocument, recorded: str = "") -> Iterator[Block]:
    """Explain a pod's node, or its lack; ``recorded`` is the node that it got then."""
    if found.state != "placed":
        yield from waiting_lines(found)
        return
    yield f"{clean(found.pod)} on {clean(found.node)}"
    yield from indented(score_lines(found.best, recorded, "recorded"))


def quota_lines(found: QuotaRefusalRow) -> Iterator[Block]:
    """Describe the resources that a quota lacks, and their holders."""
    limit = "its min, for pods that may not be preempted" if found.non_preemptible else "its limit"
    above = f", above {clean(found.path[-1])}" if len(found.path) > 1 else ""
    yield f"The quota {clean(found.quota)}{above} would exceed {limit}"
    header = ("RESOURCE", "LIMIT", "USED", "LACKS")
    rows = [
        (
            clean(name),
            clean(found.limit.get(name, "")),
            clean(found.used.get(name, "0")),
            clean(lack),
        )
        for name, lack in sorted(found.lacks.items())
    ]
    yield table([header, *rows], words=(0,), indent=2)
    for who, listed in (("held by", found.holders), ("borrowed by", found.borrowers)):
        if listed:
            shown = ", ".join(f"{clean(name)} {clean(value)}" for name, value in listed.items())
            yield f"  {clean(found.resource)}, {who}: {shown}"


def diagnosis_lines(found: DiagnosisRow, held_nodes: int = 0) -> Iterator[Block]:
    """Describe the plugins that reject nodes, their reasons, and the nearest nodes."""
    yield f"It fits on {found.feasible} of {count(found.nodes, 'node')}{_held(held_nodes)}"
    if found.plugins:
        rows = [
            (clean(plugin.plugin), str(plugin.nodes), str(plugin.alone)) for plugin in found.plugins
        ]
        header = ("REJECTED BY", "NODES", "BY IT ALONE")
        yield table([header, *rows], words=(0,), indent=2)
    if found.feasible:
        return
    if found.reasons:
        yield ""
        ordered = sorted(found.reasons.items(), key=lambda reason: (-reason[1], reason[0]))
        reasons = [(clean(reason), str(nodes)) for reason, nodes in ordered]
        yield table([("FIRST REASON", "NODES"), *reasons], words=(0,), indent=2)
    else:
        yield f"  {clean(found.message)}"
    if found.nearest:
        yield ""
        yield "Nearest"
        yield from indented(map(_near_miss, found.nearest))
    if found.wakes_on:
        yield ""
        yield "It may fit after"
        words = map(clean, found.wakes_on)
        yield from (f"  {'or ' if number else ''}{word}" for number, word in enumerate(words))


def score_lines(
    best: Sequence[NodeScoresRow], own: str = "", mark: str = "its node"
) -> Iterator[Block]:
    """Nodes by rank, and below each other what plugins give them; the node ``own`` is marked."""
    if not best:
        return
    rows = [
        (
            *(str(place.rank), clean(place.node), str(place.total)),
            mark if place.node == own else "",
        )
        for place in best
    ]
    yield table([("RANK", "NODE", "SCORE", ""), *rows], words=(1, 3))
    # A plugin that gives none of them anything does not tell them apart.
    scored = (plugin for place in best for plugin, score in place.by_plugin.items() if score)
    plugins = list(dict.fromkeys(scored))
    ranks = ("SCORE BY PLUGIN", *(f"#{place.rank}" for place in best))
    scores = [
        (clean(plugin), *(str(place.by_plugin.get(plugin, 0)) for place in best))
        for plugin in plugins
    ]
    yield ""
    yield table([ranks, *scores], words=(0,))


def _details(found: PlacementDocument, zone: datetime.tzinfo | None) -> list[tuple[str, str]]:
    details = []
    if found.at:
        since = f"{time_text(found.since, zone)} ({span(found.at - found.since)})"
        details.append(("since", since))
    details.append(("priority", str(found.priority)))
    if found.gates:
        details.append(("gates", ", ".join(map(clean, found.gates))))
    if found.attempts:
        details.append(("failed attempts", str(found.attempts)))
    if found.state == "backoff":
        details.append(("next attempt", f"in {span(found.retry_seconds)}"))
    if found.extender_failure:
        details.append(("extender", clean(found.extender_failure)))
    if found.nominated_node:
        details.append(("nominated node", clean(found.nominated_node)))
    if found.paused:
        details.append(("no decisions", clean(found.paused)))
    return details


def _held(nodes: int) -> str:
    return f", {nodes} of them kept for nominated pods" if nodes else ""


def _near_miss(found: NearMissRow) -> str:
    lacks = ", ".join(f"{clean(amount)} {clean(name)}" for name, amount in found.lacks.items())
    plugins = ", ".join(map(clean, found.plugins))
    parts = (f"lacks {lacks}" if lacks else "", f"is rejected by {plugins}" if plugins else "")
    said = " ".join((clean(found.node), " and ".join(filter(None, parts)))).rstrip()
    return f"{said}: {', '.join(map(clean, found.notes))}" if found.notes else said
