"""Where a pod should go by its scheduling hint, which other schedulers leave on it. No IO."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import msgspec
from koord_model.keys import ANNOTATION_OLD_SCHEDULING_HINT, ANNOTATION_SCHEDULING_HINT

from koord_scheduler.objects.metadata import NO_ANNOTATIONS
from koord_scheduler.objects.pod import PodInfo


class PodHint(NamedTuple):
    """The only nodes for a pod, and those to try first, in this order; none: it does not matter.

    ``problem`` says why it cannot be used.
    """

    nodes: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    problem: str = ""


NO_HINT = PodHint()


class _Document(msgspec.Struct, frozen=True, rename="camel"):
    node_names: tuple[str, ...] | None = None
    preferred_node_names: tuple[str, ...] | None = None


_DECODER = msgspec.json.Decoder(_Document | None)


def scheduling_hint(pod: PodInfo) -> PodHint:
    """The hint of a pod; one that is empty counts as none."""
    annotations = pod.metadata.annotations or NO_ANNOTATIONS
    if annotations.scheduling_hint:
        return _read(ANNOTATION_SCHEDULING_HINT, annotations.scheduling_hint)
    if annotations.old_scheduling_hint:
        return _read(ANNOTATION_OLD_SCHEDULING_HINT, annotations.old_scheduling_hint)
    return NO_HINT


@lru_cache(1024)
def _read(key: str, text: str) -> PodHint:
    try:
        found = _DECODER.decode(text) or _Document()
    except msgspec.MsgspecError as error:
        return PodHint(problem=f"annotation {key} is no scheduling hint: {error}")
    return PodHint(found.node_names or (), found.preferred_node_names or ())
