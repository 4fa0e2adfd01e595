"""Record of a resize on its pod, by which a new leader goes on and a harmful one is undone. No IO.

It is written before the resize, as an annotation: ``/resize`` drops changes of metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Annotated, NamedTuple

import msgspec
from koord_model.demand import Amounts
from koord_model.keys import CPU, MEMORY

from koord_manager.resize.core.desired import LIMITS, ResizableResources
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


class ResizeHarm(NamedTuple):
    """Harm to a container, in a line, and the resources that it wants back."""

    reason: str
    resources: frozenset[str]


_RESOURCES = frozenset({CPU, MEMORY})
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


def harm(pod: ResizePod, record: ResizeRecord, report: ThrottlingReport) -> dict[str, ResizeHarm]:
    """Harm that containers came to since their resources were lowered, by container.

    Only where the pod still has what the record says: what others have set since stays.
    """
    found: dict[str, ResizeHarm] = {}
    for name, before in record.before.items():
        target = record.target.get(name)
        if target is None or target == before or pod.containers.get(name) != target:
            continue
        done = _failure(pod, name, record) or _throttling(record, name, report)
        if done is not None:
            found[name] = done
    return found


def lowered(before: ResizableResources, target: ResizableResources) -> Amounts:
    """Requests and limits before, where either was lowered."""
    names = {
        name
        for name, request in before.requests.items()
        if target.requests.get(name, request) < request
        or target.limits.get(name, 0) < before.limits.get(name, 0)
    }
    limits = {LIMITS + name: before.limits[name] for name in names & before.limits.keys()}
    return {name: before.requests[name] for name in names} | limits


def restored(record: ResizeRecord, name: str, resources: Set[str]) -> ResizableResources:
    """The container with these resources as before, and the others as they are."""
    before, target = record.before[name], record.target[name]
    return ResizableResources(
        {**target.requests, **{resource: before.requests[resource] for resource in resources}},
        {
            **target.limits,
            **{resource: before.limits[resource] for resource in resources & before.limits.keys()},
        },
    )


def _failure(pod: ResizePod, name: str, record: ResizeRecord) -> ResizeHarm | None:
    less = frozenset(lowered(record.before[name], record.target[name])) & _RESOURCES
    for failure in pod.failures:
        seconds = failure.at - record.at
        if failure.container != name or seconds < 0:
            continue
        if failure.ran_out_of_memory and MEMORY in less:
            line = f"{name} ran out of memory{_later(record, seconds)}"
            return ResizeHarm(line, frozenset({MEMORY}))
        # A container that a resize restarts by its policy fails with that, but not by it.
        restarted = any((name, resource) in pod.restarts for resource in (CPU, MEMORY))
        if record.at and less and seconds <= _FAILURE_SECONDS and not restarted:
            return ResizeHarm(f"{name} failed{_later(record, seconds)}", less)
    return None


def _throttling(record: ResizeRecord, name: str, report: ThrottlingReport) -> ResizeHarm | None:
    since = report.at - record.at
    now, before = (
        resources[name].limits.get(CPU, 0) for resources in (record.target, record.before)
    )
    if now >= before or not record.at or not _SETTLE_SECONDS <= since <= _THROTTLED_SECONDS:
        return None
    if report.throttled - record.throttled < THROTTLED_MORE:
        return None
    percents = f"{100 * report.throttled:.0f} % of CPU periods"
    line = f"{name} is throttled in {percents}, and was in {100 * record.throttled:.0f} %"
    return ResizeHarm(line, frozenset({CPU}))


def _later(record: ResizeRecord, seconds: float) -> str:
    if not record.at:
        return ", and was created with less than its owner asked for"
    return f" {seconds:.0f} s after it got less"
