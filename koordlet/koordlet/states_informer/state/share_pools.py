"""The CPUs that pods share, by NUMA node: those without an exclusive owner. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from koord_model import cpuset
from koord_model.node import SharedPool, Topology
from koord_model.pod import Pod
from koord_model.qos import QoSClass, qos_class
from koord_model.resource_status import resource_status

from koordlet.states_informer.kubelet_cpus import KubeletCPUs

_EXCLUSIVE = (QoSClass.LSE, QoSClass.LSR)


@dataclass(frozen=True, slots=True)
class ReservedCPUs:
    """CPUs that the Node's annotations take out of all pools.

    ``system`` is the kernel CPU list of those that SYSTEM pods run on, "" for none.
    """

    cpus: frozenset[int] = frozenset()
    system: str = ""


def topology(
    numa_cpus: Mapping[int, frozenset[int]],
    pods: Iterable[Pod] | None,
    kubelet: KubeletCPUs | None,
    aside: ReservedCPUs | None = ReservedCPUs(),
) -> Topology:
    """The node's pools, from its online CPUs by NUMA node and the pods it runs.

    LSE and LSR pods take their CPUs out of the pools, as do containers to which the
    kubelet gave CPUs. A pod whose annotation cannot be read takes none: the plugin
    that reads it says so. Where pods, the kubelet's CPUs or those set aside are not known
    (``None``) there are no pools yet.
    """
    online = cpuset.render(frozenset().union(*numa_cpus.values()))
    if pods is None or kubelet is None or aside is None:
        system = "" if aside is None else aside.system
        policy = KubeletCPUs().policy if kubelet is None else kubelet.policy
        return Topology((), system, policy, online=online, owners_known=False)
    taken = (kubelet.exclusive | aside.cpus).union(*(_own_cpus(pod) for pod in pods))
    pools = tuple(
        SharedPool(node, cpuset.render(cpus - taken)) for node, cpus in sorted(numa_cpus.items())
    )
    return Topology(pools, aside.system, kubelet.policy, online=online)


def _own_cpus(pod: Pod) -> frozenset[int]:
    if qos_class(pod.labels) not in _EXCLUSIVE:
        return frozenset()
    try:
        return cpuset.parse(resource_status(pod).cpuset)
    except ValueError:
        return frozenset()
