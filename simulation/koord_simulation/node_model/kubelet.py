"""Creation of a pod by kubelet, runtime and hooks: its cgroups and first values. No IO.

Shares, quotas and limits by Kubernetes' rules, of batch resources as Koordinator's hook sets
them. CPUs of its own for a pod that was given some; containers of LS pods then run on what is
left, as the hook ``cpuset`` has it. Best-effort pods have no quota of their own where all of
them have one in common.
"""

from __future__ import annotations

from collections.abc import Iterable

from koord_host.knobs.forms import NO_LIMIT
from koord_model import cpuset
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.core.strategy import PodView

from koord_simulation.node_model.cgroups import CPUS, SimulatedCgroups
from koord_simulation.node_model.machine import SimulatedMachine
from koord_simulation.node_model.memory import ContainerMemory
from koord_simulation.node_model.node import SYSTEM_GROUP, SimulatedContainer
from koord_simulation.node_model.workload import MEMORY, Workload

_PERIOD = 100_000
_LEAST_SHARES = 2
_LEAST_QUOTA = 1000
_SYSTEM_ADJ, _GUARANTEED_ADJ, _BE_ADJ = -1000, -997, 1000


class Kubelet:
    """Makes and removes cgroups; ``be_quota`` is whether best-effort pods have quotas of theirs."""

    def __init__(
        self, machine: SimulatedMachine, cgroups: SimulatedCgroups, *, be_quota: bool
    ) -> None:
        self._machine = machine
        self._cgroups = cgroups
        self._be_quota = be_quota
        self._pods: dict[str, tuple[Workload, PodView]] = {}
        layout = machine.layout
        cgroups.create(SYSTEM_GROUP)
        root = layout.kube_qos_group(KubeQoS.GUARANTEED)
        cgroups.create(root, cpu_shares=1024 * machine.cpus)
        self._burstable = layout.kube_qos_group(KubeQoS.BURSTABLE)
        cgroups.create(self._burstable, cpu_shares=_LEAST_SHARES)
        cgroups.create(layout.kube_qos_group(KubeQoS.BEST_EFFORT), cpu_shares=_LEAST_SHARES)

    def system(self) -> SimulatedContainer:
        """The system's own processes, beside pods."""
        return SimulatedContainer(SYSTEM_GROUP, ContainerMemory(SYSTEM_GROUP, _SYSTEM_ADJ))

    def start(self, pod: Workload, view: PodView) -> list[SimulatedContainer]:
        """Make a pod's groups; its containers."""
        count = pod.containers
        self._cgroups.create(view.group, **self._values(pod, count))
        leaves = []
        for container in view.containers:
            self._cgroups.create(container.group, **self._values(pod, 1))
            held = ContainerMemory(container.group, self._oom_score_adj(pod), cold_part=pod.cold)
            leaves.append(
                SimulatedContainer(container.group, held, pod, view.uid, container.container.id)
            )
        self._pods[view.uid] = (pod, view)
        self._level()
        return leaves

    def end(self, view: PodView) -> None:
        """Remove a pod's groups."""
        self._cgroups.remove(view.group)
        del self._pods[view.uid]
        self._level()

    def _values(self, pod: Workload, count: int) -> dict[str, int]:
        """Knobs of a group that has so many of the pod's containers in it."""
        shares = max(int(count * pod.cpu_request() * 1024), _LEAST_SHARES)
        quota = int(count * pod.cpu_limit() * _PERIOD)
        best_effort = pod.kube is KubeQoS.BEST_EFFORT
        free = not quota or pod.cpus or (best_effort and not self._be_quota)
        limit = count * pod.memory_limit()
        return {
            "cpu_shares": shares,
            "cpu_cfs_quota_us": NO_LIMIT if free else max(quota, _LEAST_QUOTA),
            "memory_limit_in_bytes": limit or NO_LIMIT,
        }

    def _oom_score_adj(self, pod: Workload) -> int:
        if pod.oom_score_adj is not None:
            return pod.oom_score_adj
        if pod.kube is KubeQoS.BEST_EFFORT:
            return _BE_ADJ
        if pod.kube is KubeQoS.GUARANTEED:
            return _GUARANTEED_ADJ
        asked = pod.requested(pod.requests, MEMORY)
        return int(min(max(1000 - 1000 * asked / self._machine.memory, 3), 999))

    def _level(self) -> None:
        """Update the values that depend on all pods: burstable shares, CPUs of shared pools."""
        burstable = [pod for pod, _ in self._pods.values() if pod.kube is KubeQoS.BURSTABLE]
        shares = sum(int(pod.cpu_request() * pod.containers * 1024) for pod in burstable)
        self._cgroups.put(self._burstable, "cpu.shares", min(max(shares, _LEAST_SHARES), 262144))
        pool = self._pool(pod.cpus for pod, _ in self._pods.values())
        for pod, view in self._pods.values():
            cpus = pod.cpus or (pool if pod.qos is QoSClass.LS else "")
            if cpus:
                for container in view.containers:
                    self._cgroups.put(container.group, CPUS, cpus)

    def _pool(self, taken: Iterable[str]) -> str:
        """Return the CPUs that pods share where some have CPUs of their own; else ""."""
        own = frozenset().union(*map(cpuset.parse, taken))
        return cpuset.render(cpuset.parse(self._machine.online) - own) if own else ""
