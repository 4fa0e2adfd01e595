"""Writes a recording to a file; a failing or slow disk ends the recording, and nothing else."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO

import anyio
from anyio import to_thread
from koord_service.logs import get_log

from koord_scheduler.framework.recording import (
    EndInput,
    RecordedInput,
    RecordingHeader,
    recording_line,
)

MOST_BYTES = 128 << 20
"""Of a file, some 900,000 pods; then the recording ends."""
MOST_UNWRITTEN = 64 << 20
"""Bytes in memory that wait for the disk, before compression; then the recording ends."""
_WRITE_SECONDS = 0.25
_FASTEST = 1
_GZIP = 31

log = get_log("scheduler")


class Recorder:
    """A new file in ``folder``, gzip, that its owner alone may read; torn at its end if killed.

    Recording costs the event loop the encoding; compressing and writing are done in threads.
    """

    def __init__(
        self,
        folder: Path,
        identity: str,
        header: RecordingHeader,
        *,
        most_bytes: int = MOST_BYTES,
        most_unwritten: int = MOST_UNWRITTEN,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = folder / f"{identity}.jsonl.gz"
        self._most_bytes = most_bytes
        self._most_unwritten = most_unwritten
        self._monotonic = monotonic
        self._lines = [recording_line(header)]
        self._unwritten = 0
        self._written = 0
        self.reason = ""
        """Reason for which the recording has ended, "" before."""
        self._compressor = zlib.compressobj(_FASTEST, wbits=_GZIP)

    def record(self, recorded_input: RecordedInput) -> None:
        """Have it written within a second."""
        if self.reason:
            return
        line = recording_line(recorded_input)
        self._lines.append(line)
        self._unwritten += len(line)
        if self._unwritten > self._most_unwritten:
            self.reason = f"the disk is slow: {self._unwritten >> 20} MiB were not written yet"

    async def run(self) -> None:
        """Write until cancelled, or until the recording ends by itself."""
        try:
            with _new_file(self.path) as file:
                log.info("recording", path=str(self.path))
                await self._write_to(file)
        except OSError as error:
            self.reason = f"{self.path}: {error.strerror or error}"
        self._take()
        log.error("the recording has ended", reason=self.reason)

    async def _write_to(self, file: IO[bytes]) -> None:
        try:
            while not self.reason:
                await anyio.sleep(_WRITE_SECONDS)
                await to_thread.run_sync(self._write, file, self._take())
                if self._written >= self._most_bytes:
                    self.reason = f"its file has {self._written} bytes"
        finally:
            self.reason = self.reason or "the scheduler stopped"
            last = recording_line(EndInput(self._monotonic(), self.reason))
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self._write, file, [*self._take(), last], zlib.Z_FINISH)

    def _take(self) -> Sequence[bytes]:
        lines, self._lines, self._unwritten = self._lines, [], 0
        return lines

    def _write(
        self, file: IO[bytes], lines: Sequence[bytes], mode: int = zlib.Z_SYNC_FLUSH
    ) -> None:
        """So that it can be read, even if the program is killed then."""
        text = b"".join(b"%b\n" % line for line in lines)
        packed = self._compressor.compress(text) + self._compressor.flush(mode)
        self._written += len(packed)
        while packed:
            packed = packed[file.write(packed) :]


def _new_file(path: Path) -> IO[bytes]:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0)
