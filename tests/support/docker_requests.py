"""Requests as cri-dockerd 0.3 makes them of dockerd: the method, the target and the body."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from koord_proxy.docker.calls import DockerApi

from tests.support import docker_bodies as bodies
from tests.support.docker_bodies import CONTAINER, SANDBOX, UID, text
from tests.support.runtime_requests import RuntimeRequest, SentRequest

VERSION = "/v1.46"
OTHER = RuntimeRequest(f"GET {VERSION}/containers/json?all=1")
"""One that is only relayed."""

api = DockerApi


def name(container: str = "POD", pod: str = "life", uid: str = UID, attempt: int = 0) -> str:
    return f"k8s_{container}_{pod}_default_{uid}_{attempt}"


def create(name: str, body: Any) -> RuntimeRequest:
    query = urlencode({"name": name})
    sent = body if isinstance(body, bytes) else text(body)
    return RuntimeRequest(f"POST {VERSION}/containers/create?{query}", sent)


def create_sandbox(
    pod: str = "life",
    uid: str = UID,
    attempt: int = 0,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> RuntimeRequest:
    """The container that holds a pod's namespaces."""
    body = bodies.sandbox_create()
    own = {"io.kubernetes.pod.name": pod, "io.kubernetes.pod.uid": uid}
    noted = {f"annotation.{key}": value for key, value in (annotations or {}).items()}
    body["Labels"] |= {**own, **(labels or {}), **noted}
    return create(name("POD", pod, uid, attempt), body)


def create_container(
    container: str = "main",
    sandbox: str = SANDBOX,
    pod: str = "life",
    uid: str = UID,
    attempt: int = 0,
    *,
    labels: dict[str, str | None] | None = None,
    **limits: int | str,
) -> RuntimeRequest:
    """A container in a sandbox; ``limits`` are members of its host configuration.

    A label that is None is left out.
    """
    body = bodies.container_create()
    body["Labels"] |= {
        "io.kubernetes.container.name": container,
        "io.kubernetes.pod.name": pod,
        "io.kubernetes.pod.uid": uid,
        "io.kubernetes.sandbox.id": sandbox,
    }
    body["HostConfig"] |= {"NetworkMode": f"container:{sandbox}", **limits}
    body["Labels"] |= labels or {}
    body["Labels"] = {key: value for key, value in body["Labels"].items() if value is not None}
    return create(name(container, pod, uid, attempt), body)


def start(id: str = CONTAINER) -> RuntimeRequest:  # noqa: A002
    return RuntimeRequest(f"POST {VERSION}/containers/{id}/start")


def update(id: str = CONTAINER, cpu_quota: int = 0, **limits: int | str) -> RuntimeRequest:  # noqa: A002
    limits.setdefault("CpuQuota", cpu_quota)
    return RuntimeRequest(f"POST {VERSION}/containers/{id}/update", text(bodies.update(**limits)))


def stop(id: str = CONTAINER, seconds: int = 10) -> RuntimeRequest:  # noqa: A002
    return RuntimeRequest(f"POST {VERSION}/containers/{id}/stop?t={seconds}")


def remove(id: str = CONTAINER) -> RuntimeRequest:  # noqa: A002
    return RuntimeRequest(f"DELETE {VERSION}/containers/{id}?force=1&v=1")


def made(id: str) -> bytes:  # noqa: A002
    """Dockerd's answer to a create."""
    return text({"Id": id, "Warnings": []})


def unreadable() -> RuntimeRequest:
    """A create of Kubernetes' that cannot be decoded."""
    return create(name("main"), b'{"Image": "busybox"')


def read(_: RuntimeRequest, body: bytes) -> SentRequest:
    whole = json.loads(body)
    prefix = "annotation."
    labels = whole.get("Labels") or {}
    limits = whole.get("HostConfig", whole)
    return SentRequest(
        {key: value for key, value in labels.items() if not key.startswith(prefix)},
        {key.removeprefix(prefix): labels[key] for key in labels if key.startswith(prefix)},
        f"/{limits['CgroupParent']}",
        dict(one.split("=", 1) for one in whole.get("Env") or ()),
        limits["CpuShares"],
        limits["CpuQuota"],
        whole,
    )
