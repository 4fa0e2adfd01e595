"""The requests to the Kubernetes API; ``client`` sends them to a real server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from koord_kube.protocol.resources import Resource
from koord_kube.protocol.selectors import EVERYTHING, ApiSelector

Object = dict[str, Any]
"""An object's JSON, decoded."""

PAGE = 500
"""Objects in one page of a list; what kubectl and client-go ask for."""

_OBJECT = msgspec.json.Decoder(Object)
_INITIAL_END = b"k8s.io/initial-events-end"


class ApiError(Exception):
    """The API refused or was not there; the message is one line with resource and name.

    ``status`` is the HTTP status, 0 where there was no answer. ``retry_after`` is what
    the server asked for in seconds, 0 if it did not. ``cause`` is its word for
    why ("DisruptionBudget"), "" where it gave none.
    """

    def __init__(
        self, message: str, status: int = 0, retry_after: float = 0.0, cause: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
        self.cause = cause

    @property
    def is_outage(self) -> bool:
        """No answer, or one that says that the server is failing, whatever was asked."""
        return self.status == 0 or self.status >= 500


class NotFoundError(ApiError):
    """404: no such object, or no such resource (its CRD is not installed)."""


class ConflictError(ApiError):
    """409: it was changed by another client, or exists already."""


class GoneError(ApiError):
    """410: the resource version is too old; list again."""


class InvalidRequestError(ApiError):
    """The request was not sent: there can be no object of such a name, or label of such a value.

    ``status`` is 400, as the API server would answer it.
    """


class NotLeadingError(ApiError):
    """The request was not sent: only the leader writes, and this program does not lead."""

    @property
    def is_outage(self) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch: ADDED, MODIFIED, DELETED, or BOOKMARK with its version alone.

    ``raw`` is the object's JSON as it came: who follows many objects decodes of it no more
    than what it uses.
    """

    type: str
    raw: bytes

    @property
    def object(self) -> Object:
        """The whole object, decoded at each call."""
        return _OBJECT.decode(self.raw)

    @property
    def ends_list(self) -> bool:
        """True if a watch that begins with all objects has sent all of them."""
        return self.type == "BOOKMARK" and _INITIAL_END in self.raw and _ends_list(self.raw)


class _MarkMeta(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Mark(msgspec.Struct):
    metadata: _MarkMeta


_MARK = msgspec.json.Decoder(_Mark)


def _ends_list(raw: bytes) -> bool:
    try:
        annotations = _MARK.decode(raw).metadata.annotations or {}
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False
    return annotations.get(_INITIAL_END.decode()) == "true"


@dataclass(frozen=True, slots=True)
class ListPage:
    """A part of a list: each object's JSON as received, and the version of the list.

    With ``first`` the list begins. It may begin again, and then what came before is void.
    Objects of built-in kinds have no ``kind`` and ``apiVersion`` of their own here.
    """

    items: list[bytes]
    version: str
    first: bool


class Api(Protocol):
    """The API server.

    Every method raises ``ApiError`` for what does not succeed; none retries by itself,
    except that after a 401 the token is read again and the request repeated once.
    """

    async def get(
        self, resource: Resource, name: str, namespace: str = "", subresource: str = ""
    ) -> Object:
        """One object, or its ``subresource`` ("scale")."""
        ...

    def pages(
        self,
        resource: Resource,
        namespace: str = "",
        field_selector: ApiSelector = EVERYTHING,
        label_selector: ApiSelector = EVERYTHING,
        *,
        version: str = "",
        limit: int = PAGE,
    ) -> AsyncGenerator[ListPage, None]:
        """All objects, ``limit`` in a page; one may watch from the version that the pages have.

        They are in the newest state there is, or in one that is not older than ``version``,
        "0" any: that costs the server no question to etcd. Where it has forgotten that state
        before its last page, the list begins again: see ``ListPage.first``.

        Raises:
            GoneError: that happens over and over.
        """
        ...

    def watch(
        self,
        resource: Resource,
        version: str,
        namespace: str = "",
        field_selector: ApiSelector = EVERYTHING,
        label_selector: ApiSelector = EVERYTHING,
        *,
        listing: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Changes since a resource version, until the server ends the watch.

        A BOOKMARK at that version comes first: the watch is open. When ``listing`` all objects
        come first, as ADDED, in a state not older than ``version``, "" the newest, and after
        them one that ``ends_list``. Not all servers can: some answer 422, some 500.

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
        """A new object; with ``name`` and ``subresource`` one below another ("eviction").

        Of a review (``TOKEN_REVIEWS``) what comes back has the answer as its status.
        """
        ...

    async def patch(
        self,
        resource: Resource,
        name: str,
        change: Mapping[str, Any],
        namespace: str = "",
        subresource: str = "",
        *,
        version: str = "",
    ) -> Object:
        """A JSON merge patch; with ``subresource="status"`` of the status alone.

        With ``version`` only if the object still is at that resource version.

        Raises:
            ConflictError: it is not.
        """
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

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        version: str = "",
    ) -> None:
        """Delete an object; with ``uid`` and ``version`` only if it still is that one.

        Raises:
            ConflictError: it is another one, or has changed.
            NotFoundError: it is not there.
        """
        ...
