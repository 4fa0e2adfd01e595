"""What the proxy asks of a runtime itself: what there is, and what it was made with."""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple, Protocol, Self

from koord_proxy.rules.records import Record


class RuntimeCallError(Exception):
    """The runtime did not answer as hoped; the message is one line."""


class NotKubernetesError(Exception):
    """It is nothing of Kubernetes': hooks have no business with it."""


class Listed(NamedTuple):
    """A pod sandbox or container in the runtime's list.

    ``identity`` is what it was expected as (``rules.records``); ``live`` says that it
    may still run; ``sandbox`` is a container's pod.
    """

    id: str
    identity: str
    live: bool
    sandbox: str = ""


class Runtime(Protocol):
    """A connection to a runtime; every call may raise ``RuntimeCallError``."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    async def pods(self) -> list[Listed]:
        """All pod sandboxes."""

    async def containers(self) -> list[Listed]:
        """All containers of pods."""

    async def pod(self, id: str) -> Record:  # noqa: A002
        """The record of a pod sandbox.

        Raises:
            NotKubernetesError: it is none.
        """

    async def container(self, id: str) -> Record:  # noqa: A002
        """The record of a container, its pod known by its names only.

        Raises:
            NotKubernetesError: it is in no pod.
        """
