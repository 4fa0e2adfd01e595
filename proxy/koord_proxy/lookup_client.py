"""One connection to the runtime for look-ups that come in numbers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack

from koord_proxy.contract.runtime_client import (
    RuntimeCallError,
    RuntimeClient,
    RuntimeNotFoundError,
)
from koord_proxy.rules.records import RuntimeRecord


class LookupClient:
    """Connects at the first look-up, and again after one that failed.

    A gRPC channel of its own for each update of a container costs more than the update.
    """

    def __init__(self, connect: Callable[[], RuntimeClient]) -> None:
        self._connect = connect
        self._stack = AsyncExitStack()
        self._client: RuntimeClient | None = None

    async def container(self, id: str) -> RuntimeRecord:  # noqa: A002
        """The record of a container.

        Raises:
            RuntimeCallError: the runtime does not answer so.
            NotKubernetesError: it is not in a pod.
        """
        if self._client is None:
            self._client = await self._stack.enter_async_context(self._connect())
        client = self._client
        try:
            return await client.container(id)
        except RuntimeNotFoundError:
            raise
        except RuntimeCallError:
            if self._client is client:
                await self.close()
            raise

    async def close(self) -> None:
        """End the connection."""
        stack, self._stack, self._client = self._stack, AsyncExitStack(), None
        await stack.aclose()
