"""Answers of the Docker Engine API: what was made, what there is, and what it is like."""

from __future__ import annotations

import msgspec

from koord_proxy.docker.bodies import ContainerBody
from koord_proxy.docker.json_objects import JsonObject, parsed
from koord_proxy.docker.naming import SANDBOX_LABEL, Name, kind_of, parse_name
from koord_proxy.rules.records import RecordKind, RuntimeRecord, container_identity, pod_identity

_LIVE = ("created", "running", "paused", "restarting")


def id_of_created(response: bytes) -> str:
    """The id that the answer to a create has; empty if it cannot be read."""
    try:
        return JsonObject(response, "the answer").text("Id")
    except ValueError:
        return ""


def inspected(body: bytes) -> RuntimeRecord | None:
    """The record of an inspected container; None if it is nothing of Kubernetes'.

    Its environment has the image's variables as well, its runtime is never empty.

    Raises:
        ValueError: it cannot be read.
    """
    root = JsonObject(body, "the inspected container")
    container = ContainerBody.read(
        root.text("Name"), root.object("Config"), root.object("HostConfig")
    )
    if container is None:
        return None
    id = root.text("Id")  # noqa: A001
    if container.kind is RecordKind.POD:
        return RuntimeRecord(RecordKind.POD, id, container.pod_hook_request())
    hook_request = container.container_hook_request(None)
    hook_request.container_meta.id = id
    return RuntimeRecord(RecordKind.CONTAINER, id, hook_request, container.sandbox)


class ContainerListEntry(msgspec.Struct, rename="pascal"):
    """One entry of docker's list of containers."""

    id: str
    names: list[str] | None = None
    labels: dict[str, str] | None = None
    state: str = ""

    @property
    def kind(self) -> RecordKind | None:
        """Pod or container; None if it is not of Kubernetes."""
        return kind_of(self.labels or {}) if self._name else None

    @property
    def sandbox(self) -> str:
        """The sandbox of a container."""
        return (
            (self.labels or {}).get(SANDBOX_LABEL, "") if self.kind is RecordKind.CONTAINER else ""
        )

    @property
    def identity(self) -> str:
        """Identity under which the record was expected; empty if it is not of Kubernetes."""
        name = self._name
        if name is None or self.kind is None:
            return ""
        if self.kind is RecordKind.POD:
            return pod_identity(name.uid, name.attempt)
        return container_identity(self.sandbox, name.container, name.attempt)

    @property
    def live(self) -> bool:
        """True if it runs, or may yet."""
        return self.state in _LIVE

    @property
    def _name(self) -> Name | None:
        # One that is linked to has several.
        return next(filter(None, map(parse_name, self.names or ())), None)


def listed(body: bytes) -> list[ContainerListEntry]:
    """All of Kubernetes' in docker's list of containers.

    Raises:
        ValueError: it cannot be read.
    """
    entries = parsed(body, list[ContainerListEntry], "cannot decode the list of containers")
    return [entry for entry in entries if entry.kind is not None]
