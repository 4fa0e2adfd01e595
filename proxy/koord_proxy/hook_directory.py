"""Watching the directory where hook servers register."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from koord_service.logs import get_log

from koord_proxy.rules.registration import Registration, Registrations

log = get_log("koord_proxy.hookservers")

LOOK_SECONDS = 0.5
"""How often it is looked whether anything in the directory has changed."""
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
        self._seen: object = None

    def read(self) -> None:
        """Read the directory now, report what changed, and use it."""
        try:
            if not self._path.is_dir():
                self._path.mkdir(parents=True)
                # Whatever the umask: hook servers need not be root's to look into it.
                self._path.chmod(0o755)
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
        """Read the directory whenever something in it has changed.

        It is looked at twice a second rather than watched: that works on every
        file system, also when the directory is removed and made again, and
        costs less than a thread and a library would.
        """
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        """Read the directory if it is not as it was."""
        seen = _signature(self._path)
        if seen != self._seen:
            self._seen = seen
            self.read()


def _signature(directory: Path) -> object:
    """What changes when a file in the directory does; never equal while it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            status = {entry.name: entry.stat() for entry in entries}
    except OSError:
        return object()
    return {name: (one.st_ino, one.st_mtime_ns, one.st_size) for name, one in status.items()}


def _files(directory: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith(".json") and not entry.name.startswith("."):
                try:
                    # What is no file, a FIFO say, could be read for ever.
                    if not entry.is_file():
                        continue
                    with open(entry.path, "rb") as file:  # noqa: PTH123
                        found[_name(entry)] = file.read(MAX_FILE)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    # Not gone: reported as a file that makes no sense.
                    log.debug("cannot read", path=entry.path, error=str(error))
                    found[_name(entry)] = b""
    return found


def _name(entry: os.DirEntry[str]) -> str:
    """The server's name, as text that metrics and pages can show."""
    return os.fsencode(entry.name.removesuffix(".json")).decode(errors="replace")
