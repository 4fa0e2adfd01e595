"""The CRI methods that are intercepted, one row each.

Their names are used whatever the client speaks: docker's create of a sandbox
container is a RunPodSandbox.
"""

from __future__ import annotations

from dataclasses import dataclass

from koord_hooks.stages import Stage

from koord_proxy.rules.records import RecordKind


@dataclass(frozen=True, slots=True)
class InterceptedMethod:
    """One intercepted method.

    ``makes`` says that a success brings a pod or container into being, ``ends``
    that its record leaves with it.
    """

    name: str
    kind: RecordKind
    pre: Stage | None = None
    post: Stage | None = None
    makes: bool = False
    ends: bool = False


_ROWS = (
    InterceptedMethod("RunPodSandbox", RecordKind.POD, pre=Stage.PRE_RUN_POD_SANDBOX, makes=True),
    InterceptedMethod(
        "StopPodSandbox", RecordKind.POD, post=Stage.POST_STOP_POD_SANDBOX, ends=True
    ),
    InterceptedMethod(
        "RemovePodSandbox", RecordKind.POD, pre=Stage.PRE_REMOVE_POD_SANDBOX, ends=True
    ),
    InterceptedMethod(
        "CreateContainer", RecordKind.CONTAINER, pre=Stage.PRE_CREATE_CONTAINER, makes=True
    ),
    InterceptedMethod(
        "StartContainer",
        RecordKind.CONTAINER,
        pre=Stage.PRE_START_CONTAINER,
        post=Stage.POST_START_CONTAINER,
    ),
    InterceptedMethod(
        "UpdateContainerResources", RecordKind.CONTAINER, pre=Stage.PRE_UPDATE_CONTAINER_RESOURCES
    ),
    InterceptedMethod(
        "StopContainer", RecordKind.CONTAINER, post=Stage.POST_STOP_CONTAINER, ends=True
    ),
    InterceptedMethod("RemoveContainer", RecordKind.CONTAINER, ends=True),
)

METHODS = {row.name: row for row in _ROWS}
"""The methods by name."""
