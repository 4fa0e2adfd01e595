"""Sentences about pods that fit nowhere; most are kube-scheduler's, word for word. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord_scheduler.framework.diagnosis import Diagnosis

NO_NODES = "no nodes available to schedule pods"
NO_VICTIMS = "No preemption victims found for incoming pod"
"""Reason for which preemption fails on a node without pods of a lower priority."""
NEVER_PREEMPTS = "not eligible due to preemptionPolicy=Never."
WAITS_FOR_VICTIMS = "not eligible due to a terminating pod on the nominated node."
NO_CANDIDATE = "no candidate node for preemption"
"""Reason for which a pod preempts nothing, for ``preemption_message``."""
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


def fit_error_message(diagnosis: Diagnosis, post_filter: str = "") -> str:
    """Return the number of nodes by reason, as Kubernetes' ``FitError``.

    ``post_filter`` is what plugins say that make room, as ``preemption_message``.
    """
    if not diagnosis.nodes:
        return NO_NODES
    before = diagnosis.pre_filter
    reasons = [before] if before else _counted(diagnosis.reasons)
    message = _available(diagnosis.feasible, diagnosis.nodes, reasons)
    return f"{message} {post_filter}" if post_filter else message


def not_admitted_message(nodes: int, reason: str, post_filter: str = "") -> str:
    """The same for pods that get no node at present, whatever nodes there are."""
    message = _available(0, nodes, [reason]) if nodes else NO_NODES
    return f"{message} {post_filter}" if post_filter else message


def failed_preemption(nodes: int, tried: int, reasons: Mapping[str, int]) -> str:
    """That preemption makes room on none of ``nodes`` nodes, for ``preemption_message``.

    It was ``tried`` on some; ``reasons`` counts these by why pods do not fit there even without
    victims. A node may have several reasons.
    """
    untried = {_NOT_HELPFUL: nodes - tried} if tried < nodes else {}
    return _available(0, nodes, _counted({**reasons, **untried}))


def preemption_message(reason: str) -> str:
    """Return DefaultPreemption's message where it does nothing."""
    return f"preemption: {reason}"


def _available(number: int, nodes: int, reasons: Iterable[str]) -> str:
    listed = ", ".join(reasons)
    return f"{number}/{nodes} nodes are available:" + (f" {listed}." if listed else "")


def _counted(reasons: Mapping[str, int]) -> list[str]:
    return sorted(f"{number} {text}" for text, number in reasons.items())
