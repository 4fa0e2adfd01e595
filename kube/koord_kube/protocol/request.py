"""One request to an API server, and what its answer means. No IO."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from koord_service.http_targets import with_query

from koord_kube.protocol.api import (
    ApiError,
    ConflictError,
    GoneError,
    InvalidRequestError,
    NotFoundError,
    Object,
    WatchEvent,
)
from koord_kube.protocol.resources import Resource

T = TypeVar("T")

_KINDS = {404: NotFoundError, 409: ConflictError, 410: GoneError}
_OF_ONE = ("PUT", "PATCH", "DELETE")
_MESSAGE_LENGTH = 300  # characters of a server's message that are passed on

MOST_ASKED = 300.0
"""Seconds; a longer Retry-After counts as this."""


class ListMeta(msgspec.Struct):
    """The version of a list; ``more`` is the next request's ``continue``."""

    version: str = msgspec.field(default="", name="resourceVersion")
    more: str = msgspec.field(default="", name="continue")


class ListAnswer(msgspec.Struct):
    """A list, as the API serves it."""

    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class WatchLine(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct):
    message: str = ""
    code: int = 0
    details: dict[str, Any] | None = None

    @property
    def retry_after(self) -> float:
        seconds = (self.details or {}).get("retryAfterSeconds", 0)
        return float(seconds) if isinstance(seconds, int | float) else 0.0

    @property
    def cause(self) -> tuple[str, str]:
        """Reason and message of the first cause."""
        causes = (self.details or {}).get("causes")
        first = causes[0] if isinstance(causes, list) and causes else None
        if not isinstance(first, dict):
            return "", ""
        return str(first.get("reason", "")), str(first.get("message", ""))


_ENCODER = msgspec.json.Encoder()
OBJECT = msgspec.json.Decoder(Object)
ITEMS = msgspec.json.Decoder(ListAnswer)
_EVENT = msgspec.json.Decoder(WatchLine)
_STATUS = msgspec.json.Decoder(_Status)

_USUAL_LINE = re.compile(
    rb'\{"type":"(ADDED|MODIFIED|DELETED|BOOKMARK)","object":(\{.*\})\}', re.DOTALL
).fullmatch
"""API servers write events so: the object need not be parsed to know where it begins and ends."""


class Request(msgspec.Struct, frozen=True):
    """A request; as a string it names its object, for people.

    A PATCH is a JSON merge patch, or ``is_strategic``: built-in kinds merge lists by their keys.
    With ``is_apply`` it is a server-side apply instead; the field manager is in the query.
    What ``is_of_one`` is never about all objects, whatever the name. ``encoded`` is a body that is
    JSON already, in place of ``body``. ``accept`` is the media type of the answer.
    """

    method: str
    resource: Resource
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    is_strategic: bool = False
    is_apply: bool = False
    is_of_one: bool = False
    encoded: bytes = b""
    accept: str = "application/json"

    @property
    def payload(self) -> bytes:
        """The body that is sent; empty for none."""
        if self.encoded or self.body is None:
            return self.encoded
        return _ENCODER.encode(self.body)

    @property
    def path(self) -> str:
        """Path of its object, or of all objects.

        Raises:
            InvalidRequestError: no object can have this name, or it is empty and would mean all.
        """
        try:
            path = self.resource.path(self.name, self.namespace, self.subresource)
        except ValueError as error:
            raise InvalidRequestError(f"{error} (not sent)", 400) from None
        if not self.name and (self.is_of_one or self.method in _OF_ONE):
            raise InvalidRequestError(f"{self}: the name is empty (not sent)", 400)
        return path

    @property
    def target(self) -> str:
        """The path and query that are sent. Raises ``InvalidRequestError`` as ``path`` does."""
        return with_query(self.path, self.query)

    def __repr__(self) -> str:
        return f"Request({self.method} {self})"

    def __str__(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name, self.subresource) if part)
        selected = (self.query.get(selector, "") for selector in ("fieldSelector", "labelSelector"))
        return " ".join(part for part in (self.resource.plural, where, *selected) if part)

    def decode(self, decoder: msgspec.json.Decoder[T], body: bytes) -> T:
        """Decode the body of a good answer.

        Raises:
            ApiError: the body is not valid.
        """
        try:
            return decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ApiError(f"{self}: the answer is not the API's: {error}") from None

    def written_object(self, body: bytes) -> Object:
        """The object as it is after a write.

        Raises:
            ApiError: the write failed. Older API servers report a failed eviction with a 201.
        """
        found = self.decode(OBJECT, body)
        if found.get("kind") == "Status" and found.get("status") == "Failure":
            status = self.decode(_STATUS, body)
            raise self._error(status.code, status)
        return found

    def watch_event(self, line: bytes) -> WatchEvent:
        """Decode one line of a watch; an ERROR event is raised."""
        usual = _USUAL_LINE(line)
        if usual is not None:
            return WatchEvent(usual[1].decode(), usual[2])
        event = self.decode(_EVENT, line)
        if event.type != "ERROR":
            return WatchEvent(event.type, bytes(event.object))
        status = self.decode(_STATUS, bytes(event.object))
        raise self._error(status.code, status)

    def error_from(
        self, status: int, headers: Mapping[str, str], body: bytes, secret: str = ""
    ) -> ApiError:
        """The error of a refused request; ``secret`` is masked if the answer quotes it."""
        try:
            found = _STATUS.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            found = _Status(body.decode(errors="replace"))
        seconds = headers.get("Retry-After", "")
        if seconds.isascii() and seconds.isdigit():
            found.details = (found.details or {}) | {"retryAfterSeconds": float(seconds)}
        if status == 404 and not found.code:
            # A missing object is reported in JSON, a missing kind in plain text.
            group = f"{self.resource.group or 'core'}/{self.resource.version}"
            hint = "is its CRD installed? (koordctl crds install)"
            found.message = f"no such kind in {group}; {hint}"
        return self._error(status, found, secret)

    def _error(self, status: int, found: _Status, secret: str = "") -> ApiError:
        kind = _KINDS.get(status, ApiError)
        cause, more = found.cause
        # Most messages contain the cause, but not that of a refused eviction.
        message = found.message if more in found.message else f"{found.message} ({more})"
        if secret:
            cause, message = cause.replace(secret, "***"), message.replace(secret, "***")
        words = " ".join(message.split())[:_MESSAGE_LENGTH]
        waits = min(max(0.0, found.retry_after), MOST_ASKED)
        return kind(f"{self}: {status} {words}".rstrip(), status, waits, cause)
