"""The cache's log on disk: segments of raw and of coarse batches in a directory.

``raw-0000000012.log`` and ``coarse-0000000013.log`` are numbered as they were begun, mode
0640. A segment is begun each ten minutes (two hours for coarse ones), names all its
series, and is deleted when all in it is too old; earlier if all files together would
exceed their bytes, oldest first of what has most. What is written is in the kernel's
hands at once: it survives the death of the process, but a power cut takes what the kernel
had not written back, some thirty seconds (nothing is synced, for the disk's sake).
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from koordlet.metric_cache.core.records import MAGIC, RecordDecoder, RecordEncoder, SegmentEnd
from koordlet.metric_cache.core.tier import COARSE_SECONDS, RAW_SECONDS, SampleBatch

RETRY_SECONDS = 60.0

_DIRECTORY_MODE = 0o750
_MODE = 0o640
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_NAME = re.compile(r"(raw|coarse)-(\d{10})\.log(\.corrupt)?")
_SIZE_SHARE = 16
"""A segment has at most one part in so many of all bytes."""


@dataclass(slots=True)
class _Segment:
    """A file; times are those of its batches."""

    path: Path
    number: int
    bytes: int
    begun: float | None = None
    end: float | None = None

    def saw(self, at: float) -> None:
        self.begun = at if self.begun is None else self.begun
        self.end = at if self.end is None else max(self.end, at)


@dataclass(slots=True)
class _Stream:
    """The segments of raw or of coarse batches, oldest first; the last may be open."""

    sort: str
    rotate_seconds: float
    keep_seconds: float
    segments: list[_Segment] = field(default_factory=list)
    encoder: RecordEncoder | None = None
    file: int = -1

    @property
    def closed(self) -> list[_Segment]:
        return self.segments if self.encoder is None else self.segments[:-1]

    @property
    def bytes(self) -> int:
        return sum(segment.bytes for segment in tuple(self.segments))

    def shut(self) -> None:
        """Append no more to the last segment."""
        if self.file >= 0:
            os.close(self.file)
        self.file, self.encoder = -1, None


class SegmentLog:
    """Reads the segments of earlier runs once, then appends.

    Never raises for what is wrong with the disk: ``problem`` is that at present, "" if
    nothing. ``on_warning`` hears it when it begins, and of every file that is set aside: it is
    renamed to ``<name>.corrupt``, of which the newest of each sort stays.
    """

    def __init__(
        self,
        path: str,
        max_bytes: int,
        on_warning: Callable[[str], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.problem = ""
        self._path = Path(path)
        self._max_bytes = max_bytes
        self._on_warning = on_warning
        self._monotonic = monotonic
        self._coarse = _Stream("coarse", 7200.0, COARSE_SECONDS + 3600.0)
        self._raw = _Stream("raw", 600.0, RAW_SECONDS + 600.0)
        self._aside: dict[str, _Segment] = {}
        self._directory = -1
        self._next = 1
        self._retry_at = 0.0

    @property
    def disk_bytes(self) -> int:
        """Bytes of all files."""
        aside = sum(segment.bytes for segment in tuple(self._aside.values()))
        return self._coarse.bytes + self._raw.bytes + aside

    def load(self) -> Iterator[SampleBatch]:
        """Read earlier runs' batches: coarse ones, then raw ones, each as written."""
        try:
            self._open()
        except OSError as error:
            self._fail(error)
            return
        for stream in self._streams:
            for segment in list(stream.segments):
                yield from self._read(stream, segment)

    def write(self, batches: Sequence[SampleBatch]) -> None:
        """Append batches, unless the last error is less than a minute old."""
        if self.problem and self._monotonic() < self._retry_at:
            return
        try:
            self._open()
            for stream in self._streams:
                coarse = stream is self._coarse
                if some := [batch for batch in batches if batch.coarse == coarse]:
                    self._append(stream, some)
        except OSError as error:
            self._fail(error)
        else:
            self.problem = ""

    def close(self) -> None:
        """Let go of the directory."""
        for stream in self._streams:
            stream.shut()
        if self._directory >= 0:
            os.close(self._directory)
            self._directory = -1

    @property
    def _streams(self) -> tuple[_Stream, _Stream]:
        return self._coarse, self._raw

    def _open(self) -> None:
        """See that the directory is there, ours alone, and that its files are known."""
        if self._directory >= 0:
            return
        self._path.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        directory = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._list()
        except BlockingIOError:
            os.close(directory)
            raise OSError("in use by another process") from None
        except OSError:
            os.close(directory)
            raise
        self._directory = directory

    def _list(self) -> None:
        self._aside.clear()
        for stream in self._streams:
            stream.segments.clear()
        for path in sorted(self._path.iterdir()):
            name = _NAME.fullmatch(path.name)
            if name is None:
                continue
            self._next = max(self._next, int(name[2]) + 1)
            if not path.is_file():
                continue
            segment = _Segment(path, int(name[2]), path.stat().st_size)
            if name[3]:
                self._set_aside(name[1], segment)
            else:
                (self._coarse if name[1] == "coarse" else self._raw).segments.append(segment)

    def _read(self, stream: _Stream, segment: _Segment) -> Iterator[SampleBatch]:
        decoder = RecordDecoder()
        try:
            if segment.bytes > self._max_bytes:
                decoder.end = SegmentEnd.BAD
            else:
                for batch in decoder.decode(segment.path.read_bytes()):
                    segment.saw(batch.at)
                    yield batch
            self._judge(stream, segment, decoder)
        except OSError as error:
            self._fail(error, segment.path)

    def _judge(self, stream: _Stream, segment: _Segment, decoder: RecordDecoder) -> None:
        """Set a bad segment aside; go on with the newest one where it ended."""
        newest = segment is stream.segments[-1]
        if decoder.end is SegmentEnd.BAD:
            stream.segments.remove(segment)
            path = segment.path.with_name(f"{segment.path.name}.corrupt")
            self._on_warning(
                f"{segment.path}: bad at byte {decoder.good} of {segment.bytes}; "
                f"set aside as {path.name} (what comes before is in use)"
            )
            segment.path.replace(path)
            segment.path = path
            self._set_aside(stream.sort, segment)
        elif newest and decoder.good > len(MAGIC):
            stream.file = os.open(segment.path, _APPEND, _MODE)
            stream.encoder = RecordEncoder(decoder.known)
            os.ftruncate(stream.file, decoder.good)
            segment.bytes = decoder.good

    def _set_aside(self, sort: str, segment: _Segment) -> None:
        """Keep a corrupt file, and no older one of its sort."""
        older = self._aside.get(sort)
        self._aside[sort] = segment
        if older is not None and older.path != segment.path:
            older.path.unlink(missing_ok=True)

    def _append(self, stream: _Stream, batches: Sequence[SampleBatch]) -> None:
        encoder, begins = self._segment_for(stream, batches[0].at)
        data = begins + b"".join(map(encoder.encode, batches))
        segment = stream.segments[-1]
        self._make_room(len(data))
        if stream.file < 0:
            stream.file = os.open(segment.path, _APPEND, _MODE)
        written = os.write(stream.file, data)
        if written < len(data):
            raise OSError(f"only {written} of {len(data)} bytes fit")
        segment.bytes += written
        for batch in batches:
            segment.saw(batch.at)

    def _segment_for(self, stream: _Stream, at: float) -> tuple[RecordEncoder, bytes]:
        """The encoder of the open segment, or of a new one, and what that begins with."""
        if stream.encoder is not None:
            segment = stream.segments[-1]
            begun = at if segment.begun is None else segment.begun
            fresh = begun - stream.rotate_seconds < at < begun + stream.rotate_seconds
            if fresh and segment.bytes < self._max_bytes // _SIZE_SHARE:
                return stream.encoder, b""
            stream.shut()
        self._expire(stream, at)
        path = self._path / f"{stream.sort}-{self._next:010d}.log"
        stream.segments.append(_Segment(path, self._next, 0))
        self._next += 1
        stream.encoder = RecordEncoder()
        return stream.encoder, MAGIC

    def _expire(self, stream: _Stream, at: float) -> None:
        """Delete what is too old, oldest first; what was not read is as old as what comes next."""
        limit = at - stream.keep_seconds
        while stream.segments:
            ends = (segment.end for segment in stream.segments if segment.end is not None)
            if next(ends, limit) >= limit:
                return
            _delete_oldest(stream)

    def _make_room(self, more: int) -> None:
        while self.disk_bytes + more > self._max_bytes:
            if self._aside:
                _, segment = self._aside.popitem()
                segment.path.unlink(missing_ok=True)
                continue
            candidates = [stream for stream in self._streams if stream.closed]
            if not candidates:
                raise OSError(f"{more} bytes more are past tsdb-max-bytes {self._max_bytes}")
            _delete_oldest(max(candidates, key=lambda segment: segment.bytes))

    def _fail(self, error: OSError, path: Path | None = None) -> None:
        """Say what is wrong, and begin new segments when all is well again."""
        for stream in self._streams:
            self._abandon(stream)
        self.close()
        why = f"{path or self._path}: {error.strerror or error} (metrics are kept in memory only)"
        reported, self.problem = self.problem, why
        self._retry_at = self._monotonic() + RETRY_SECONDS
        if reported != why:
            self._on_warning(why)

    def _abandon(self, stream: _Stream) -> None:
        """Leave the open segment as it was before the write that failed."""
        if stream.encoder is None:
            return
        segment = stream.segments[-1]
        try:
            if stream.file >= 0:
                os.ftruncate(stream.file, segment.bytes)
            if not segment.bytes:
                segment.path.unlink(missing_ok=True)
        except OSError:
            pass  # Half a record at the end is cut off when it is read.
        stream.shut()
        if not segment.bytes:
            stream.segments.pop()


def _delete_oldest(stream: _Stream) -> None:
    stream.segments[0].path.unlink(missing_ok=True)
    del stream.segments[0]
