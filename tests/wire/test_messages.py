from __future__ import annotations

import gzip
import zlib

import pytest
from koord_wire.messages import MessageError, pack, unpack

from tests.support.frames import message

LIMIT = 1000


@pytest.mark.parametrize("content", [b"", b"x", bytes(70_000)])
def test_what_is_packed_is_unpacked(content):
    assert pack(content) == message(content)
    assert unpack(pack(content), "", LIMIT) == content
    assert unpack(bytearray(pack(content)), "gzip", LIMIT) == content


@pytest.mark.parametrize(
    "body", [b"", bytes(4), message(b"ask")[:-1], message(b"ask") + b"!", message(b"") * 2]
)
def test_what_is_not_one_message(body):
    with pytest.raises(MessageError, match=f"^{len(body)} bytes are not one gRPC message$"):
        unpack(body, "", LIMIT)


class TestCompressed:
    @pytest.mark.parametrize(
        ("encoding", "payload"),
        [
            ("gzip", gzip.compress(b"ask", mtime=0)),
            ("", gzip.compress(b"ask", mtime=0)),
            ("deflate", zlib.compress(b"ask")),
        ],
        ids=["gzip", "unnamed", "deflate"],
    )
    def test_is_read(self, encoding, payload):
        assert unpack(message(payload, compressed=True), encoding, LIMIT) == b"ask"

    def test_of_nothing(self):
        assert unpack(message(gzip.compress(b""), compressed=True), "gzip", LIMIT) == b""

    @pytest.mark.parametrize("encoding", ["snappy", "identity", "GZIP"])
    def test_in_a_way_not_known(self, encoding):
        with pytest.raises(MessageError, match=f"'{encoding}' is not known"):
            unpack(message(b"?", compressed=True), encoding, LIMIT)

    @pytest.mark.parametrize(
        ("payload", "problem"),
        [
            (b"", "cut short"),
            (b"junk", "incorrect header"),
            (gzip.compress(b"ask", mtime=0)[:-1], "cut short"),
            (gzip.compress(b"ask", mtime=0)[:-8] + bytes(8), "incorrect data check"),
        ],
        # The bytes hold the time.
        ids=["empty", "junk", "short", "changed"],
    )
    def test_badly(self, payload, problem):
        with pytest.raises(MessageError, match=problem):
            unpack(message(payload, compressed=True), "gzip", LIMIT)

    @pytest.mark.parametrize("compress", [gzip.compress, zlib.compress])
    def test_to_a_bomb(self, compress):
        encoding = "gzip" if compress is gzip.compress else "deflate"
        bomb = message(compress(bytes(16 << 20)), compressed=True)
        assert len(bomb) < 20_000
        with pytest.raises(MessageError, match="more than 1000 bytes"):
            unpack(bomb, encoding, LIMIT)

    def test_to_as_much_as_may_be(self):
        for size in (999, 1000):
            body = message(gzip.compress(bytes(size)), compressed=True)
            assert unpack(body, "gzip", LIMIT) == bytes(size)
        with pytest.raises(MessageError):
            unpack(message(gzip.compress(bytes(1001)), compressed=True), "gzip", LIMIT)
