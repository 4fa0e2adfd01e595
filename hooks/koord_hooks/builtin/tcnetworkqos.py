"""Outgoing traffic is divided between system, LS and BE pods, by the NodeSLO's policy ``tc``.

Each class is promised a rate and may borrow what the others leave, up to its
ceiling. Promises are made so that they always fit into the node's bandwidth:

1. Every class is promised at least a hundredth of it, so that none starves.
2. LS is promised its ``egressRequest``, then BE its own; what does not fit beside
   the hundredths is cut, and reported.
3. The system's class is promised the rest. It is the default: what belongs to no
   pod, and pods of no class on the host's network, are in it.
4. A pod with an ``egressLimit`` in its annotation gets a class of its own, with the
   priority of its class and its limit as ceiling. Its promise is an equal share, by
   pods, of its class's promise, but no more than its limit; the class keeps the rest.

Only outgoing traffic is shaped: a limit on ingress is reported and ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256

from koord_model.annotations import about
from koord_model.keys import ANNOTATION_NETWORK_QOS
from koord_model.node import NodeView
from koord_model.node_slo import Bandwidth, NetPolicy, NodeSLO
from koord_model.patch import NodePatch, Patch
from koord_model.pod import Pod
from koord_model.qos import KubeQoS, QoSClass, kube_qos, qos_class
from koord_model.traffic import (
    DEFAULT_MINOR,
    MOST_MINOR,
    Traffic,
    TrafficClass,
    TrafficMember,
    bits_of,
    classid,
    handle,
    pod_bandwidth,
)

from koord_hooks.specs import hookimpl

_KNOB = "net_cls.classid"

_SYSTEM = TrafficClass("system", DEFAULT_MINOR, priority=1, rate=0, ceil=0, default=True)
_LS = TrafficClass("ls", 3, priority=2, rate=0, ceil=0)
_BE = TrafficClass("be", 4, priority=3, rate=0, ceil=0)
_BY_QOS = {
    QoSClass.SYSTEM: _SYSTEM,
    QoSClass.LSE: _LS,
    QoSClass.LSR: _LS,
    QoSClass.LS: _LS,
    QoSClass.BE: _BE,
}

_FIRST_OWN_MINOR = 0x10
"""Numbers below are for classes of the node."""

_LEAST_RATE = 8000
"""Bits a second; much below, the kernel's and tc's arithmetic overflows. Less counts as this."""


@dataclass(frozen=True, slots=True)
class _LimitedPod:
    """A pod with a limit of its own, in bits a second, and its class's number."""

    pod: Pod
    limit: int
    minor: int


@hookimpl
def reconcile_node(pods: tuple[Pod, ...], view: NodeView) -> NodePatch | None:
    if view.slo.net_policy is not NetPolicy.TC:
        return None
    total = view.slo.total_network_bandwidth
    if total <= 0:
        raise ValueError(
            f"NodeSLO: systemStrategy.totalNetworkBandwidth is {total}, and netQOSPolicy tc divides"
            " it; expected the interface's bits a second (no traffic is shaped)"
        )
    ignored: list[str] = []
    shared = _shared(view.slo, ignored)
    limited = _limited(pods, ignored)
    why = ", ".join(
        f"{traffic_class.name} {traffic_class.rate} up to {traffic_class.ceil}"
        for traffic_class in shared
    )
    if limited:
        why += f", {len(limited)} with a limit of their own"
    return NodePatch(
        traffic=Traffic(total, tuple(_divided(shared, pods, limited))),
        why=f"netQOSPolicy tc, {total} bit/s: {why}",
        ignored=tuple(ignored),
    )


@hookimpl
def pre_run_pod_sandbox(pod: Pod, view: NodeView) -> Patch | None:
    """The pod's class, where cgroups can mark packets.

    The number of a class of its own is found without knowing of other pods. The
    later of two pods with one number (a pair in 65 000) is marked as the earlier.
    """
    if view.slo.net_policy is not NetPolicy.TC or view.slo.total_network_bandwidth <= 0:
        return None
    if _KNOB not in view.kernel.knobs:
        return None
    ignored: list[str] = []
    own = _limited([pod], ignored)
    if own:
        minor, shown = own[0].minor, f"egressLimit {own[0].limit}"
    elif qos_class(pod.labels) is QoSClass.NONE and not pod.ip:
        # Before it has an address it is not known whether it will get one.
        return Patch(ignored=tuple(ignored)) if ignored else None
    else:
        minor, shown = _class(pod).minor, f"class {_class(pod).name}"
    return Patch(
        knobs={_KNOB: handle(minor)},
        why=f"{shown} → {_KNOB} {handle(minor)} ({classid(minor)})",
        ignored=tuple(ignored),
    )


def _class(pod: Pod) -> TrafficClass:
    """The class a pod is in by its quality class, or Kubernetes' where it has none."""
    qos = qos_class(pod.labels)
    if qos is not QoSClass.NONE:
        return _BY_QOS[qos]
    if not pod.ip:
        return _SYSTEM
    return _BE if kube_qos(pod.cgroup_parent) is KubeQoS.BEST_EFFORT else _LS


