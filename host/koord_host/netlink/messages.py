"""The frame of netlink: headers, attributes, errors, and generic netlink's families. No IO."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

REQUEST = 0x1
DUMP = 0x300
"""NLM_F_ROOT | NLM_F_MATCH."""

_HEADER = struct.Struct("=IHHII")
_GENERIC = struct.Struct("=BBH")
_ATTRIBUTE = struct.Struct("=HH")
_ERRNO = struct.Struct("=i")
_ERROR = 2
_DONE = 3
_TYPE_BITS = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER

_CONTROLLER = 0x10
_GET_FAMILY = 3
_FAMILY_ID = 1
_FAMILY_NAME = 2


class NetlinkAnswer(NamedTuple):
    """One message: ``error`` is an errno, 0 for none; ``done`` ends a dump."""

    sequence: int
    payload: memoryview
    error: int = 0
    done: bool = False


def request(kind: int, payload: bytes, flags: int = REQUEST, sequence: int = 0) -> bytes:
    """A message to the kernel."""
    return _HEADER.pack(_HEADER.size + len(payload), kind, flags, sequence, 0) + payload


def answers(data: bytes) -> Iterator[NetlinkAnswer]:
    """The messages of one datagram.

    Raises:
        ValueError: a length does not fit.
    """
    view, place = memoryview(data), 0
    while place + _HEADER.size <= len(view):
        length, kind, _, sequence, _ = _HEADER.unpack_from(view, place)
        if length < _HEADER.size or place + length > len(view):
            raise ValueError(f"a netlink message of {length} bytes in {len(view) - place}")
        payload = view[place + _HEADER.size : place + length]
        if kind in (_ERROR, _DONE):
            (errno,) = _ERRNO.unpack_from(payload) if len(payload) >= _ERRNO.size else (0,)
            yield NetlinkAnswer(sequence, payload, -errno, kind == _DONE)
        else:
            yield NetlinkAnswer(sequence, payload)
        place += (length + 3) & ~3


def attributes(view: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Type and value of each attribute; a broken one ends them."""
    place = 0
    while place + _ATTRIBUTE.size <= len(view):
        length, kind = _ATTRIBUTE.unpack_from(view, place)
        if length < _ATTRIBUTE.size or place + length > len(view):
            return
        yield kind & _TYPE_BITS, view[place + _ATTRIBUTE.size : place + length]
        place += (length + 3) & ~3


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute, padded."""
    length = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(length, kind) + value + bytes(-length % 4)


def generic_request(family: int, command: int, payload: bytes, sequence: int = 0) -> bytes:
    """A message to a family of generic netlink."""
    return request(family, _GENERIC.pack(command, 1, 0) + payload, sequence=sequence)


def generic_attributes(answer: NetlinkAnswer) -> Iterator[tuple[int, memoryview]]:
    """The attributes of a family's answer."""
    return attributes(answer.payload[_GENERIC.size :])


def family_request(name: str) -> bytes:
    """Ask for the number of a family."""
    return generic_request(_CONTROLLER, _GET_FAMILY, attribute(_FAMILY_NAME, name.encode() + b"\0"))


def family_number(answer: NetlinkAnswer) -> int | None:
    """The number in the answer."""
    for kind, value in generic_attributes(answer):
        if kind == _FAMILY_ID:
            return int.from_bytes(value, sys.byteorder)
    return None
