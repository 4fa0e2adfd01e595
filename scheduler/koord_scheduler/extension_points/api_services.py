"""The API as plugins may use it while this scheduler leads. No IO of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from koord_kube.core.warnings import OnWarning, ignore_warning
from koord_kube.protocol.api import Object
from koord_kube.protocol.request import Request
from koord_kube.protocol.resources import Resource

if TYPE_CHECKING:
    from koord_kube.client import Client
    from koord_kube.pod_evictor import PodEvictor

    from koord_scheduler.framework.decisions import Placement
    from koord_scheduler.framework.scheduler import Scheduler

Write = Callable[[Request], Awaitable[bytes]]


class Controller(Protocol):
    """Objects that this scheduler keeps as they should be while it leads.

    Each ``every`` seconds those that are ``due`` are named, and then reconciled, some at a time.
    ``name`` says in warnings which they are.
    """

    name: str
    every: float

    def due(self) -> Iterable[str]:
        """Return the keys of objects that may not be as they should be."""
        ...

    async def reconcile(self, key: str) -> None:
        """Write what an object lacks.

        Raises:
            ApiError: that failed. It is repeated with growing waits, unless the object has changed
                meanwhile or is gone (409, 404).
        """
        ...


@dataclass(frozen=True)
class ApiServices:
    """The scheduler, and the API in one term of its leadership.

    ``write`` sends a request as soon as bindings leave room for it, ``bind_write`` in its turn
    among those; both raise ApiErrors, and NotLeadingErrors once the term has ended.
    """

    scheduler: Scheduler
    client: Client
    write: Write
    bind_write: Write
    evictor: PodEvictor
    on_warning: OnWarning = ignore_warning

    def reader(self, resource: Resource) -> Callable[[str, str], Awaitable[Object]]:
        """A function that reads an object of a kind by its name and namespace."""

        async def read(name: str, namespace: str) -> Object:
            return await self.client.get(resource, name, namespace)

        return read


class PreBinding:
    """Writes of a plugin before a pod is bound, and their undo; each does nothing of itself.

    ``handles`` are the types of what the plugin reserves, and of its remedies, that it is given.
    """

    handles: tuple[type, ...] = ()

    async def write(self, reserved: Any, placement: Placement) -> str:
        """Write what is reserved; returns why that cannot be, "" once it is done.

        Raises:
            ApiError: the API server refuses it.
        """
        return ""

    async def annotate(self, reserved: Any, placement: Placement) -> PodChanges | str:
        """More annotations and labels of the pod, to be written at once with all others.

        Raises:
            ApiError: the API server refuses something else that has to be written first.
        """
        return NO_CHANGES

    async def take_back(self, reserved: Any, placement: Placement) -> None:
        """Write that the pod has it no more: it was not bound. As far as that works."""

    def release(self, reserved: Any) -> None:
        """Release a pod's assumptions that are in the API by now, or will not be."""

    async def help(self, remedy: Any) -> None:
        """Write what a plugin wants for a pod that fits nowhere."""


@dataclass(frozen=True)
class PodChanges:
    """Annotations and labels for a pod that is about to be bound."""

    annotations: dict[str, str | None]
    labels: dict[str, str]


NO_CHANGES = PodChanges({}, {})
