"""Throttling of pods, from the status of a NodeMetric. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec
from koord_kube.views.decode import decode_view

from koord_manager.resize.core.record import ThrottlingReport


class _PykoordExtension(msgspec.Struct):
    throttled: float | None = None


class _Extensions(msgspec.Struct):
    pykoord: _PykoordExtension | None = None


class _PodMetric(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    extensions: _Extensions | None = None


class _Status(msgspec.Struct):
    updated: datetime | None = msgspec.field(default=None, name="updateTime")
    pods: list[_PodMetric] | None = msgspec.field(default=None, name="podsMetric")


_DECODER = msgspec.json.Decoder(_Status)


def reports(status: bytes) -> Iterator[tuple[str, ThrottlingReport]]:
    """Of each pod that has a CPU quota, by namespace/name.

    Raises:
        ValueError: it is not a NodeMetric status.
    """
    found = decode_view(_DECODER, status, "a valid NodeMetric status")
    at = found.updated.timestamp() if found.updated else 0.0
    for pod in found.pods or ():
        ours = pod.extensions.pykoord if pod.extensions else None
        if ours and ours.throttled is not None:
            yield f"{pod.namespace}/{pod.name}", ThrottlingReport(ours.throttled, at)
