"""Header blocks (HPACK, RFC 7541): reading requests, writing a refusal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from urllib.parse import quote

from hpack import Decoder, HPACKError

from koord_wire.frames import COMPRESSION_ERROR, PROTOCOL_ERROR, ProtocolError

MAX_HEADER_LIST = 1 << 20
"""Bytes of headers, decoded, that one block may come to. gRPC's own limits are far lower."""
MAX_SEEN = 256
"""Header blocks remembered at a time."""
MAX_SEEN_BLOCK = 4096
"""Bytes of a header block that is remembered."""
MAX_REFUSAL = 1024
"""Characters of a refusal's message: percent-encoded, they still fit into one frame."""


class RequestHeaders(NamedTuple):
    """The relay's part of a request's headers."""

    path: str
    encoding: str


class HeaderReader:
    """Follows the client's header compression and reads its requests.

    Every block of the direction must pass through here, in order, because each
    may change the table that the next refers to. A block that changed nothing
    is remembered by its bytes until one does: clients repeat themselves.
    """

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=MAX_HEADER_LIST)
        self._seen: dict[bytes, RequestHeaders] = {}

    def allow_table(self, size: int) -> None:
        """The server allows the client a dynamic table of this many bytes.

        It is never lowered: the client learns of a smaller one later than we
        do, and the server is the judge of whether it obeyed.
        """
        self._decoder.max_allowed_table_size = max(size, self._decoder.max_allowed_table_size)

    def read(self, block: bytes) -> RequestHeaders:
        """The headers of one whole block.

        Raises:
            ProtocolError: the block is not valid HPACK, or too long when decoded.
        """
        known = self._seen.get(block)
        if known is not None:
            return known
        before = self._table()
        try:
            headers = self._decoder.decode(block, raw=True)
        except (HPACKError, IndexError, ValueError) as error:
            raise ProtocolError(COMPRESSION_ERROR, f"header block: {error}") from error
        result = _request(headers)
        size, count, newest = self._table()
        if (size, count) != before[:2] or newest is not before[2]:
            self._seen.clear()
        elif len(block) <= MAX_SEEN_BLOCK:
            if len(self._seen) >= MAX_SEEN:
                self._seen.clear()
            self._seen[block] = result
        return result

    def _table(self) -> tuple[int, int, object]:
        """Return a value that changes whenever the table does.

        The newest entry may be put in once more, so it is to be compared by identity.
        """
        table = self._decoder.header_table
        entries = table.dynamic_entries
        return table.maxsize, len(entries), entries[0] if entries else None


def _request(headers: Iterable[tuple[bytes, bytes]]) -> RequestHeaders:
    path = encoding = ""
    for name, value in headers:
        if name == b":path":
            path = value.decode("ascii", "replace")
        elif name == b"grpc-encoding":
            encoding = value.decode("ascii", "replace")
    return RequestHeaders(path, encoding)


def refusal(status: int, message: str, *, trailers: bool) -> bytes:
    """The header block of a gRPC error, written so that no table moves.

    ``trailers`` is True where the response's headers have gone out already:
    then only the status is left to say.
    """
    fields = [] if trailers else [(b":status", b"200"), (b"content-type", b"application/grpc")]
    fields.append((b"grpc-status", str(status).encode()))
    # Percent-encoding as the gRPC protocol asks for grpc-message.
    text = quote(message[:MAX_REFUSAL], safe=_PLAIN, errors="replace")
    fields.append((b"grpc-message", text.encode()))
    return b"".join(literal(name, value) for name, value in fields)


_PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


def literal(name: bytes, value: bytes) -> bytes:
    """A literal without indexing, its name new (RFC 7541 §6.2.2)."""
    return b"\x00" + _integer(len(name), 7) + name + _integer(len(value), 7) + value


def indexed_literal(name: bytes, value: bytes) -> bytes:
    """The same, put into the dynamic table, where its index is 62 (RFC 7541 §6.2.1)."""
    return b"\x40" + literal(name, value)[1:]


def table_size(size: int) -> bytes:
    """A dynamic table size update (RFC 7541 §6.3), to be put in front of a block."""
    return _integer(size, 5, 0x20)


def _integer(size: int, prefix_bits: int, pattern: int = 0) -> bytes:
    """An integer behind a bit pattern (RFC 7541 §5.1)."""
    limit = (1 << prefix_bits) - 1
    if size < limit:
        return bytes((pattern | size,))
    encoded = bytearray((pattern | limit,))
    size -= limit
    while size >= 0x80:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    encoded.append(size)
    return bytes(encoded)


# ---- a response's headers, of a server that was allowed no dynamic table


def decode_headers(block: bytes) -> list[tuple[str, str]]:
    """All headers of a block that refers to no dynamic table.

    Raises:
        ProtocolError: the block is no HPACK, or too long when decoded.
    """
    decoder = Decoder(max_header_list_size=MAX_HEADER_LIST)
    decoder.header_table_size = decoder.max_allowed_table_size = 0
    try:
        decoded = decoder.decode(block, raw=True)
    except (HPACKError, IndexError, ValueError) as error:
        raise ProtocolError(COMPRESSION_ERROR, f"header block: {error}") from error
    return [
        (bytes(name).decode("latin-1"), bytes(value).decode("latin-1")) for name, value in decoded
    ]


def response_status(block: bytes) -> int:
    """The status, which is a response's first field.

    A whole block takes some 100 µs to decode, and of an answer that is well nothing else is wanted.
    Of common forms the first field is cut out by its length, and remembered.

    Raises:
        ProtocolError: the block is no HPACK, or its status is not a number.
    """
    first = _first_field(block)
    known = _STATUSES.get(first)
    if known is None:
        name, value = (decode_headers(first) or [("", "")])[0]
        if name != ":status" or not value.isdecimal():
            raise ProtocolError(PROTOCOL_ERROR, f"a response that begins with {name or 'nothing'}")
        known = int(value)
        if len(_STATUSES) < MAX_SEEN:
            _STATUSES[first] = known
    return known


_STATUSES: dict[bytes, int] = {}
_STATUS_NAMES = range(8, 15)
"""The entries of the static table whose name is ``:status``."""


def _first_field(block: bytes) -> bytes:
    """The block's first field; the whole block where its form is an uncommon one."""
    start = 0
    while start < len(block) and block[start] & 0xE0 == 0x20 and block[start] & 0x1F < 0x1F:
        start += 1  # a dynamic table size update
    if start < len(block) and block[start] & 0x80:
        return block[start : start + 1]
    if start + 1 < len(block) and block[start] & 0x0F in _STATUS_NAMES:
        length = block[start + 1] & 0x7F
        if length < 0x7F and block[start] & 0xF0 in (0x00, 0x10, 0x40):
            return block[start : start + 2 + length]
    return block
