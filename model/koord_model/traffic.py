"""Division of a node's network traffic: classes, their members, limits of pods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import msgspec

from koord_model.annotations import decode, read
from koord_model.excerpt import excerpt
from koord_model.keys import ANNOTATION_NETWORK_QOS
from koord_model.node_slo import Bandwidth
from koord_model.pod import Pod
from koord_model.quantity import whole

MAJOR = 1
"""The number of the root qdisc (1:), and the first half of every class's id."""

ROOT_MINOR = 1
"""The class above all others: 1:1."""

DEFAULT_MINOR = 2
"""The class that takes what is in no other: 1:2, as in Koordinator."""

MOST_MINOR = 0xFFFF

MAX_BITS = 1 << 53
"""9 Pbit/s; larger numbers are typing errors."""


@dataclass(frozen=True, slots=True)
class TrafficMember:
    """A pod in a class, by its address and its cgroup, whichever the host can match.

    ``ip`` is "" on the host's network. ``cgroup`` is relative to the cgroup root.
    """

    pod: str
    ip: str
    cgroup: str


@dataclass(frozen=True, slots=True)
class TrafficClass:
    """One class: ``rate`` is promised, ``ceil`` is the most; bits a second.

    ``minor`` is its number under the root class (1:``minor``); lower ``priority``
    goes first. The ``default`` class takes what is in no other.
    """

    name: str
    minor: int
    priority: int
    rate: int
    ceil: int
    parent: int = ROOT_MINOR
    default: bool = False
    members: tuple[TrafficMember, ...] = ()


@dataclass(frozen=True, slots=True)
class Traffic:
    """The classes of the interface with the default route, of ``total`` bits a second."""

    total: int
    classes: tuple[TrafficClass, ...]


def handle(minor: int) -> int:
    """A class as the kernel numbers it: in netlink, ``net_cls.classid`` and packet priority."""
    return MAJOR << 16 | minor


def classid(minor: int) -> str:
    """A class as tc(8), nft(8) and iptables(8) spell it: hexadecimal, "1:1f"."""
    return f"{MAJOR}:{minor:x}"


@dataclass(frozen=True, slots=True)
class PodBandwidth:
    """The most a pod may use; bits a second, 0 for no limit."""

    ingress: int = 0
    egress: int = 0


def pod_bandwidth(pod: Pod) -> PodBandwidth:
    """Return the bandwidth limits of a pod's annotation ``koordinator.sh/networkQOS``.

    Raises:
        ValueError: the annotation is malformed; one line names pod, key and value.
    """
    return read(pod, ANNOTATION_NETWORK_QOS, parse) or PodBandwidth()


_Quantity = str | int | float | None


class _BandwidthLimits(msgspec.Struct, frozen=True):
    ingress: _Quantity = msgspec.field(default=None, name="ingressLimit")
    egress: _Quantity = msgspec.field(default=None, name="egressLimit")


_DECODER = msgspec.json.Decoder(_BandwidthLimits | None)


@lru_cache(maxsize=256)
def parse(text: str) -> PodBandwidth:
    """The annotation's text as limits.

    Raises:
        ValueError: no JSON, JSON of another shape, or an amount out of range.
    """
    limits = decode(_DECODER, text) if text else None
    if limits is None:
        return PodBandwidth()
    return PodBandwidth(
        ingress=_bits("ingressLimit", limits.ingress), egress=_bits("egressLimit", limits.egress)
    )


def _bits(name: str, quantity: _Quantity) -> int:
    if quantity is None or quantity == "":
        return 0
    try:
        value = whole(quantity)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not 0 <= value <= MAX_BITS:
        shown = excerpt(str(quantity))
        raise ValueError(f"{name}: {shown} is out of range; expected 0 to {MAX_BITS} bits a second")
    return value


def bits_of(bandwidth: Bandwidth, total: int, where: str) -> int:
    """A bandwidth of the NodeSLO on a node that has ``total``; bits a second, 0 for unset.

    Raises:
        ValueError: more than the node has, or less than nothing; starts with ``where``.
    """
    if bandwidth.bits is not None and not 0 <= bandwidth.bits <= total:
        raise ValueError(
            f"{where}: {bandwidth.bits} bits a second is out of range; expected 0 to the node's"
            f" totalNetworkBandwidth of {total}"
        )
    if bandwidth.percent is not None and not 0 <= bandwidth.percent <= 100:
        raise ValueError(f"{where}: {bandwidth.percent} percent; expected 0 to 100")
    return bandwidth.of(total)
