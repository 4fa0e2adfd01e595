from __future__ import annotations

import hpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from koord_wire import headers
from koord_wire.frames import COMPRESSION_ERROR, ProtocolError
from koord_wire.headers import (
    HeaderReader,
    RequestHeaders,
    indexed_literal,
    refusal,
    response_status,
)

from tests.support import frames as rfc
from tests.support.frames import literals, table_size

INDEXED = b"\x40"


def indexed(name: str, value: str) -> bytes:
    """A literal that the table remembers."""
    return INDEXED + literals([(name, value)])[1:]


class TestReading:
    def test_finds_what_the_relay_wants(self):
        block = hpack.Encoder().encode(
            [
                (":method", "POST"),
                (":path", "/runtime.v1.RuntimeService/Version"),
                ("grpc-encoding", "gzip"),
                ("x", "y"),
            ]
        )
        expected = RequestHeaders("/runtime.v1.RuntimeService/Version", "gzip")
        assert HeaderReader().read(block) == expected

    @pytest.mark.parametrize("block", [b"", literals([("x", "y")])])
    def test_of_trailers_finds_nothing(self, block):
        assert HeaderReader().read(block) == RequestHeaders("", "")

    def test_of_bytes_that_are_no_text(self):
        block = b"\x00\x05:path\x02/\xff" + b"\x00\x0dgrpc-encoding\x01\xfe"
        assert HeaderReader().read(block) == RequestHeaders("/\ufffd", "\ufffd")

    @pytest.mark.parametrize(
        "block", [b"\x80", b"\xbe", b"\x00\x05a", b"\xff" * 1000, b"\x3f\xe2\x1f", b"\x82\x20"]
    )
    def test_of_no_hpack(self, block):
        with pytest.raises(ProtocolError, match="header block: ") as caught:
            HeaderReader().read(block)
        assert caught.value.code == COMPRESSION_ERROR

    def test_of_more_than_a_megabyte(self):
        reader = HeaderReader()
        reader.read(indexed("x", "y" * 4000))
        reader.read(b"\xbe" * 250)
        with pytest.raises(ProtocolError, match="larger than 1048576"):
            reader.read(b"\xbe" * 300)


class TestTable:
    def test_is_4096_bytes_unless_allowed(self):
        reader = HeaderReader()
        with pytest.raises(ProtocolError):
            reader.read(table_size(4097))
        reader = HeaderReader()
        reader.allow_table(8192)
        assert reader.read(table_size(8192) + indexed(":path", "/" + "a" * 5000)).path
        assert reader.read(b"\xbe").path

    def test_stays_allowed(self):
        """The client learns of a lower limit later than we do."""
        reader = HeaderReader()
        reader.allow_table(8192)
        reader.allow_table(0)
        assert reader.read(table_size(8192) + indexed(":path", "/a")).path == "/a"

    def test_moves_also_when_its_newest_entry_comes_again(self):
        """Three entries fit; the block that is seen twice adds one each time."""
        reader = HeaderReader()
        reader.read(table_size(3 * (32 + 5 + 2)))
        for path in ("/a", "/b", "/c"):
            reader.read(indexed(":path", path))
        again = indexed(":path", "/c")
        assert reader.read(b"\xc0").path == "/a"
        reader.read(again)
        assert reader.read(b"\xc0").path == "/b"
        reader.read(again)
        assert reader.read(b"\xc0").path == "/c"

    def test_has_another_size_also_when_nothing_is_evicted(self):
        """Two blocks that only change the size, in turns, and then an entry too large."""
        reader = HeaderReader()
        small = table_size(50) + literals([(":path", "/a")])
        large = table_size(4096) + literals([(":path", "/a")])
        for block in (small, large, small):
            reader.read(block)
        reader.read(indexed(":path", "/" + "b" * 100))
        with pytest.raises(ProtocolError):
            reader.read(b"\xbe")

    @given(
        blocks=st.lists(
            st.tuples(
                st.sampled_from(["", "0", "40", "80", "200", "4096"]),
                st.lists(
                    st.one_of(
                        st.tuples(
                            st.just("indexed"), st.sampled_from(["/a", "/b", "/" + "c" * 60])
                        ),
                        st.tuples(st.just("literal"), st.sampled_from(["/a", "/b"])),
                        st.tuples(st.just("index"), st.integers(62, 66)),
                    ),
                    max_size=3,
                ),
            ),
            max_size=12,
        )
    )
    def test_is_the_same_as_without_a_memory(self, blocks):
        """Whatever is remembered, each block reads as a decoder that knows no shortcut reads it."""
        reader, decoder = HeaderReader(), hpack.Decoder()
        for size, fields in blocks:
            block = table_size(int(size)) if size else b""
            for how, value in fields:
                if how == "index":
                    block += bytes((0x80 | value,))
                else:
                    make = indexed if how == "indexed" else lambda *pair: literals([pair])
                    block += make(":path", value)
            try:
                expected = dict(decoder.decode(block)).get(":path", "")
            except hpack.HPACKError:
                with pytest.raises(ProtocolError):
                    reader.read(block)
                return
            assert reader.read(block).path == expected


