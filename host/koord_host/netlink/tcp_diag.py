"""Established TCP connections of a network namespace: sock_diag's inet_diag. No IO."""

from __future__ import annotations

import struct
import sys
from typing import NamedTuple

from koord_host.netlink.messages import DUMP, REQUEST, NetlinkAnswer, attributes, request

_IPV4 = 2
_TCP = 6
_GET_TCP = 18
"""TCPDIAG_GETSOCK, the older question: both families in one pass over the kernel's table."""
_GET_ONE = 20
"""SOCK_DIAG_BY_FAMILY: the kernel finds one connection by its addresses, without that pass."""
_ESTABLISHED = 1 << 1
_ANY_STATE = 0xFFFFFFFF
_INFO = 2
_CGROUP_ID = 21
_REQUEST = struct.Struct("=3xB 48x I4x")
_REQUEST_ONE = struct.Struct("=BBBxI48s")
"""family, protocol, wanted attributes, states; ports, addresses and cookie as they were given."""
_CONNECTION = struct.Struct("=B7x 16s 16s 4x Q 20x")
"""family; source and destination address; cookie."""
_IDENTITY = slice(4, 52)
_TCP_INFO = struct.Struct("=68x I 28x I 52x I")
"""tcpi_rtt, tcpi_total_retrans, tcpi_data_segs_out; since Linux 4.6."""
_LOOPBACK = (bytes(15) + b"\1", bytes(10) + b"\xff\xff\x7f")
"""::1, and what IPv4's 127.0.0.0/8 begins with in IPv6."""


class Connection(NamedTuple):
    """A connection that is established.

    ``cookie`` is its own for as long as the machine runs. ``cgroup`` is the id of the cgroup (v2)
    that made it, which is the inode of its directory; 0 before Linux 5.9. ``rtt`` is the smoothed
    round-trip time in microseconds; ``retransmits`` are part of the ``segments`` with data sent.
    ``name`` is what the kernel finds it by: its family, and ports, addresses and cookie.
    """

    cookie: int
    cgroup: int
    rtt: int
    retransmits: int
    segments: int
    name: bytes = b""


def dump_request() -> bytes:
    """Ask for all established connections, of IPv4 and IPv6."""
    body = _REQUEST.pack(1 << (_INFO - 1), _ESTABLISHED)
    return request(_GET_TCP, body, REQUEST | DUMP)


def connection_request(known: Connection, sequence: int) -> bytes:
    """Ask for one connection; the answer is ENOENT where it has ended."""
    wanted = 1 << (_INFO - 1)
    body = _REQUEST_ONE.pack(known.name[0], _TCP, wanted, _ANY_STATE, known.name[1:])
    return request(_GET_ONE, body, sequence=sequence)


def connection(answer: NetlinkAnswer) -> Connection | None:
    """The connection of an answer; ``None`` for one within the machine, or without figures."""
    payload = answer.payload
    if len(payload) < _CONNECTION.size:
        return None
    family, source, destination, cookie = _CONNECTION.unpack_from(payload)
    if source == destination or _is_loopback(family, source):
        return None
    cgroup, figures = 0, None
    for kind, value in attributes(payload[_CONNECTION.size :]):
        if kind == _INFO and len(value) >= _TCP_INFO.size:
            figures = _TCP_INFO.unpack_from(value)
        elif kind == _CGROUP_ID:
            cgroup = int.from_bytes(value, sys.byteorder)
    if figures is None:
        return None
    name = bytes((family,)) + bytes(payload[_IDENTITY])
    rtt, retransmits, segments = figures
    return Connection(cookie, cgroup, rtt, retransmits, segments, name)


def _is_loopback(family: int, address: bytes) -> bool:
    if family == _IPV4:
        return address[0] == 127
    return address.startswith(_LOOPBACK)
