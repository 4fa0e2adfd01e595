"""The annotations of the NodeResourceTopology: CPUs, who has them, and which are shared. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from koord_model import cpuset
from koord_model.fields import Fields, cpu_list, milli_quantity, text
from koord_model.keys import (
    ANNOTATION_BE_CPU_SHARED_POOLS,
    ANNOTATION_CPU_BASIC_INFO,
    ANNOTATION_CPU_MANAGER_POLICY,
    ANNOTATION_CPU_NAMED_POOLS,
    ANNOTATION_CPU_SHARED_POOLS,
    ANNOTATION_CPU_TOPOLOGY,
    ANNOTATION_NODE_RESERVATION,
    ANNOTATION_POD_CPU_ALLOCS,
    ANNOTATION_SYSTEM_QOS_RESOURCE,
    CPU,
)
from koord_model.node import Topology
from koord_model.node_info import NodeCPUInfo, NodeMemoryInfo, Processor
from koord_model.qos import QoSClass, qos_class
from koord_model.resource_status import resource_status

from koordlet.metrics_reporter.documents.kubelet_config import (
    STATIC,
    KubeletConfig,
    static_reserved,
    take_by_topology,
)
from koordlet.states_informer.kubelet_cpus import KubeletCPUs
from koordlet.states_informer.state import share_pools
from koordlet.states_informer.state.pod_inventory import PodRecord
from koordlet.states_informer.state.share_pools import ReservedCPUs

Object = dict[str, Any]

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class TopologyInputs:
    """Inputs of the NodeResourceTopology.

    ``kubelet`` is ``None`` where the kubelet is not to be asked. ``allocated`` are the CPUs
    that it gave to single containers, by pod UID (``kubelet_cpus``), ``plugins`` those that
    resource plugins gave to single pods. Of ``aside`` the claims of strategies count.
    ``huge_pages`` is the gate HugePageReport: whether they are reported, and not as memory.
    """

    cpus: NodeCPUInfo
    memory: NodeMemoryInfo
    pods: tuple[PodRecord, ...] = ()
    kubelet: KubeletConfig | None = None
    allocated: Mapping[str, frozenset[int]] = field(default_factory=dict)
    huge_pages: bool = False
    plugins: Mapping[str, frozenset[int]] = field(default_factory=dict)
    aside: ReservedCPUs = field(default_factory=ReservedCPUs)


def annotations_of(node: Fields, inputs: TopologyInputs) -> dict[str, str]:
    """By their keys, from the Node's annotations and the inputs."""
    online = inputs.cpus.online
    reservation, reserved = _reservation(node, online)
    if inputs.aside.claimed_idle:
        # Nobody's CPUs, so no scheduler is to give them to an LSR pod.
        kept_back = cpuset.render(reserved | inputs.aside.claimed_idle)
        reservation = {**reservation, "reservedCPUs": kept_back}
    system, exclusive = _system_qos(node)
    allocated = _kept_by_kubelet(inputs)
    out = reserved | exclusive
    kept = frozenset().union(*allocated.values())
    shared = _topology(inputs, inputs.pods, out, kept)
    lse = tuple(pod for pod in inputs.pods if qos_class(pod.pod.labels) is QoSClass.LSE)
    info = inputs.cpus
    basic = {
        "cpuModel": info.model,
        "hyperThreadEnabled": info.smt,
        "turboEnabled": info.turbo,
        "catL3CbmMask": info.cbm_mask,
        "vendorID": info.vendor,
    }
    detail = [
        {
            "id": processor.id,
            "core": processor.core,
            "socket": processor.socket,
            "node": processor.node,
        }
        for processor in sorted(online, key=lambda processor: processor.id)
    ]
    written = {
        ANNOTATION_CPU_BASIC_INFO: {key: value for key, value in basic.items() if value},
        ANNOTATION_CPU_TOPOLOGY: {"detail": detail} if detail else {},
        ANNOTATION_CPU_SHARED_POOLS: _pools(info, shared),
        ANNOTATION_BE_CPU_SHARED_POOLS: _pools(info, _topology(inputs, lse, out, kept)),
        ANNOTATION_CPU_MANAGER_POLICY: _manager_policy(inputs),
        ANNOTATION_POD_CPU_ALLOCS: list(_allocations(allocated, inputs.pods)) or None,
        ANNOTATION_NODE_RESERVATION: reservation,
        ANNOTATION_SYSTEM_QOS_RESOURCE: system,
    }
    if shared.named_pools:
        written[ANNOTATION_CPU_NAMED_POOLS] = list(_named_pools(info, shared))
    return {key: _encode(value).decode() for key, value in written.items()}


def set_aside(node: Mapping[str, object], processors: Iterable[Processor]) -> ReservedCPUs:
    """The CPUs that a Node's annotations take out of the pools; what cannot be used is ignored."""
    fields = Fields(node, "Node", []).of("metadata").of("annotations")
    _, reserved = _reservation(fields, processors)
    system, exclusive = _system_qos(fields)
    return ReservedCPUs(reserved | exclusive, system.get("cpuset", ""))


def _topology(
    inputs: TopologyInputs, pods: Iterable[PodRecord], out: frozenset[int], kept: frozenset[int]
) -> Topology:
    """The pools where only these pods have CPUs of their own.

    ``out`` are in no pool for anybody, ``kept`` are those that the kubelet gave away.
    """
    numa = {node: cpus - out for (_, node), cpus in _by_numa_node(inputs.cpus).items()}
    return share_pools.topology(
        numa,
        [record.pod for record in pods],
        KubeletCPUs(exclusive=kept),
        inputs.aside,
        inputs.plugins,
    )


