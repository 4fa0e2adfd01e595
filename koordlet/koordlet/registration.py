"""How koordlet makes itself known to the CRI proxy: one JSON file.

The proxy watches the directory and reads every name that ends in ``json``. The
file is therefore written under another name, and renamed when it is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from koord_hooks.stages import Stage

FILE_NAME = "koordlet.json"
_HALF_WRITTEN = f".{FILE_NAME}.part"


def registration_text(
    endpoint: str, failure_policy: str, stages: Iterable[Stage], timeout: float = 0.0
) -> str:
    """The registration file's content; ``timeout`` is in seconds, 0 leaves it out.

    Koordinator's proxy knows no ``timeout`` and passes over it.
    """
    content: dict[str, object] = {
        "remote-endpoint": endpoint,
        "failure-policy": failure_policy,
        "runtime-hooks": [stage.value for stage in stages],
    }
    if timeout:
        content["timeout"] = timeout
    return json.dumps(content, indent=2) + "\n"


class Registration:
    """Our file in the proxy's directory."""

    def __init__(self, directory: str, text: str) -> None:
        self.path = Path(directory) / FILE_NAME
        self._text = text
        self._written: tuple[int, int, int] | None = None

    @property
    def in_place(self) -> bool:
        """Whether the file was written and not taken away since, by us."""
        return self._written is not None

    def write(self) -> None:
        """Put the file in place, whole or not at all; a missing directory is made.

        Raises:
            OSError: the directory cannot be written; the message names it.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            half = self.path.with_name(_HALF_WRITTEN)
            half.unlink(missing_ok=True)
            self._write_whole(half)
            written = _identity(half)
            half.replace(self.path)
        except OSError as error:
            directory = str(self.path.parent)
            raise OSError(error.errno, f"cannot register: {error.strerror}", directory) from None
        self._written = written

    def _write_whole(self, path: Path) -> None:
        with path.open("x", encoding="utf-8") as file:
            file.write(self._text)
            file.flush()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())

    def remove(self) -> None:
        """Take the file away, unless somebody else has put theirs in its place.

        Raises:
            OSError: the directory cannot be written.
        """
        written, self._written = self._written, None
        try:
            if written is not None and _identity(self.path) == written:
                self.path.unlink()
        except FileNotFoundError:
            # Somebody was faster; there is nothing left to take away.
            return


def _identity(path: Path) -> tuple[int, int, int]:
    """What tells one file from another of the same name: inodes alone are used again."""
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_mtime_ns
