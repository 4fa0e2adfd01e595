"""The moments in a pod's life at which hooks are asked."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    """Hook types, spelled as Koordinator's registration files spell them."""

    PRE_RUN_POD_SANDBOX = "PreRunPodSandbox"
    POST_STOP_POD_SANDBOX = "PostStopPodSandbox"
    PRE_REMOVE_POD_SANDBOX = "PreRemoveRunPodSandbox"
    PRE_CREATE_CONTAINER = "PreCreateContainer"
    PRE_START_CONTAINER = "PreStartContainer"
    POST_START_CONTAINER = "PostStartContainer"
    PRE_UPDATE_CONTAINER_RESOURCES = "PreUpdateContainerResources"
    POST_STOP_CONTAINER = "PostStopContainer"


POD_STAGES = frozenset(
    {Stage.PRE_RUN_POD_SANDBOX, Stage.POST_STOP_POD_SANDBOX, Stage.PRE_REMOVE_POD_SANDBOX}
)
"""Stages about a whole pod; the others are about one container."""

POST_STAGES = frozenset(
    {Stage.POST_STOP_POD_SANDBOX, Stage.POST_START_CONTAINER, Stage.POST_STOP_CONTAINER}
)
"""Stages after the call they are about: nothing is left to change or refuse."""


class ReconcileSubject(StrEnum):
    """Subject of periodic reconciliation, besides running pods and containers.

    No call of the runtime is about these, so that only the node agent asks.
    """

    KUBE_QOS = "KubeQoS"
    HOST_APPLICATION = "HostApplication"
    NODE = "Node"


SERVICE = "runtime.v1alpha1.RuntimeHookService"
"""The gRPC service of hook servers."""


def rpc_path(stage: Stage) -> str:
    """The gRPC path at which a hook server is asked about a stage."""
    return f"/{SERVICE}/{stage.value}Hook"