def _by_numa_node(info: NodeCPUInfo) -> Mapping[tuple[int, int], frozenset[int]]:
    """The CPUs by socket and NUMA node; a NUMA node is in the socket of its first CPU."""
    sockets: dict[int, int] = {}
    numa: dict[int, set[int]] = {}
    for processor in sorted(info.online, key=lambda processor: processor.id):
        numa.setdefault(processor.node, set()).add(processor.id)
        sockets.setdefault(processor.node, processor.socket)
    found = {(sockets[node], node): frozenset(cpus) for node, cpus in numa.items()}
    return dict(sorted(found.items()))


def _pools(info: NodeCPUInfo, topology: Topology) -> list[Object]:
    """The CPUs of each NUMA node that nobody has for itself; without NUMA nodes that have none."""
    found = {pool.numa_node: pool.cpuset for pool in topology.shared_pools}
    return [
        {"socket": socket, "node": node, "cpuset": found[node]}
        for socket, node in _by_numa_node(info)
        if found.get(node)
    ]


def _named_pools(info: NodeCPUInfo, topology: Topology) -> Iterator[Object]:
    """The CPUs of each pool in each NUMA node, by names."""
    for pool in sorted(topology.named_pools, key=lambda pool: pool.name):
        for (socket, node), cpus in _by_numa_node(info).items():
            if here := cpuset.parse(pool.cpuset) & cpus:
                place = {"socket": socket, "node": node}
                yield {"name": pool.name, **place, "cpuset": cpuset.render(here)}


def _reservation(node: Fields, online: Iterable[Processor]) -> tuple[Object, frozenset[int]]:
    """Return the reservation of the Node's annotation, with the CPUs named; and those CPUs."""
    given = _decoded(node, ANNOTATION_NODE_RESERVATION)
    cpus = given.take("reservedCPUs", "", cpu_list, "a CPU list", "none reserved")
    quantities = given.of("resources")
    amount = quantities.take(CPU, 0, milli_quantity, 'CPU like "2"', "none reserved")
    here = tuple(online)
    if amount > 1000 * len(here):
        quantities.refuse(CPU, f"{len(here)} or less, as many as are online", "none reserved")
        amount = 0
    reserved = cpuset.parse(cpus) or take_by_topology(here, -(-amount // 1000))
    written: Object = {}
    if given.has("resources"):
        written["resources"] = _readable(quantities)
    if reserved:
        written["reservedCPUs"] = cpuset.render(reserved)
    if given.has("applyPolicy"):
        written["applyPolicy"] = given.text("applyPolicy")
    return written, reserved


def _system_qos(node: Fields) -> tuple[Object, frozenset[int]]:
    """The CPUs of SYSTEM pods as the Node's annotation has them, and those nobody else may use."""
    given = _decoded(node, ANNOTATION_SYSTEM_QOS_RESOURCE)
    cpus = given.take("cpuset", "", cpu_list, "a CPU list", "left out")
    written: Object = {"cpuset": cpus} if cpus else {}
    alone = given.flag("cpusetExclusive", default=None)
    if alone is not None:
        written["cpusetExclusive"] = alone
    return written, frozenset() if alone is False else cpuset.parse(cpus)


def _manager_policy(inputs: TopologyInputs) -> Object:
    kubelet = inputs.kubelet
    if kubelet is None:
        return {}
    written: Object = {"policy": kubelet.cpu_policy}
    if kubelet.cpu_policy_options:
        written["options"] = dict(sorted(kubelet.cpu_policy_options.items()))
    reserved = static_reserved(kubelet, inputs.cpus.online)
    if reserved:
        written["reservedCPUs"] = cpuset.render(reserved)
    return written


def _kept_by_kubelet(inputs: TopologyInputs) -> dict[str, frozenset[int]]:
    """Return the static policy's CPUs, without those of pods whose CPUs koordlet sets."""
    if inputs.kubelet is None or inputs.kubelet.cpu_policy != STATIC:
        return {}
    ours = {record.pod.uid for record in inputs.pods if _is_managed(record)}
    return {uid: cpus for uid, cpus in sorted(inputs.allocated.items()) if uid not in ours}


def _is_managed(record: PodRecord) -> bool:
    if qos_class(record.pod.labels) in (QoSClass.LS, QoSClass.BE):
        return True
    try:
        return bool(resource_status(record.pod).cpuset)
    except ValueError:
        return False


def _allocations(
    allocated: Mapping[str, frozenset[int]], pods: Iterable[PodRecord]
) -> Iterator[Object]:
    known = {record.pod.uid: record.pod for record in pods}
    for uid, cpus in allocated.items():
        named = known.get(uid)
        name = {"namespace": named.namespace, "name": named.name} if named else {}
        yield {**name, "uid": uid, "cpuset": cpuset.render(cpus), "managedByKubelet": True}


def _decoded(node: Fields, key: str) -> Fields:
    """The object in a Node's annotation; an empty one where there is none."""
    given = node.take(key, None, _json, "JSON", "left out")
    return Fields(given, f"Node annotation {key}:", node.ignored)


def _json(given: object) -> object:
    try:
        return msgspec.json.decode(text(given))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(given) from error


def _readable(quantities: Fields) -> Object:
    """As they are written, without those at which readers of the whole annotation would stop."""
    found: Object = {}
    for name, given in quantities.entries():
        if (
            quantities.take(name, None, milli_quantity, 'an amount like "2"', "left out")
            is not None
        ):
            found[name] = given
    return found
