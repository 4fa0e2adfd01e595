"""The form of the cache's log: batches to bytes and back. No IO.

A segment is a magic number and records; each stands for itself only with those before it
in the same segment. A record is

    length of the body, its complement, CRC-32 of the body (little-endian, 4 bytes each)
    body: one byte says which of

- N, names: series that have no number yet, as JSON; they are numbered from 0.
- G, group: the numbers (uint32) of the series that some batches have; groups are counted.
- V, values: step, whether coarse, group, time and the batch's float32 numbers.
- C, clock: by how many seconds the wall clock is ahead of the times from here on; 0 at first.

So a batch costs its numbers and some thirty bytes, as long as its series stay the same.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

import msgspec
import numpy as np

from koordlet.metric_cache.core.samples import Series
from koordlet.metric_cache.core.tier import SampleBatch

MAGIC = b"KOORDMC1"
NAMES = 8192
"""Number of series that are remembered while a segment is written."""
GROUPS = 64
"""Number of groups that are known at a time; both sides forget all when the next one comes."""

_HEAD = struct.Struct("<III")
_VALUES = struct.Struct("<cIBId")
_CLOCK = struct.Struct("<cd")
_NAMES, _GROUP, _BATCH, _AHEAD = b"N", b"G", b"V", b"C"
_FLOAT = np.dtype("<f4")
_NUMBER = np.dtype("<u4")
_FIELDS = {False: 1, True: 4}

_encode_names = msgspec.json.Encoder().encode
_decode_names = msgspec.json.Decoder(list[tuple[str, tuple[str, ...]]]).decode


class BadRecordError(ValueError):
    """A record does not say what records say."""


class SegmentEnd(Enum):
    """End of a segment."""

    WHOLE = "with a whole record"
    TORN = "within a record, as when the writer was killed"
    BAD = "with what nobody wrote"


@dataclass(slots=True)
class SegmentState:
    """State after the records of a segment so far."""

    names: list[Series]
    groups: dict[int, list[Series]]
    counted: int = 0
    ahead: float = 0.0

    @classmethod
    def nothing(cls) -> SegmentState:
        return cls([], {})

    def group(self, series: list[Series]) -> None:
        """Count a group."""
        if len(self.groups) == GROUPS:
            self.groups.clear()
        self.groups[self.counted] = series
        self.counted += 1


class RecordEncoder:
    """Batches to records, for a new segment or one that was read.

    It remembers no more than ``NAMES`` series, since most may be gone: one that comes again gets
    another number.
    """

    def __init__(self, known: SegmentState | None = None) -> None:
        known = known or SegmentState.nothing()
        # By their hashes, of 64 bits and other ones in each run: names of the dead cost memory.
        self._numbers = {hash(name): number for number, name in enumerate(known.names)}
        self._named = len(known.names)
        self._valid = set(known.groups)
        self._counted = known.counted
        self._ahead = known.ahead
        self._groups: dict[bytes, int] = {}

    def encode(self, batch: SampleBatch) -> bytes:
        """The records that a batch takes."""
        number = self._groups.get(batch.key)
        before = b""
        if number is None or number not in self._valid:
            before, number = self._group(batch)
        if batch.ahead != self._ahead:
            self._ahead = batch.ahead
            before += _record(_CLOCK.pack(_AHEAD, batch.ahead))
        head = _VALUES.pack(_BATCH, batch.step, batch.coarse, number, batch.at)
        return before + _record(head + batch.numbers.astype(_FLOAT, copy=False).tobytes())

    def _group(self, batch: SampleBatch) -> tuple[bytes, int]:
        if len(self._numbers) > NAMES:
            self._numbers.clear()
        fresh = [
            fromkey for fromkey in dict.fromkeys(batch.series) if hash(fromkey) not in self._numbers
        ]
        for name in fresh:
            self._numbers[hash(name)] = self._named
            self._named += 1
        named = _record(_NAMES + _encode_names(fresh)) if fresh else b""
        numbers = np.array([self._numbers[hash(name)] for name in batch.series], _NUMBER)
        if len(self._valid) == GROUPS:
            self._valid.clear()
            self._groups.clear()
        number, self._counted = self._counted, self._counted + 1
        self._valid.add(number)
        self._groups[batch.key] = number
        return named + _record(_GROUP + numbers.tobytes()), number


class RecordDecoder:
    """Records to batches. ``good`` is how many bytes were read; ``end`` how they end."""

    def __init__(self) -> None:
        self.known = SegmentState.nothing()
        self.good = 0
        self.end = SegmentEnd.WHOLE

    def decode(self, data: bytes) -> Iterator[SampleBatch]:
        """The batches of a segment, up to where it is torn or bad."""
        if not data.startswith(MAGIC):
            self.end = SegmentEnd.TORN if MAGIC.startswith(data) else SegmentEnd.BAD
            return
        self.good = len(MAGIC)
        while self.good < len(data):
            body = self._body(data)
            if body is None:
                return
            try:
                batch = self._take(body)
            except (BadRecordError, msgspec.MsgspecError, struct.error, ValueError):
                self.end = SegmentEnd.BAD
                return
            self.good += _HEAD.size + len(body)
            if batch is not None:
                yield batch

    def _body(self, data: bytes) -> bytes | None:
        start = self.good + _HEAD.size
        if start > len(data):
            self.end = SegmentEnd.TORN
            return None
        length, complement, crc = _HEAD.unpack_from(data, self.good)
        if length ^ complement != 0xFFFFFFFF:
            # After a power cut a file may end with zeros that were never written.
            zeros = not data[self.good :].strip(b"\0")
            self.end = SegmentEnd.TORN if zeros else SegmentEnd.BAD
            return None
        body = data[start : start + length]
        if len(body) < length:
            self.end = SegmentEnd.TORN
            return None
        if zlib.crc32(body) != crc:
            self.end = SegmentEnd.BAD
            return None
        return body

    def _take(self, body: bytes) -> SampleBatch | None:
        sort = body[:1]
        if sort == _NAMES:
            for kind, labels in _decode_names(body[1:]):
                self.known.names.append(Series(kind, labels))
            return None
        if sort == _GROUP:
            self.known.group([self._named(name) for name in np.frombuffer(body[1:], _NUMBER)])
            return None
        if sort == _AHEAD:
            _, self.known.ahead = _CLOCK.unpack(body)
            return None
        if sort != _BATCH:
            raise BadRecordError(f"a record of sort {sort!r}")
        return self._batch(body)

    def _named(self, number: int) -> Series:
        if number >= len(self.known.names):
            raise BadRecordError(f"series {number} has no name")
        return self.known.names[number]

    def _batch(self, body: bytes) -> SampleBatch:
        _, step, coarse, number, at = _VALUES.unpack_from(body)
        series = self.known.groups.get(number)
        fields = _FIELDS.get(coarse)
        if series is None or fields is None:
            raise BadRecordError(f"no group {number}")
        numbers = np.frombuffer(body, _FLOAT, offset=_VALUES.size)
        if len(numbers) != len(series) * fields:
            raise BadRecordError(f"{len(numbers)} numbers of {len(series)} series")
        key = number.to_bytes(4, "little")
        rows = numbers.reshape(-1, fields)
        return SampleBatch(step, bool(coarse), at, series, key, rows, self.known.ahead)


def _record(body: bytes) -> bytes:
    return _HEAD.pack(len(body), len(body) ^ 0xFFFFFFFF, zlib.crc32(body)) + body
