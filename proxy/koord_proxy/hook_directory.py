"""Watching the directory where hook servers register."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from koord_service.logs import get_log
from watchfiles import awatch

from koord_proxy.rules.registration import Registration, Registrations

log = get_log("koord_proxy.hookservers")

RESCAN_SECONDS = 10
"""How often the directory is read even if nothing was noticed."""
MAX_FILE = 1 << 20
"""Bytes of a registration file; real ones have some hundred."""


class HookDirectory:
    """Reads registrations and tells who is to be asked whenever that changes."""

    def __init__(self, path: str, use: Callable[[list[Registration]], None]) -> None:
        self._path = Path(path)
        self._use = use
        self._registrations = Registrations()
        self._trouble = ""
        self._in_use: list[Registration] | None = None

    def read(self) -> None:
        """Read the directory now, report what changed, and use it."""
        try:
            files = _files(self._path)
            self._trouble = ""
        except OSError as error:
            # Nothing is concluded from a directory that cannot be read.
            trouble = error.strerror or str(error)
            if trouble != self._trouble:
                log.warning("cannot read the directory", path=self._path, error=trouble)
            self._trouble = trouble
            return
        servers, problems, news = self._registrations.update(files)
        for line in problems:
            log.warning(line)
        for line in news:
            log.info(line)
        if servers != self._in_use:
            self._in_use = servers
            self._use(servers)

    async def watch(self) -> None:
        """Read the directory whenever something in it changes, and now and then."""
        while True:
            self._path.mkdir(mode=0o755, parents=True, exist_ok=True)
            self.read()
            watched = _identity(self._path)
            async for _ in awatch(
                self._path,
                watch_filter=None,
                debounce=100,
                step=20,
                rust_timeout=RESCAN_SECONDS * 1000,
                yield_on_timeout=True,
                recursive=False,
                raise_interrupt=False,
            ):
                self.read()
                if _identity(self._path) != watched:
                    # Somebody removed the directory; watch the one there is now.
                    break


def _files(directory: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                try:
                    with open(entry.path, "rb") as file:  # noqa: PTH123
                        found[entry.name.removesuffix(".json")] = file.read(MAX_FILE)
                except OSError as error:
                    log.debug("cannot read", path=entry.path, error=str(error))
    return found


def _identity(directory: Path) -> tuple[int, int]:
    try:
        status = directory.stat()
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino)
