"""Record of a resize on its pod, by which a new leader goes on and a harmful one is undone. No IO.

It is written before the resize, as an annotation: ``/resize`` drops changes of metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from koord_model.demand import Amounts
from koord_model.keys import CPU, MEMORY

from koord_manager.resize.core.desired import ResizableResources
from koord_manager.resize.core.pods import ANNOTATION_RECORD, ResizePod

Resources = Mapping[str, ResizableResources]
"""By container."""

THROTTLED_MORE = 0.25
"""Periods of CPU quotas with throttling, of all periods, that may come with a resize."""
_SETTLE_SECONDS = 180.0
"""Before reports are of the time after a resize alone."""
_FAILURE_SECONDS, _THROTTLED_SECONDS = 3600.0, 86400.0
"""So long after a resize are other failures than for memory, and throttling, due to it."""


class ResizeRecord(msgspec.Struct, frozen=True):
    """A resize from ``before`` to ``target``, by container; ``at`` is of the epoch.

    It is 0 of a pod that was created with ``target``. ``throttled`` is the part of CPU periods in
    which the pod was throttled before.
    """

    before: dict[str, ResizableResources]
    target: dict[str, ResizableResources]
    at: Annotated[float, msgspec.Meta(ge=0)]
    throttled: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0


class ThrottlingReport(msgspec.Struct, frozen=True):
    """Part of its CPU periods in which a pod was throttled, as reported ``at``, of the epoch."""

    throttled: float = 0.0
    at: float = 0.0


NO_REPORT = ThrottlingReport()
_DECODER = msgspec.json.Decoder(ResizeRecord)


def encode(record: ResizeRecord) -> str:
    """The annotation's value."""
    return msgspec.json.encode(record, order="sorted").decode()


def read(pod: ResizePod) -> ResizeRecord | None:
    """The record that a pod has.

    Raises:
        ValueError: it cannot be read; one line names it.
    """
    if not pod.record:
        return None
    try:
        return _DECODER.decode(pod.record)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"annotation {ANNOTATION_RECORD}: {error} (not undone)") from None


def is_recent(pod: ResizePod, now: float) -> bool:
    """True if throttling of the pod would be due to its last resize."""
    try:
        known = read(pod)
    except ValueError:
        return False
    return known is not None and now - known.at <= _THROTTLED_SECONDS


def is_unfinished(pod: ResizePod, record: ResizeRecord) -> bool:
    """True if the leader ended between the record and the resize: the pod is still as before."""
    present = {name: pod.containers.get(name) for name in record.before}
    return present == record.before and record.target != record.before


def harm(pod: ResizePod, record: ResizeRecord, report: ThrottlingReport) -> dict[str, str]:
    """Harm that containers came to since their resources were lowered, by container.

    Only where the pod still has what the record says: what others have set since stays.
    """
    found: dict[str, str] = {}
    for name, before in record.before.items():
        target = record.target.get(name)
        if target is None or target == before or pod.containers.get(name) != target:
            continue
        reason = _failure(pod, name, record, target) or _throttling(record, name, report)
        if reason:
            found[name] = reason
    return found


def lowered(before: ResizableResources, target: ResizableResources) -> Amounts:
    """Requests before of what was lowered, request or limit."""
    return {
        name: request
        for name, request in before.requests.items()
        if target.requests.get(name, request) < request
        or target.limits.get(name, 0) < before.limits.get(name, 0)
    }


def _failure(pod: ResizePod, name: str, record: ResizeRecord, target: ResizableResources) -> str:
    less = lowered(record.before[name], target)
    for failure in pod.failures:
        seconds = failure.at - record.at
        if failure.container != name or seconds < 0:
            continue
        if failure.ran_out_of_memory and MEMORY in less:
            return f"{name} ran out of memory{_later(record, seconds)}"
        # A container that a resize restarts by its policy fails with that, but not by it.
        restarted = any((name, resource) in pod.restarts for resource in (CPU, MEMORY))
        if record.at and less and seconds <= _FAILURE_SECONDS and not restarted:
            return f"{name} failed{_later(record, seconds)}"
    return ""


def _throttling(record: ResizeRecord, name: str, report: ThrottlingReport) -> str:
    since = report.at - record.at
    cpu_limits = (one[name].limits.get(CPU, 0) for one in (record.target, record.before))
    if next(cpu_limits) >= next(cpu_limits) or not record.at:
        return ""
    if not _SETTLE_SECONDS <= since <= _THROTTLED_SECONDS:
        return ""
    if report.throttled - record.throttled < THROTTLED_MORE:
        return ""
    percents = f"{100 * report.throttled:.0f} % of CPU periods"
    return f"{name} is throttled in {percents}, and was in {100 * record.throttled:.0f} %"


def _later(record: ResizeRecord, seconds: float) -> str:
    return (
        f" {seconds:.0f} s after it got less" if record.at else ", with less than its owner gave it"
    )
