"""A question of the API server before it keeps an object, and the answer (admission v1). No IO."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

Object = dict[str, Any]
"""An object's JSON."""


class AdmissionOperation(StrEnum):
    """The operation on the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """The question; ``object`` is empty on DELETE, ``old`` on CREATE. They must not be changed.

    ``resource`` is the plural ("pods"), ``subresource`` "" or a word ("status").
    """

    uid: str
    operation: AdmissionOperation
    resource: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    object: Object = field(default_factory=dict)
    old: Object = field(default_factory=dict)
    user: str = ""
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class AdmissionResponse:
    """The answer.

    ``refusal`` is one line for people, "" where it is admitted. ``object`` is the object as it
    should be, ``None`` where nothing of it changes. ``warnings`` are shown by kubectl.
    """

    refusal: str = ""
    code: int = 403
    object: Object | None = None
    warnings: tuple[str, ...] = ()


ADMITTED = AdmissionResponse()

V = TypeVar("V")

Webhook = Callable[[AdmissionRequest, V], AdmissionResponse | Awaitable[AdmissionResponse]]
"""Answers, given a program's view of the cluster; raises nothing for whatever an object says.

One that has to ask somebody else answers by a coroutine.
"""
