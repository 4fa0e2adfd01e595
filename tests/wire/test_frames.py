from __future__ import annotations

import pytest
from koord_wire import frames
from koord_wire.frames import FrameBuffer, ProtocolError

from tests.support import frames as rfc
from tests.support.frames import FrameFactory

FACTORY = FrameFactory()


@pytest.mark.parametrize(
    ("write", "given", "expected"),
    [
        (frames.window_update, (7, 2**31 - 1), FACTORY.credit(7, 2**31 - 1)),
        (frames.rst_stream, (2**31 - 1, frames.CANCEL), FACTORY.reset(2**31 - 1)),
        (frames.goaway, (5, 11, "calm"), FACTORY.goaway(5, 11, b"calm")),
        (frames.goaway, (0, 0, "ü"), FACTORY.goaway(0, 0, "ü".encode())),
        (frames.frame, (frames.SETTINGS, 0, 0), frames.EMPTY_SETTINGS),
        (frames.frame, (frames.SETTINGS, 0, 0), FACTORY.settings()),
        (frames.frame, (0xEE, 0xFF, 1, bytes(70_000)), rfc.frame(0xEE, 0xFF, 1, bytes(70_000))),
    ],
)
def test_writes(write, given, expected):
    assert write(*given) == expected


def test_numbers_are_those_of_the_rfc():
    for name in rfc.KINDS:
        assert getattr(frames, name) == rfc.KINDS.index(name)
    assert frames.PREFACE == rfc.PREFACE
    for name in ("PADDED", "PRIORITISED", "END_HEADERS", "END_STREAM", "ACK", "MAX_FRAME_SIZE"):
        assert getattr(frames, name) == getattr(rfc, name)


def test_number_leaves_the_reserved_bit_out():
    assert frames.number(b"..\xff\xff\xff\xfe..", 2) == 2**31 - 2


class TestSettings:
    @pytest.mark.parametrize(
        ("payload", "expected"),
        [
            (b"", {}),
            (bytes.fromhex("000400000001"), {4: 1}),
            (bytes.fromhex("0004ffffffffbeef00000000"), {4: 2**32 - 1, 0xBEEF: 0}),
            (bytes.fromhex("000400000001000400000002"), {4: 2}),
        ],
    )
    def test_are_read(self, payload, expected):
        assert frames.settings(payload) == expected

    @pytest.mark.parametrize("size", [1, 5, 7, 11])
    def test_cut_short(self, size):
        with pytest.raises(ProtocolError, match=f"SETTINGS of {size} bytes") as caught:
            frames.settings(bytes(size))
        assert caught.value.code == frames.FRAME_SIZE_ERROR


class TestContent:
    @pytest.mark.parametrize("padding", [None, 0, 1, 255])
    @pytest.mark.parametrize("data", [b"", b"data"])
    @pytest.mark.parametrize("where", [0, 13])
    def test_of_data_is_without_padding(self, padding, data, where):
        frame = FACTORY.data(1, data, padding=padding)
        buffer = bytes(where) + frame + b"next"
        flags = frame[4]
        assert frames.content(buffer, where, where + len(frame), flags) == data

    @pytest.mark.parametrize("padding", [None, 0, 9])
    @pytest.mark.parametrize("priority", [False, True])
    def test_of_headers_is_without_priority(self, padding, priority):
        frame = FACTORY.block(1, b"block", padding=padding, priority=priority)
        assert frames.content(frame, 0, len(frame), frame[4]) == b"block"

    def test_of_data_knows_no_priority(self):
        frame = rfc.frame(rfc.DATA, rfc.PRIORITISED, 1, b"sixsix")
        assert frames.content(frame, 0, len(frame), frame[4]) == b"sixsix"

    @pytest.mark.parametrize(
        ("kind", "flags", "payload", "code"),
        [
            (rfc.DATA, rfc.PADDED, b"", frames.FRAME_SIZE_ERROR),
            (rfc.DATA, rfc.PADDED, b"\x01", frames.PROTOCOL_ERROR),
            (rfc.DATA, rfc.PADDED, b"\x05pads", frames.PROTOCOL_ERROR),
            (rfc.HEADERS, rfc.PADDED | rfc.PRIORITISED, b"\x01" + bytes(5), frames.PROTOCOL_ERROR),
            (rfc.HEADERS, rfc.PRIORITISED, bytes(4), frames.PROTOCOL_ERROR),
        ],
    )
    def test_that_cannot_be(self, kind, flags, payload, code):
        frame = rfc.frame(kind, flags, 1, payload)
        with pytest.raises(ProtocolError) as caught:
            frames.content(frame + b"\x00more", 0, len(frame), flags)
        assert caught.value.code == code


class TestFrameBuffer:
    def test_gives_back_what_it_need_not_keep(self):
        data = b"whole"
        buffer = FrameBuffer()
        assert len(buffer) == 0
        assert buffer.feed(data) is data

    def test_joins_when_enough_is_there(self):
        buffer = FrameBuffer()
        buffer.keep(b"ab", 5)
        assert len(buffer) == 2
        assert buffer.feed(b"c") == b""
        assert buffer.feed(b"") == b""
        assert len(buffer) == 3
        assert buffer.feed(b"de") == b"abcde"
        assert len(buffer) == 0
        assert buffer.feed(b"g") == b"g"

    def test_keeps_nothing_of_nothing(self):
        buffer = FrameBuffer()
        buffer.keep(b"", 9)
        assert len(buffer) == 0
        assert buffer.take() == b""
        assert buffer.feed(b"a") == b"a"

    def test_gives_all_when_asked(self):
        buffer = FrameBuffer()
        buffer.keep(b"ab", 9)
        buffer.feed(b"c")
        assert buffer.take() == b"abc"
        assert len(buffer) == 0
