"""gRPC messages in a stream of DATA: five bytes in front, then the message."""

from __future__ import annotations

import zlib

PREFIX_SIZE = 5

# The format that zlib expects, by the gRPC name of the encoding.
_WINDOW_BITS = {"gzip": 31, "deflate": 15}


class MessageError(ValueError):
    """The bytes of a stream are not one message that can be read here."""


def pack(message: bytes) -> bytes:
    """A message as it travels, uncompressed."""
    return b"\x00" + len(message).to_bytes(4, "big") + message


def unpack(body: bytes, encoding: str, limit: int) -> bytes:
    """The one message that a unary stream carried.

    ``encoding`` is the stream's ``grpc-encoding``; without one (responses,
    whose headers are not read) a compressed message is tried as gzip.

    Raises:
        MessageError: no message, several, one cut short, or one compressed in
            a way that is not known or to something beyond ``limit`` bytes.
    """
    if len(body) < PREFIX_SIZE or len(body) != PREFIX_SIZE + int.from_bytes(body[1:5], "big"):
        raise MessageError(f"{len(body)} bytes are not one gRPC message")
    payload = bytes(body[PREFIX_SIZE:])
    return _decompress(payload, encoding or "gzip", limit) if body[0] & 1 else payload


def _decompress(payload: bytes, encoding: str, limit: int) -> bytes:
    if encoding not in _WINDOW_BITS:
        raise MessageError(f"grpc-encoding {encoding!r} is not known here")
    decompressor = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        message = decompressor.decompress(payload, limit)
    except zlib.error as error:
        raise MessageError(f"{encoding}: {error}") from error
    if decompressor.unconsumed_tail or not decompressor.eof:
        raise MessageError(f"{encoding}: cut short, or more than {limit} bytes")
    return message