class TestMemory:
    def test_of_blocks_is_bounded(self):
        reader = HeaderReader()
        for number in range(5 * headers.MAX_SEEN):
            assert reader.read(literals([(":path", f"/{number}")])).path == f"/{number}"
        assert len(reader._seen) <= headers.MAX_SEEN

    def test_is_not_of_long_ones(self):
        reader = HeaderReader()
        reader.read(literals([(":path", "/" + "a" * headers.MAX_SEEN_BLOCK)]))
        assert not reader._seen

    def test_is_used(self):
        reader = HeaderReader()
        block = literals([(":path", "/a")])
        assert reader.read(block) is reader.read(bytes(bytearray(block)))


class TestRefusal:
    def test_is_literals(self):
        response = [(":status", "200"), ("content-type", "application/grpc")]
        status = [("grpc-status", "14"), ("grpc-message", "no")]
        assert refusal(14, "no", trailers=False) == literals(response + status)
        assert refusal(14, "no", trailers=True) == literals(status)

    def test_moves_no_table(self):
        decoder = hpack.Decoder()
        decoder.decode(refusal(2, "x" * 300, trailers=False))
        assert not decoder.header_table.dynamic_entries

    @pytest.mark.parametrize(
        ("text", "encoded"),
        [
            ("", ""),
            ("plain ~!", "plain ~!"),
            ("100%", "100%25"),
            ("ü\n\x7f", "%C3%BC%0A%7F"),
            ("\ud800", "?"),
            ("x" * 2000, "x" * 1024),
        ],
    )
    def test_encodes_the_message(self, text, encoded):
        fields = dict(hpack.Decoder().decode(refusal(2, text, trailers=True)))
        assert fields["grpc-message"] in (encoded, encoded.replace("?", "%3F"))

    def test_fits_into_a_frame_whatever_it_says(self):
        assert len(refusal(16, "\U0001f600" * 5000, trailers=False)) <= 16_384


@pytest.mark.parametrize("size", [0, 1, 30, 31, 32, 127, 158, 159, 4096, 65_536, 2**32 - 1])
def test_table_size_is_as_hpack_says(size):
    assert headers.table_size(size) == rfc.table_size(size)


NO_HPACK = b"\x80"
"""An index of nothing: a block with it is refused by all that read it to its end."""


class TestStatus:
    """The first field is cut out, whatever its form, and a block of an uncommon form read whole."""

    @given(
        updates=st.integers(0, 3),
        form=st.sampled_from([0x00, 0x10, 0x40]),
        name=st.integers(8, 14),
        status=st.text("0123456789", min_size=1, max_size=300),
        huffman=st.booleans(),
        behind=st.sampled_from([b"", literals([("x", "y")]), NO_HPACK]),
    )
    @example(0, 0x00, 8, "2" * 126, False, NO_HPACK)
    @example(0, 0x00, 8, "2" * 127, False, NO_HPACK)
    @example(1, 0x40, 14, "200", True, NO_HPACK)
    def test_of_a_literal(self, updates, form, name, status, huffman, behind):
        text = hpack.hpack.HuffmanEncoder(
            hpack.huffman_constants.REQUEST_CODES, hpack.huffman_constants.REQUEST_CODES_LENGTH
        ).encode(status.encode())
        value = text if huffman else status.encode()
        length = hpack.hpack.encode_integer(len(value), 7)
        length[0] |= 0x80 * huffman
        block = table_size(0) * updates + bytes((form | name,)) + length + value
        if behind is NO_HPACK and len(value) >= 127:
            with pytest.raises(ProtocolError):
                response_status(block + behind)
        else:
            assert response_status(block + behind) == int(status)

    @pytest.mark.parametrize("updates", [0, 1, 2])
    def test_of_an_index(self, updates):
        block = table_size(0) * updates + b"\x88" + NO_HPACK
        assert response_status(block) == 200

    def test_of_another_form(self):
        literal = literals([(":status", "201")])
        assert response_status(literal) == 201
        for unread in (literal + NO_HPACK, b"\x20" * 2, b"", b"\x48", table_size(31) + b"\x88"):
            with pytest.raises(ProtocolError):
                response_status(unread)

    @pytest.mark.parametrize("block", [literals([("x", "200")]), literals([(":status", "OK")])])
    def test_that_is_none(self, block):
        with pytest.raises(ProtocolError, match="begins with"):
            response_status(block)

    def test_memory_is_bounded(self, monkeypatch):
        monkeypatch.setattr(headers, "_STATUSES", {})
        for number in range(2 * headers.MAX_SEEN):
            assert response_status(literals([(":status", str(number))])) == number
        assert len(headers._STATUSES) == headers.MAX_SEEN


def test_a_literal_that_the_table_remembers():
    decoder = hpack.Decoder()
    decoder.decode(indexed_literal(b"a", b"b" * 200))
    assert [*decoder.header_table.dynamic_entries] == [(b"a", b"b" * 200)]
