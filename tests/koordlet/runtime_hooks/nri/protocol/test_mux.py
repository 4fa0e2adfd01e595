"""Pieces of two connections on one socket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koordlet.runtime_hooks.nri.protocol import mux
from koordlet.runtime_hooks.nri.protocol.ttrpc import MAX_MESSAGE, REQUEST, TtrpcError, pack

from tests.support.nri_runtime import StrictReader

sizes = st.one_of(st.integers(0, 200), st.integers(4000, 4200), st.integers(0, 70_000))


@given(
    st.lists(st.tuples(st.sampled_from([mux.PLUGIN, mux.RUNTIME]), sizes), max_size=6),
    st.integers(50, 20_000),
)
def test_frames_fit_the_other_sides_buffers_wherever_they_are_cut(frames, step):
    sent = [(connection, 1, REQUEST, bytes(size)) for connection, size in frames]
    data = b"".join(mux.pack(c, pack(s, kind, payload)) for c, s, kind, payload in sent)
    reader = StrictReader()
    parts = (data[start : start + step] for start in range(0, len(data), step))
    assert [frame for part in parts for frame in reader.feed(part)] == sent


@given(
    st.lists(st.tuples(st.integers(0, 1 << 31), st.binary(max_size=200)), max_size=8),
    st.integers(1, 100),
)
def test_pieces_come_whole_wherever_they_are_cut(pieces, step):
    data = b"".join(mux.HEADER.pack(number, len(piece)) + piece for number, piece in pieces)
    demultiplexer = mux.MuxReader()
    got = []
    for start in range(0, len(data), step):
        got += demultiplexer.receive(data[start : start + step])
    assert got == pieces


def test_numbers_are_those_of_nri():
    assert mux.pack(mux.PLUGIN, b"ab") == bytes([0, 0, 0, 1, 0, 0, 0, 2]) + b"ab"
    assert mux.pack(mux.RUNTIME, b"a") == bytes([0, 0, 0, 2, 0, 0, 0, 1]) + b"a"


def test_the_largest_frame_is_two_pieces():
    frame = bytes(mux.MAX_PIECE)
    pieces = list(mux.MuxReader().receive(mux.pack(1, frame)))
    assert [len(piece) for _, piece in pieces] == [4096, mux.MAX_PIECE - 4096]


def test_piece_that_is_too_large_is_an_error():
    header = mux.HEADER.pack(1, MAX_MESSAGE + 11)
    with pytest.raises(TtrpcError, match=r"a piece of 4194315 bytes; at most 4194314"):
        list(mux.MuxReader().receive(header))
