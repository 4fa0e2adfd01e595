"""Record of a resize on its pod, by which a new leader goes on and a harmful one is undone. No IO.

It is written before the resize, as an annotation: ``/resize`` drops changes of metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from koord_model.keys import MEMORY

from koord_manager.resize.core.desired import ResizableResources
from koord_manager.resize.core.pods import ResizePod

ANNOTATION_RECORD = "analysis.koordinator.sh/pykoord-resized"
_Resources = Mapping[str, ResizableResources]


class ResizeRecord(msgspec.Struct, frozen=True):
    """A resize from ``before`` to ``target``, by container; ``at`` is of the epoch."""

    before: dict[str, ResizableResources]
    target: dict[str, ResizableResources]
    at: Annotated[float, msgspec.Meta(ge=0)]


_DECODER = msgspec.json.Decoder(ResizeRecord)


def encode(record: ResizeRecord) -> str:
    """The annotation's value."""
    return msgspec.json.encode(record, order="sorted").decode()


def read(pod: ResizePod) -> ResizeRecord | None:
    """The record that a pod has.

    Raises:
        ValueError: it cannot be read; one line names it.
    """
    text = pod.annotations.get(ANNOTATION_RECORD)
    if not text:
        return None
    try:
        return _DECODER.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise ValueError(f"annotation {ANNOTATION_RECORD}: {error} (not undone)") from None


def unfinished(pod: ResizePod, record: ResizeRecord) -> bool:
    """True if the leader ended between the record and the resize: the pod is still as before."""
    return _of(pod.containers, record.before) == record.before and record.target != record.before


def to_undo(pod: ResizePod, record: ResizeRecord) -> _Resources:
    """Containers that ran out of memory since it was lowered, with what they had before.

    Only where the pod still has what the record says: what others have set since stays.
    """
    return {
        name: before
        for name, before in record.before.items()
        if pod.kills.get(name, -1.0) >= record.at
        and pod.containers.get(name) == record.target.get(name)
        and _lowered(before, record.target[name])
    }


def _lowered(before: ResizableResources, target: ResizableResources) -> bool:
    """True if the limit was lowered; without one the request, by which the node's kernel kills."""
    parts = (before.limits, target.limits), (before.requests, target.requests)
    return any(target.get(MEMORY, 0) < before.get(MEMORY, 0) for before, target in parts)


def _of(present: _Resources, names: _Resources) -> _Resources:
    return {name: present[name] for name in names if name in present}
