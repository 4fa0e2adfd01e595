"""The log's records: what was written, or nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.metric_cache.core.records import (
    GROUPS,
    MAGIC,
    RecordDecoder,
    RecordEncoder,
    SegmentEnd,
)
from koordlet.metric_cache.core.samples import Series
from koordlet.metric_cache.core.tier import SampleBatch

names = st.builds(
    Series, st.just("pod_cpu_usage"), st.tuples(st.text(st.characters(codec="utf-8"), max_size=9))
)


@st.composite
def batches(draw: st.DrawFn) -> SampleBatch:
    series = draw(st.lists(names, min_size=1, max_size=5, unique=True))
    coarse = draw(st.booleans())
    size = len(series) * (4 if coarse else 1)
    numbers = draw(st.lists(st.floats(width=32), min_size=size, max_size=size))
    return SampleBatch(
        draw(st.sampled_from((1, 10))),
        coarse,
        draw(st.floats(0, 1e12)),
        series,
        repr(series).encode(),
        np.array(numbers, np.float32).reshape(len(series), -1),
        draw(st.sampled_from((0.0, 86400.0))),
    )


def segment(written: list[SampleBatch]) -> bytes:
    encoder = RecordEncoder()
    return MAGIC + b"".join(map(encoder.encode, written))


def reported(batch: SampleBatch) -> tuple[object, ...]:
    return (
        batch.step,
        batch.coarse,
        batch.at,
        list(batch.series),
        batch.numbers.tobytes(),
        batch.ahead,
    )


def read(data: bytes) -> tuple[list[tuple[object, ...]], RecordDecoder]:
    decoder = RecordDecoder()
    return [reported(batch) for batch in decoder.decode(data)], decoder


@given(st.lists(batches(), max_size=8))
def test_what_was_written_is_read(written):
    data = segment(written)
    found, decoder = read(data)
    assert found == list(map(reported, written))
    assert (decoder.end, decoder.good) == (SegmentEnd.WHOLE, len(data))


@given(st.lists(batches(), min_size=1, max_size=4), st.data())
def test_a_torn_end_costs_the_last_batch_only(written, data):
    before = segment(written[:-1])
    whole = segment(written)
    cut = data.draw(st.integers(len(before) + 1, len(whole) - 1))
    found, decoder = read(whole[:cut])
    assert found == list(map(reported, written[:-1]))
    assert decoder.end in (SegmentEnd.TORN, SegmentEnd.WHOLE)
    assert len(before) <= decoder.good <= cut


@pytest.mark.parametrize("length", range(len(MAGIC)))
def test_a_file_that_was_hardly_begun_is_torn(length):
    assert read(MAGIC[:length])[1].end is SegmentEnd.TORN


def test_zeros_at_the_end_are_torn():
    batch = SampleBatch(
        1, False, 1.0, [Series("node_cpu_usage")], b"k", np.ones((1, 1), np.float32)
    )
    found, decoder = read(segment([batch]) + bytes(5000))
    assert len(found) == 1
    assert decoder.end is SegmentEnd.TORN


@given(st.lists(batches(), min_size=1, max_size=4), st.data())
def test_flipped_bits_never_say_what_was_not_written(written, data):
    whole = bytearray(segment(written))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=3)):
        whole[place] ^= data.draw(st.integers(1, 255))
    found, _ = read(bytes(whole))
    assert found == list(map(reported, written))[: len(found)]


@given(st.binary(max_size=300))
def test_garbage_says_nothing(data):
    found, decoder = read(MAGIC + data)
    assert found == []
    assert data == b"" or decoder.end is not SegmentEnd.WHOLE


def test_unchanged_series_cost_their_numbers():
    series = [Series("pod_cpu_usage", (f"pod-{number}",)) for number in range(1000)]
    batch = SampleBatch(1, False, 1.0, series, b"same", np.ones((1000, 1), np.float32))
    encoder = RecordEncoder()
    assert len(encoder.encode(batch)) > 8000
    assert len(encoder.encode(replace(batch, at=2.0))) <= 4000 + 32


def test_both_sides_forget_groups_alike():
    def batch(number: int) -> SampleBatch:
        series = [Series("pod_cpu_usage", (str(one),)) for one in (number, number + 1)]
        return SampleBatch(1, False, number, series, b"%d" % number, np.ones((2, 1), np.float32))

    written = [batch(number % (GROUPS + 3)) for number in range(5 * GROUPS)]
    written += [batch(0), batch(1), batch(0)]
    assert read(segment(written))[0] == list(map(reported, written))


def test_a_segment_is_gone_on_with():
    written = [
        SampleBatch(
            1, False, at, [Series("pod_cpu_usage", (name,))], name.encode(), np.ones((1, 1))
        )
        for at, name in ((1.0, "a"), (2.0, "b"), (3.0, "a"), (4.0, "c"))
    ]
    written = [replace(one, numbers=one.numbers.astype(np.float32)) for one in written]
    first = segment(written[:2])
    decoder = RecordDecoder()
    assert len(list(decoder.decode(first))) == 2
    encoder = RecordEncoder(decoder.known)
    assert read(first + b"".join(map(encoder.encode, written[2:])))[0] == list(
        map(reported, written)
    )
