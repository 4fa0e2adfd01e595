"""Writes resizes: their record first, then the pod's resources by ``/resize``."""

from __future__ import annotations

from collections.abc import Callable

from koord_kube.core.events import reference
from koord_kube.event_recorder import EventRecorder
from koord_kube.protocol.api import Api, ApiError, NotFoundError, Object
from koord_kube.protocol.resources import PODS
from koord_model.json_objects import inside

from koord_manager.resize.core import decisions, documents, floors, record
from koord_manager.resize.core.decisions import PodDecision, ResizeAction
from koord_manager.resize.core.floors import ANNOTATION_FLOORS
from koord_manager.resize.core.pods import ANNOTATION_RECORD
from koord_manager.resize.core.record import ResizeRecord, ThrottlingReport
from koord_manager.resize.core.sources import ResizeSource

_SUBRESOURCE = "resize"
_REFUSALS = (400, 403, 404, 422)
_NO_SUBRESOURCE = "the API server has no pods/resize, which came with Kubernetes 1.33"


class RefusedResizeError(Exception):
    """The API server will not resize this pod so; one line says why."""


class ResizeWriter:
    """``api`` must write only while this manager leads."""

    def __init__(self, api: Api, recorder: EventRecorder, clock: Callable[[], float]) -> None:
        self._api = api
        self._recorder = recorder
        self._clock = clock

    async def resize(self, document: Object, done: PodDecision, report: ThrottlingReport) -> None:
        """Resize the pod, read as ``document``.

        Raises:
            ConflictError: it has changed meanwhile.
            RefusedResizeError: the API server will never do that.
        """
        after = {name: done.resources.get(name, had) for name, had in done.before.items()}
        made = ResizeRecord(dict(done.before), after, self._clock(), report.throttled)
        change = {"metadata": {"annotations": {ANNOTATION_RECORD: record.encode(made)}}}
        meta = document["metadata"]
        # One annotation alone, and only on what was looked at: the answer has the next version.
        document = await self._api.patch(
            PODS, meta["name"], change, meta["namespace"], version=meta["resourceVersion"]
        )
        await self._write(document, done)

    async def undo(self, document: Object, undone: PodDecision, source: ResizeSource) -> None:
        """Undo a resize, after it has been written down that it did harm; raises as ``resize``."""
        owner = await self._api.get(source.resource, source.name, source.namespace)
        known = floors.read(inside(owner, "metadata", "annotations").get(ANNOTATION_FLOORS, ""))
        held = floors.with_undone(known, decisions.undone(undone), self._clock())
        await self._api.patch(
            source.resource,
            source.name,
            {"metadata": {"annotations": {ANNOTATION_FLOORS: floors.encode(held)}}},
            source.namespace,
            version=owner["metadata"]["resourceVersion"],
        )
        await self._write(document, undone)
        line = f"pod {undone.pod.key}: {undone}"
        self._recorder.record(source.reference, "ResizeUndone", line, warning=True)

    async def _write(self, document: Object, decision: PodDecision) -> None:
        pod = decision.pod
        body = documents.with_resources(document, decision.resources)
        try:
            await self._api.replace(PODS, pod.name, body, pod.namespace, _SUBRESOURCE)
        except ApiError as error:
            if error.status not in _REFUSALS:
                raise
            reason = str(error)
            if isinstance(error, NotFoundError):
                await self._api.get(PODS, pod.name, pod.namespace)  # else the pod is gone
                reason = _NO_SUBRESOURCE
            self._report(decision, "ResizeRefused", f"{decision}: {reason}", warning=True)
            raise RefusedResizeError(reason) from None
        if decision.action is ResizeAction.UNDO:
            self._report(decision, "ResizeUndone", str(decision), warning=True)
        else:
            self._report(decision, "Resized", str(decision), warning=False)

    def _report(self, decision: PodDecision, reason: str, line: str, *, warning: bool) -> None:
        pod = decision.pod
        about = reference(PODS, pod.name, pod.namespace, pod.uid)
        self._recorder.record(about, reason, line, warning=warning)
