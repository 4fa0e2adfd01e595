"""Established TCP connections of a network namespace: sock_diag's inet_diag. No IO."""

from __future__ import annotations

import struct
import sys
from typing import NamedTuple

from koord_host.netlink.messages import DUMP, REQUEST, NetlinkAnswer, attributes, request

_IPV4 = 2
_GET_TCP = 18
"""TCPDIAG_GETSOCK, the older question: both families in one pass over the kernel's table."""
_ESTABLISHED = 1 << 1
_INFO = 2
_CGROUP_ID = 21
_REQUEST = struct.Struct("=3xB 48x I4x")
_CONNECTION = struct.Struct("=B7x 16s 16s 4x Q 20x")
"""family; source and destination address; cookie."""
_TCP_INFO = struct.Struct("=68x I 28x I 52x I")
"""tcpi_rtt, tcpi_total_retrans, tcpi_data_segs_out; since Linux 4.6."""
_LOOPBACK = (bytes(15) + b"\1", bytes(10) + b"\xff\xff\x7f")
"""::1, and what IPv4's 127.0.0.0/8 begins with in IPv6."""


class Connection(NamedTuple):
    """A connection that is established.

    ``cookie`` is its own for as long as the machine runs. ``cgroup`` is the id of the cgroup (v2)
    that made it, which is the inode of its directory; 0 before Linux 5.9. ``rtt`` is the smoothed
    round-trip time in microseconds; ``retransmits`` are part of the ``segments`` with data sent.
    """

    cookie: int
    cgroup: int
    rtt: int
    retransmits: int
    segments: int


def dump_request() -> bytes:
    """Ask for all established connections, of IPv4 and IPv6."""
    body = _REQUEST.pack(1 << (_INFO - 1), _ESTABLISHED)
    return request(_GET_TCP, body, REQUEST | DUMP)


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
    return None if figures is None else Connection(cookie, cgroup, *figures)


def _is_loopback(family: int, address: bytes) -> bool:
    if family == _IPV4:
        return address[0] == 127
    return address.startswith(_LOOPBACK)
