"""A new pod with what is recommended for its workload, where the mode is ``initial``. No IO."""

from __future__ import annotations

from koord_model.json_objects import Object

from koord_manager.resize.core import documents, record
from koord_manager.resize.core.decisions import ResizeAction, initial
from koord_manager.resize.core.pods import read
from koord_manager.resize.core.record import ResizeRecord
from koord_manager.resize.core.view import ResizeView


def mutated(given: Object, namespace: str, view: ResizeView, warnings: list[str]) -> Object:
    """The pod with recommended resources, and a record of those that it came with.

    Raises:
        ValueError: it is not a pod.
    """
    pod = read(given)
    source = view.resize_sources.of(pod, namespace)
    if source is None:
        return given
    decision = initial(pod, source, view.wall())
    if not decision.resources:
        return given
    if decision.action is ResizeAction.SHADOW:
        warnings.append(f"{source} in shadow mode would set {decision.changes}")
    if decision.action is not ResizeAction.RESIZE:
        return given
    # It cannot have failed before it was created.
    made = ResizeRecord(dict(decision.before), dict(decision.resources), at=0.0)
    return documents.with_record(
        documents.with_resources(given, decision.resources), record.encode(made)
    )
