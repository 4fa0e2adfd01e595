"""Calls of a runtime to a plugin: one row a method."""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import Message
from koord_proto import nri_pb2 as pb


class NriMethod(NamedTuple):
    """A method as the wire, the subscription and the handler know it."""

    name: str
    """On the wire."""
    handler: str
    """The handler's method that answers it."""
    event: int
    """Its number in a subscription; 0 comes to every plugin."""
    request: type[Message]
    response: type[Message]


METHODS = (
    NriMethod("Synchronize", "synchronize", 0, pb.SynchronizeRequest, pb.SynchronizeResponse),
    NriMethod(
        "RunPodSandbox",
        "run_pod_sandbox",
        pb.RUN_POD_SANDBOX,
        pb.RunPodSandboxRequest,
        pb.RunPodSandboxResponse,
    ),
    NriMethod(
        "UpdatePodSandbox",
        "update_pod_sandbox",
        pb.UPDATE_POD_SANDBOX,
        pb.UpdatePodSandboxRequest,
        pb.UpdatePodSandboxResponse,
    ),
    NriMethod(
        "PostUpdatePodSandbox",
        "post_update_pod_sandbox",
        pb.POST_UPDATE_POD_SANDBOX,
        pb.PostUpdatePodSandboxRequest,
        pb.PostUpdatePodSandboxResponse,
    ),
    NriMethod(
        "StopPodSandbox",
        "stop_pod_sandbox",
        pb.STOP_POD_SANDBOX,
        pb.StopPodSandboxRequest,
        pb.StopPodSandboxResponse,
    ),
    NriMethod(
        "RemovePodSandbox",
        "remove_pod_sandbox",
        pb.REMOVE_POD_SANDBOX,
        pb.RemovePodSandboxRequest,
        pb.RemovePodSandboxResponse,
    ),
    NriMethod(
        "CreateContainer",
        "create_container",
        pb.CREATE_CONTAINER,
        pb.CreateContainerRequest,
        pb.CreateContainerResponse,
    ),
    NriMethod(
        "PostCreateContainer",
        "post_create_container",
        pb.POST_CREATE_CONTAINER,
        pb.PostCreateContainerRequest,
        pb.PostCreateContainerResponse,
    ),
    NriMethod(
        "StartContainer",
        "start_container",
        pb.START_CONTAINER,
        pb.StartContainerRequest,
        pb.StartContainerResponse,
    ),
    NriMethod(
        "PostStartContainer",
        "post_start_container",
        pb.POST_START_CONTAINER,
        pb.PostStartContainerRequest,
        pb.PostStartContainerResponse,
    ),
    NriMethod(
        "UpdateContainer",
        "update_container",
        pb.UPDATE_CONTAINER,
        pb.UpdateContainerRequest,
        pb.UpdateContainerResponse,
    ),
    NriMethod(
        "PostUpdateContainer",
        "post_update_container",
        pb.POST_UPDATE_CONTAINER,
        pb.PostUpdateContainerRequest,
        pb.PostUpdateContainerResponse,
    ),
    NriMethod(
        "StopContainer",
        "stop_container",
        pb.STOP_CONTAINER,
        pb.StopContainerRequest,
        pb.StopContainerResponse,
    ),
    NriMethod(
        "RemoveContainer",
        "remove_container",
        pb.REMOVE_CONTAINER,
        pb.RemoveContainerRequest,
        pb.RemoveContainerResponse,
    ),
)

BY_NAME = {method.name: method for method in METHODS}
BY_EVENT = {method.event: method for method in METHODS if method.event}

# Nothing in the runtime's first word says which events it knows, and it breaks the
# connection with a plugin that names others.
_NEWER_EVENTS = frozenset({pb.UPDATE_POD_SANDBOX, pb.POST_UPDATE_POD_SANDBOX})
_NEWER_SINCE = {"nri": (0, 10), "containerd": (2, 2), "cri-o": (1, 34)}


def subscription(events: frozenset[int], runtime: pb.ConfigureRequest) -> int:
    """The mask that asks this runtime for these events, as far as it knows them."""
    if not _knows_newer_events(runtime):
        events -= _NEWER_EVENTS
    # No bit at all would be read as all of them; this event is the rarest.
    return sum(1 << (event - 1) for event in events or {pb.REMOVE_POD_SANDBOX})


def _knows_newer_events(runtime: pb.ConfigureRequest) -> bool:
    nri = _version(runtime.NRI_version)
    if nri is not None:
        return nri >= _NEWER_SINCE["nri"]
    known = _version(runtime.runtime_version)
    since = _NEWER_SINCE.get(runtime.runtime_name)
    return known is not None and since is not None and known >= since


def _version(text: str) -> tuple[int, int] | None:
    """Major and minor of "v2.1.4~ds1" and the like."""
    major, _, rest = text.removeprefix("v").partition(".")
    minor = rest.partition(".")[0]
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
