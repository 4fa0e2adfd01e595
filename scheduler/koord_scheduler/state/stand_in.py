"""Objects that wait for a node as if they were pods. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import Resource

if TYPE_CHECKING:
    from koord_scheduler.state.pod_reader import ClusterPod


class StandIn(Protocol):
    """An object that waits as if it were a pod; it says how what becomes of it is written."""

    @property
    def resource(self) -> Resource:
        """The kind of the object."""
        ...

    @property
    def name(self) -> str:
        """Its name; it has no namespace."""
        ...

    @property
    def uid(self) -> str:
        """Its uid."""
        ...

    def bound(self, node: str, at: float) -> Request:
        """The request that gives it a node; ``at`` is in seconds since the epoch."""
        ...

    def annotated(self, annotations: Mapping[str, str | None]) -> Request:
        """The request that sets annotations before that; ``None`` removes one."""
        ...

    def written(self, document: Mapping[str, Any]) -> StandIn:
        """The object as it is once the API has answered a request."""
        ...

    def unschedulable(self, reason: str, message: str, at: float) -> Request:
        """The request that says why it has no node."""
        ...

    def node_of(self, document: Mapping[str, Any]) -> str:
        """The node that it has in a document of the API, "" for none."""
        ...


class StandIns(Protocol):
    """The place where such objects wait."""

    def set_stand_in(
        self, pod: ClusterPod, changed: Callable[[], object], now: float, *, is_pending: bool
    ) -> None:
        """An object is there, or has changed: one that waits as ``pod`` if it ``is_pending``.

        ``changed`` takes over what else it says, now or once its node is no longer on the way.
        """
        ...

    def remove_stand_in(self, key: str, changed: Callable[[], object]) -> None:
        """It is gone, by the key of its pod."""
        ...


def is_stand_in(key: str) -> bool:
    """Return True if a key is none of a pod: a kind stands where pods have their namespace."""
    return key[:1].isupper()
