"""Limits in answers to the kubelet: those that it requested itself.

Since in-place resize the kubelet publishes what the runtime says a container has as
``status.containerStatuses[].resources``, and schedulers count the larger of that and the
specification. Values of hooks would count as requests: those of batch pods, which request no CPU.
"""

from __future__ import annotations

from collections.abc import Callable

from koord_proto import cri_pb2 as cri

from koord_proxy.rules.records import RequestedLimits


def with_requested_limits(
    message: bytes, requested: Callable[[str], RequestedLimits | None]
) -> bytes | None:
    """A ContainerStatusResponse with the limits that the kubelet requested.

    ``None``: hooks changed none. Fields that are not known here stay as they are.

    Raises:
        DecodeError: it is none.
    """
    response = cri.ContainerStatusResponse.FromString(message)
    limits = requested(response.status.id)
    if limits is None or not response.status.resources.HasField("linux"):
        return None
    for name, value in limits._asdict().items():
        setattr(response.status.resources.linux, name, value)
    return response.SerializeToString()
