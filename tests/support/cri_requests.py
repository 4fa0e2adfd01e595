"""Requests as a kubelet makes them of a CRI runtime (see ``runtime_requests``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord_proto import cri_pb2 as cri
from koord_proxy.cri.calls import MESSAGES, CriApi

from tests.support.docker_bodies import CONTAINER, PARENT_PATH, SANDBOX, UID
from tests.support.runtime_requests import RuntimeRequest, SentRequest

SERVICE = "/runtime.v1.RuntimeService"
OTHER = RuntimeRequest(f"{SERVICE}/ListContainers")
"""One that is only relayed."""


def api(_: object) -> CriApi:
    return CriApi()


def call(method: str, request: Any) -> RuntimeRequest:
    return RuntimeRequest(f"{SERVICE}/{method}", request.SerializeToString())


def create_sandbox(
    *, labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None
) -> RuntimeRequest:
    config = {
        "metadata": {"name": "life", "namespace": "default", "uid": UID},
        "labels": {"koordinator.sh/qosClass": "BE", **(labels or {})},
        "annotations": annotations or {},
        "linux": {"cgroup_parent": PARENT_PATH},
    }
    request = cri.RunPodSandboxRequest(config=config, runtime_handler="runc")
    return call("RunPodSandbox", request)


def create_container() -> RuntimeRequest:
    config = {
        "metadata": {"name": "main"},
        "envs": [{"key": "A", "value": b"1"}],
        "annotations": {"c": "1"},
        "linux": {"resources": {"cpu_shares": 2, "cpu_quota": 50_000, "cpuset_cpus": "0-3"}},
    }
    pod = cri.RunPodSandboxRequest.FromString(create_sandbox().body).config
    request = cri.CreateContainerRequest(pod_sandbox_id=SANDBOX, config=config, sandbox_config=pod)
    return call("CreateContainer", request)


def start() -> RuntimeRequest:
    return call("StartContainer", cri.ContainerIdRequest(container_id=CONTAINER))


def update(**linux: Any) -> RuntimeRequest:
    request = cri.UpdateContainerResourcesRequest(container_id=CONTAINER, linux=linux)
    return call("UpdateContainerResources", request)


def stop(id: str = CONTAINER) -> RuntimeRequest:  # noqa: A002
    return _about("Stop", id)


def remove(id: str = CONTAINER) -> RuntimeRequest:  # noqa: A002
    return _about("Remove", id)


def made(id: str) -> bytes:  # noqa: A002
    """The response to a create."""
    if id == SANDBOX:
        return cri.RunPodSandboxResponse(pod_sandbox_id=id).SerializeToString()
    return cri.CreateContainerResponse(container_id=id).SerializeToString()


def unreadable() -> RuntimeRequest:
    """A create that cannot be decoded."""
    return RuntimeRequest(f"{SERVICE}/CreateContainer", b"\xff\xff")


def read(request: RuntimeRequest, message: bytes) -> SentRequest:
    whole: Any = MESSAGES[request.target.rpartition("/")[2]].request.FromString(message)
    if isinstance(whole, cri.UpdateContainerResourcesRequest):
        limits = whole.linux
        return SentRequest(
            {}, whole.annotations, "", {}, limits.cpu_shares, limits.cpu_quota, whole
        )
    config = whole.config
    limits = config.linux.resources
    is_pod = isinstance(whole, cri.RunPodSandboxRequest)
    return SentRequest(
        config.labels if is_pod else {},
        config.annotations,
        config.linux.cgroup_parent if is_pod else whole.sandbox_config.linux.cgroup_parent,
        {} if is_pod else {one.key: one.value.decode() for one in config.envs},
        limits.cpu_shares,
        limits.cpu_quota,
        whole,
    )


def _about(verb: str, id: str) -> RuntimeRequest:  # noqa: A002
    if id == SANDBOX:
        return call(f"{verb}PodSandbox", cri.PodSandboxIdRequest(pod_sandbox_id=id))
    return call(f"{verb}Container", cri.ContainerIdRequest(container_id=id))
