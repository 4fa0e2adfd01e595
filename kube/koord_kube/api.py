"""What can be asked of the Kubernetes API; ``client`` asks a real one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from koord_kube.resources import Resource

Object = dict[str, Any]
"""An object's JSON."""


class ApiError(Exception):
    """The API refused or was not there; the message is one line with resource and name.

    ``status`` is the HTTP status, 0 where there was no answer. ``retry_after`` is what
    the server asked for in seconds, 0 where it asked for nothing. ``cause`` is its word for
    why ("DisruptionBudget"), "" where it gave none.
    """

    def __init__(
        self, message: str, status: int = 0, retry_after: float = 0.0, cause: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.cause = cause


class NotFoundError(ApiError):
    """404: no such object, or no such resource (its CRD is not installed)."""


class ConflictError(ApiError):
    """409: somebody else changed it, or it is there already."""


class GoneError(ApiError):
    """410: the resource version is too old; list again."""


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a watch: ADDED, MODIFIED, DELETED, or BOOKMARK with its version alone."""

    type: str
    object: Object


class Api(Protocol):
    """The API server.

    Every method raises ``ApiError`` for what does not succeed; none retries by itself,
    but that a 401 is asked once more with the token read anew.
    """

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Object:
        """One object."""
        ...

    async def list(
        self, resource: Resource, namespace: str = "", field_selector: str = ""
    ) -> tuple[list[Object], str]:
        """All objects, and the resource version to watch from."""
        ...

    def watch(
        self, resource: Resource, version: str, namespace: str = "", field_selector: str = ""
    ) -> AsyncGenerator[Change, None]:
        """Changes since a resource version, until the server ends the watch.

        A BOOKMARK at that version comes first: the watch is open.

        Raises:
            GoneError: the version is too old.
        """
        ...

    async def create(
        self,
        resource: Resource,
        given: Object,
        namespace: str = "",
        name: str = "",
        subresource: str = "",
    ) -> Object:
        """A new object; with ``name`` and ``subresource`` one below another ("eviction")."""
        ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        change: Mapping[str, Any],
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """A JSON merge patch; with ``subresource="status"`` of the status alone."""
        ...

    async def replace(
        self,
        resource: Resource,
        name: str,
        given: Object,
        namespace: str = "",
        subresource: str = "",
    ) -> Object:
        """The whole object, with the resource version it was read at."""
        ...
