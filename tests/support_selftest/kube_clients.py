"""The asyncio client of Kubernetes, as anybody uses it, at the double of the API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kubernetes.aio import client
from kubernetes.aio.client.exceptions import ApiException

from tests.support.kube_api import KubeApi

__all__ = ["ApiException", "connected", "node", "pod"]


@asynccontextmanager
async def connected(api: KubeApi, token: str = "") -> AsyncIterator[client.ApiClient]:
    """A client of the double, with this bearer token."""
    settings = client.Configuration(host=api.url)
    if token:
        settings.api_key = {"BearerToken": f"Bearer {token}"}
    async with client.ApiClient(settings) as made:
        yield made


def node(name: str, **labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def pod(name: str = "p", **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], **more.pop("spec", {})}
    meta = {"name": name, **more}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
