"""Writes what became of an object, if that has changed."""

from __future__ import annotations

from koord_kube.client import Client
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import Resource


async def write_status(api: Client, resource: Resource, document: Object, status: Object) -> Object:
    """Change fields of a status, ``None`` removes one; returns the object after it.

    Raises:
        ConflictError: the object has changed since it was read.
    """
    old, meta = document.get("status") or {}, document["metadata"]
    if all(old.get(name) == value for name, value in status.items()):
        return document
    version = meta["resourceVersion"]
    return await api.patch(
        resource, meta["name"], {"status": status}, subresource="status", version=version
    )
