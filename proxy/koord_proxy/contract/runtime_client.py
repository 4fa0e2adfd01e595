"""The proxy's own calls to a runtime: its pods and containers, and their settings."""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple, Protocol, Self

from koord_proxy.rules.records import RuntimeRecord


class RuntimeCallError(Exception):
    """A call to the runtime failed; the message is one line."""


class RuntimeNotFoundError(RuntimeCallError):
    """The runtime has nothing of that id."""


class NotKubernetesError(Exception):
    """It does not belong to Kubernetes: hooks are not called for it."""


class RuntimeListItem(NamedTuple):
    """A pod sandbox or container in the runtime's list.

    ``identity`` is what it was expected as (``rules.records``); ``live`` says that it
    may still run; ``sandbox`` is a container's pod.
    """

    id: str
    identity: str
    live: bool
    sandbox: str = ""


class RuntimeClient(Protocol):
    """A connection to a runtime; every call may raise ``RuntimeCallError``."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    async def ping(self) -> None:
        """Have it answer anything at all."""

    async def pods(self) -> list[RuntimeListItem]:
        """All pod sandboxes."""

    async def containers(self) -> list[RuntimeListItem]:
        """All containers of pods."""

    async def pod(self, id: str) -> RuntimeRecord:  # noqa: A002
        """The record of a pod sandbox.

        Raises:
            RuntimeNotFoundError: there is nothing of that id.
            NotKubernetesError: it is not a pod sandbox.
        """

    async def container(self, id: str) -> RuntimeRecord:  # noqa: A002
        """The record of a container, its pod known by its names only.

        Raises:
            RuntimeNotFoundError: there is nothing of that id.
            NotKubernetesError: it is not in a pod.
        """

    async def update(self, id: str, message: bytes) -> None:  # noqa: A002
        """Update a container's limits; the request is one that clients make, in bytes."""
