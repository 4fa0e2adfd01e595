"""The CPUs that pods share, by NUMA node: those without an exclusive owner. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from koord_model import cpuset
from koord_model.node import NamedPool, SharedPool, Topology
from koord_model.pod import Pod
from koord_model.qos import QoSClass, qos_class
from koord_model.resource_status import resource_status

from koordlet.states_informer.kubelet_cpus import KubeletCPUs

_EXCLUSIVE = (QoSClass.LSE, QoSClass.LSR)
_NOBODY: Mapping[str, frozenset[int]] = {}


@dataclass(frozen=True, slots=True)
class ReservedCPUs:
    """CPUs that are in no shared pool.

    ``cpus`` are those of the Node's annotations. ``system`` is the kernel CPU list of those that
    SYSTEM pods run on, "" for none. ``claims`` are those of strategies, by their names; on
    ``named``, which are among them, only the pods of a pool run.
    """

    cpus: frozenset[int] = frozenset()
    system: str = ""
    claims: Mapping[str, frozenset[int]] = field(default_factory=dict)
    named: tuple[NamedPool, ...] = ()

    @property
    def all(self) -> frozenset[int]:
        """All of them."""
        return self.cpus.union(*self.claims.values())

    @property
    def idle(self) -> frozenset[int]:
        """Those on which no pod runs."""
        return self.all - self._pooled

    @property
    def claimed_idle(self) -> frozenset[int]:
        """Those that strategies keep from all pods."""
        return frozenset().union(*self.claims.values()) - self._pooled

    @property
    def _pooled(self) -> frozenset[int]:
        return frozenset().union(*(cpuset.parse(pool.cpuset) for pool in self.named))

    def with_claim(self, strategy: str, cpus: frozenset[int]) -> ReservedCPUs:
        """These, after a strategy has changed its claim."""
        if cpus == self.claims.get(strategy, frozenset()):
            return self
        return replace(self, claims={**self.claims, strategy: cpus})

    def others(self, strategy: str) -> frozenset[int]:
        """The claims of all strategies but this one."""
        found = (cpus for name, cpus in self.claims.items() if name != strategy)
        return frozenset().union(*found)


def topology(
    numa_cpus: Mapping[int, frozenset[int]],
    pods: Iterable[Pod] | None,
    kubelet: KubeletCPUs | None,
    aside: ReservedCPUs | None = ReservedCPUs(),
    allocated: Mapping[str, frozenset[int]] = _NOBODY,
) -> Topology:
    """The node's pools, from the CPUs to share by NUMA node and the pods it runs.

    LSE and LSR pods take their CPUs out of the pools, as do containers to which the
    kubelet gave CPUs, and pods to which resource plugins ``allocated`` some. A pod whose
    annotation cannot be read takes none: the plugin that reads it says so. Where pods, the
    kubelet's CPUs or those set aside are not known (``None``) there are no pools yet.
    """
    online = cpuset.render(frozenset().union(*numa_cpus.values()))
    if pods is None or kubelet is None or aside is None:
        system = "" if aside is None else aside.system
        policy = KubeletCPUs().policy if kubelet is None else kubelet.policy
        return Topology((), system, policy, online=online, owners_known=False)
    exclusive = _exclusive(pods, kubelet, allocated)
    owned = (kubelet.exclusive | aside.cpus).union(*exclusive.values())
    taken = owned | aside.all
    pools = tuple(
        SharedPool(node, cpuset.render(cpus - taken)) for node, cpus in sorted(numa_cpus.items())
    )
    named = tuple(_without(aside.named, owned))
    return Topology(
        pools, aside.system, kubelet.policy, online=online, named_pools=named, exclusive=exclusive
    )


def _exclusive(
    pods: Iterable[Pod], kubelet: KubeletCPUs, allocated: Mapping[str, frozenset[int]]
) -> Mapping[str, frozenset[int]]:
    own = {pod.uid: cpus for pod in pods if (cpus := _own_cpus(pod))}
    sources = (own, kubelet.by_pod, allocated)
    return {
        uid: frozenset().union(*(source.get(uid, frozenset()) for source in sources))
        for uid in own.keys() | kubelet.by_pod.keys() | allocated.keys()
    }


def _without(pools: Iterable[NamedPool], owned: frozenset[int]) -> Iterator[NamedPool]:
    """A pod that was given a CPU of a pool has it at once."""
    for pool in pools:
        if left := cpuset.parse(pool.cpuset) - owned:
            yield NamedPool(pool.name, cpuset.render(left))


def _own_cpus(pod: Pod) -> frozenset[int]:
    if qos_class(pod.labels) not in _EXCLUSIVE:
        return frozenset()
    try:
        return cpuset.parse(resource_status(pod).cpuset)
    except ValueError:
        return frozenset()
