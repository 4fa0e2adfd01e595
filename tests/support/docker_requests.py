"""Requests as cri-dockerd 0.3 makes them of dockerd: the method, the target and the body."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import urlencode

from tests.support import docker_bodies as bodies
from tests.support.docker_bodies import CONTAINER, SANDBOX, UID, text

VERSION = "/v1.46"


class Asked(NamedTuple):
    """One request; ``target`` begins with the HTTP method."""

    target: str
    body: bytes = b""


def name(container: str = "POD", pod: str = "life", uid: str = UID, attempt: int = 0) -> str:
    return f"k8s_{container}_{pod}_default_{uid}_{attempt}"


def create(name: str, body: Any) -> Asked:
    query = urlencode({"name": name})
    sent = body if isinstance(body, bytes) else text(body)
    return Asked(f"POST {VERSION}/containers/create?{query}", sent)


def create_sandbox(
    pod: str = "life", uid: str = UID, attempt: int = 0, **labels: str | None
) -> Asked:
    """The container that holds a pod's namespaces; a label that is None is left out."""
    body = bodies.sandbox_create()
    body["Labels"] |= {"io.kubernetes.pod.name": pod, "io.kubernetes.pod.uid": uid}
    _label(body, labels)
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
) -> Asked:
    """A container in a sandbox; ``limits`` are members of its host configuration."""
    body = bodies.container_create()
    body["Labels"] |= {
        "io.kubernetes.container.name": container,
        "io.kubernetes.pod.name": pod,
        "io.kubernetes.pod.uid": uid,
        "io.kubernetes.sandbox.id": sandbox,
    }
    body["HostConfig"] |= {"NetworkMode": f"container:{sandbox}", **limits}
    _label(body, labels or {})
    return create(name(container, pod, uid, attempt), body)


def start(id: str = CONTAINER) -> Asked:  # noqa: A002
    return Asked(f"POST {VERSION}/containers/{id}/start")


def update(id: str = CONTAINER, **limits: int | str) -> Asked:  # noqa: A002
    return Asked(f"POST {VERSION}/containers/{id}/update", text(bodies.update(**limits)))


def stop(id: str = CONTAINER, seconds: int = 10) -> Asked:  # noqa: A002
    return Asked(f"POST {VERSION}/containers/{id}/stop?t={seconds}")


def remove(id: str = CONTAINER) -> Asked:  # noqa: A002
    return Asked(f"DELETE {VERSION}/containers/{id}?force=1&v=1")


def made(id: str) -> bytes:  # noqa: A002
    """Dockerd's answer to a create."""
    return text({"Id": id, "Warnings": []})


def _label(body: dict[str, Any], labels: dict[str, str | None]) -> None:
    for key, value in labels.items():
        if value is None:
            del body["Labels"][key]
        else:
            body["Labels"][key] = value
