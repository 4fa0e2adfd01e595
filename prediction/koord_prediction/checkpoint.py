"""A model as bytes, in Koordinator's own JSON: either side reads what the other wrote.

Weights are whole numbers, the heaviest bucket's being 10000; what rounds to 0 is left
out. Times are RFC 3339.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated

import msgspec
import numpy as np

from koord_prediction.histogram import EPSILON, Floats

_HEAVIEST = 10000
_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class LearntHistogram:
    """One histogram: weights by bucket, decaying from ``reference`` (seconds since the epoch)."""

    reference: float
    weights: Floats


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model; ``updated`` is when it got its last sample, seconds since the epoch."""

    uid: str
    cpu: LearntHistogram
    memory: LearntHistogram
    updated: float


_Weight = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]


class _Histogram(msgspec.Struct, rename="camel"):
    reference_timestamp: datetime | None = None
    bucket_weights: dict[int, _Weight] = {}
    total_weight: Annotated[float, msgspec.Meta(ge=0)] = 0.0


class _File(msgspec.Struct):
    uid: str = msgspec.field(name="UID", default="")
    cpu: _Histogram | None = msgspec.field(name="CPU", default=None)
    memory: _Histogram | None = msgspec.field(name="Memory", default=None)
    updated: datetime | None = msgspec.field(name="LastUpdated", default=None)


_DECODER = msgspec.json.Decoder(_File)


def encode(checkpoint: Checkpoint) -> bytes:
    """The file's bytes, one line."""
    file = _File(
        checkpoint.uid,
        _histogram(checkpoint.cpu),
        _histogram(checkpoint.memory),
        _date(checkpoint.updated),
    )
    return msgspec.json.encode(file) + b"\n"


def decode(content: bytes, cpu_buckets: int, memory_buckets: int) -> Checkpoint:
    """The model in a file.

    Raises:
        ValueError: it is no checkpoint, or one of other buckets; the message says what.
    """
    try:
        file = _DECODER.decode(content)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"no checkpoint: {error}") from None
    return Checkpoint(
        file.uid,
        _learnt("CPU", file.cpu, cpu_buckets),
        _learnt("Memory", file.memory, memory_buckets),
        _seconds(file.updated) if file.updated else 0.0,
    )


def _histogram(learnt: LearntHistogram) -> _Histogram:
    heaviest = float(learnt.weights.max(initial=0.0))
    if heaviest < EPSILON:
        return _Histogram(_date(learnt.reference))
    scaled = np.floor(learnt.weights * (_HEAVIEST / heaviest) + 0.5).astype(int)
    weights = {int(bucket): int(scaled[bucket]) for bucket in np.flatnonzero(scaled)}
    return _Histogram(_date(learnt.reference), weights, float(learnt.weights.sum()))


def _learnt(name: str, given: _Histogram | None, buckets: int) -> LearntHistogram:
    weights = np.zeros(buckets)
    if given is None:
        return LearntHistogram(0.0, weights)
    for bucket, weight in given.bucket_weights.items():
        if not 0 <= bucket < buckets:
            raise ValueError(f"{name} has bucket {bucket}; expected 0 to {buckets - 1}")
        weights[bucket] = weight
    if weights.any():
        weights *= given.total_weight / weights.sum()
    reference = given.reference_timestamp
    return LearntHistogram(_seconds(reference) if reference else 0.0, weights)


def _date(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)


def _seconds(date: datetime) -> float:
    """A time without zone counts as UTC."""
    whole = date if date.tzinfo else date.replace(tzinfo=UTC)
    return (whole - _EPOCH).total_seconds()
