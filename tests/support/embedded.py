"""The embedded CRI runtime on a thread of its own, so that blocking clients can call it."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from types import TracebackType

from koord_demo.runtime import DemoRuntime, ReceivedCall, serve

from tests.support.processes import PATIENCE

__all__ = ["DemoRuntime", "EmbeddedRuntime", "ReceivedCall", "serve"]


class EmbeddedRuntime:
    """A runtime that serves from ``with`` to its end.

    ``runtime.requests`` are the calls that came; ``runtime.cgroups`` the files.
    """

    def __init__(self, directory: Path, *, cpus: str = "0-7") -> None:
        """Put the socket and the cgroup files into ``directory`` (a short path)."""
        self.address = directory / "runtime.sock"
        self.runtime = DemoRuntime(directory / "cgroup", cpus=cpus)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None

    def __enter__(self) -> EmbeddedRuntime:
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the embedded runtime did not start"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._loop is not None
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(PATIENCE)

    def requests_of(self, method: str) -> list[bytes]:
        """The messages of one method's calls, in order."""
        return [r.data for r in tuple(self.runtime.requests) if r.method == method]

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with serve(self.runtime, self.address):
            self._ready.set()
            await self._stop.wait()