def _shared(slo: NodeSLO, ignored: list[str]) -> tuple[TrafficClass, ...]:
    """The node's own classes with their rates: rules 1 to 3."""
    total = slo.total_network_bandwidth
    least = max(total // 100, _LEAST_RATE)
    ls = _promised(_LS, QoSClass.LS, slo, total - 2 * least, ignored)
    be = _promised(_BE, QoSClass.BE, slo, total - least - ls.rate, ignored)
    rest = max(total - ls.rate - be.rate, _LEAST_RATE)
    return replace(_SYSTEM, rate=rest, ceil=max(total, rest)), ls, be


def _promised(
    traffic_class: TrafficClass, qos: QoSClass, slo: NodeSLO, room: int, ignored: list[str]
) -> TrafficClass:
    total, network = slo.total_network_bandwidth, slo.of(qos).network
    asked, ceil = 0, total
    if network.enable:
        where = f"NodeSLO: resourceQOSStrategy.{traffic_class.name}Class.networkQOS.egress"
        asked = _bits(network.egress_request, total, f"{where}Request", ignored)
        ceil = _bits(network.egress_limit, total, f"{where}Limit", ignored) or total
        if asked > min(room, ceil):
            ignored.append(
                f"{where}Request: {asked} bits a second do not fit into an egressLimit of {ceil}"
                f" and the {max(room, 0)} that others leave of {total} (cut to what fits)"
            )
    least = max(total // 100, _LEAST_RATE)
    rate = max(min(max(asked, least), room, ceil), _LEAST_RATE)
    return replace(traffic_class, rate=rate, ceil=max(ceil, rate))


def _bits(bandwidth: Bandwidth, total: int, where: str, ignored: list[str]) -> int:
    try:
        return bits_of(bandwidth, total, where)
    except ValueError as error:
        ignored.append(f"{error} (ignored)")
        return 0


def _limited(pods: Iterable[Pod], ignored: list[str]) -> list[_LimitedPod]:
    """The pods that have a limit of their own, by uid."""
    limits = []
    for pod in sorted(pods, key=lambda pod: pod.uid):
        try:
            bandwidth = pod_bandwidth(pod)
        except ValueError as error:
            ignored.append(f"{error} (ignored)")
            continue
        if bandwidth.ingress:
            ignored.append(
                f"{about(pod, ANNOTATION_NETWORK_QOS)}: ingressLimit"
                f" {bandwidth.ingress} is not supported by netQOSPolicy tc; expected egressLimit"
                " alone, or netQOSPolicy terway-qos (ignored)"
            )
        if bandwidth.egress:
            limits.append((pod, bandwidth.egress))
    minors = _minors([pod.uid for pod, _ in limits])
    return [_LimitedPod(pod, limit, minors[pod.uid]) for pod, limit in limits]


def _minors(uids: Iterable[str]) -> dict[str, int]:
    """A number for each uid, the same whenever asked; where two meet, the later takes the next."""
    span = MOST_MINOR + 1 - _FIRST_OWN_MINOR
    taken: dict[int, str] = {}
    for uid in sorted(set(uids)):
        at = int.from_bytes(sha256(uid.encode()).digest()[:8]) % span
        while at in taken:
            at = (at + 1) % span
        taken[at] = uid
    return {uid: at + _FIRST_OWN_MINOR for at, uid in taken.items()}


def _divided(
    shared: Iterable[TrafficClass], pods: Iterable[Pod], limited: Iterable[_LimitedPod]
) -> Iterator[TrafficClass]:
    """Each class with its members, then the classes cut out of it: rule 4."""
    listed = list(limited)
    apart = {limited_pod.pod.uid for limited_pod in listed}
    together = sorted(
        (pod for pod in pods if pod.uid not in apart), key=lambda pod: (pod.namespace, pod.name)
    )
    for traffic_class in shared:
        members = tuple(
            _member(pod) for pod in together if _class(pod).minor == traffic_class.minor
        )
        own = [each for each in listed if _class(each.pod).minor == traffic_class.minor]
        share = traffic_class.rate // (len(own) + max(len(members), 1))
        cut = [_own_class(each, traffic_class, share) for each in own]
        kept = max(traffic_class.rate - sum(each.rate for each in cut), _LEAST_RATE)
        yield replace(traffic_class, rate=kept, members=members)
        yield from cut


def _own_class(limited: _LimitedPod, above: TrafficClass, share: int) -> TrafficClass:
    rate = max(min(share, limited.limit), _LEAST_RATE)
    member = _member(limited.pod)
    return TrafficClass(
        name=f"pod {member.pod}",
        minor=limited.minor,
        priority=above.priority,
        rate=rate,
        ceil=max(min(limited.limit, above.ceil), rate),
        members=(member,),
    )


def _member(pod: Pod) -> TrafficMember:
    return TrafficMember(pod.full_name, pod.ip, pod.cgroup_parent.strip("/"))
