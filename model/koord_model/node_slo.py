"""Settings of the cluster for this node: a NodeSLO.

Defaults are Koordinator's, where a class that is not enabled is neutral.
``koord_model.node_slo_document`` reads one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from koord_model import memory_qos
from koord_model.blkio_qos import BlkIOQoS
from koord_model.cpu_burst import CPUBurst
from koord_model.memory_qos import MemoryQoS
from koord_model.qos import QoSClass
from koord_model.service_profile import ServiceProfile
from koord_model.system_strategy import SystemStrategy
from koord_model.used_threshold import UsedThreshold


@dataclass(frozen=True, slots=True)
class CPUQoS:
    """``group_identity`` -1 (yields to everyone) to 2; ``sched_idle`` 0 or 1.

    ``core_expeller`` keeps others off the hyper-thread beside these pods.
    """

    enable: bool = False
    group_identity: int = 0
    sched_idle: int = 0
    core_expeller: bool = False


@dataclass(frozen=True, slots=True)
class ResctrlQoS:
    """Cache ways from ``cat_start`` to ``cat_end``, and memory bandwidth; percent."""

    enable: bool = False
    cat_start: int = 0
    cat_end: int = 100
    mba: int = 100


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Network bandwidth: a share of the node's, in percent, or bits a second."""

    percent: int | None = None
    bits: int | None = None

    def of(self, total: int) -> int:
        """Bits a second, on a node that has ``total``; 0 where nothing is set."""
        if self.bits is not None:
            return self.bits
        return total * (self.percent or 0) // 100


@dataclass(frozen=True, slots=True)
class NetworkQoS:
    """Bandwidth that is guaranteed to a class (request), and its maximum (limit)."""

    enable: bool = False
    ingress_request: Bandwidth = Bandwidth()
    ingress_limit: Bandwidth = Bandwidth()
    egress_request: Bandwidth = Bandwidth()
    egress_limit: Bandwidth = Bandwidth()


@dataclass(frozen=True, slots=True)
class ClassQoS:
    """The strategy of one quality class; what is not enabled is neutral."""

    cpu: CPUQoS = CPUQoS()
    resctrl: ResctrlQoS = ResctrlQoS()
    network: NetworkQoS = NetworkQoS()
    memory: MemoryQoS = field(default_factory=MemoryQoS)
    blkio: BlkIOQoS = field(default_factory=BlkIOQoS)


class CPUPolicy(StrEnum):
    """Separation of classes on the CPU."""

    GROUP_IDENTITY = "groupIdentity"
    CORE_SCHED = "coreSched"


class NetPolicy(StrEnum):
    """Agent that shapes the network; ``NONE``: nobody."""

    NONE = ""
    TC = "tc"
    TERWAY = "terway-qos"


@dataclass(frozen=True, slots=True)
class HostApplication:
    """A process group outside Kubernetes.

    ``base`` is one of CgroupRoot, Kubepods, KubepodsBurstable, KubepodsBesteffort,
    or "" for the default group of its class.
    """

    name: str
    qos: QoSClass = QoSClass.NONE
    priority: str = ""
    base: str = ""
    parent_dir: str = ""
    relative_path: str = ""


_LS_CPU = CPUQoS(group_identity=2, core_expeller=True)

RECOMMENDED: Mapping[QoSClass, ClassQoS] = {
    QoSClass.LSR: ClassQoS(_LS_CPU, memory=memory_qos.RECOMMENDED[QoSClass.LSR]),
    QoSClass.LS: ClassQoS(_LS_CPU, memory=memory_qos.RECOMMENDED[QoSClass.LS]),
    QoSClass.BE: ClassQoS(
        CPUQoS(group_identity=-1),
        ResctrlQoS(cat_end=30),
        memory=memory_qos.RECOMMENDED[QoSClass.BE],
    ),
    QoSClass.SYSTEM: ClassQoS(memory=memory_qos.RECOMMENDED[QoSClass.SYSTEM]),
}
"""Settings of a class that is enabled without any of its own."""


@dataclass(frozen=True, slots=True)
class RolloutVersion:
    """Entry of the configuration that a node's settings are from, and their version.

    ``problem`` is a line about what of the NodeSLO cannot be used, "" if all can.
    """

    entry: str
    version: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class NodeSLO:
    """The node's service level objectives.

    ``total_network_bandwidth`` is bits a second, 0 where it is not known. ``root_blkio`` is
    what is asked of the devices themselves. ``strategies`` is what
    ``extensions.pykoord.strategies`` says, by strategy: its mode and settings, read by
    ``koordlet.qos_manager.core.settings``; ``rollout`` is the version of that. ``services`` are the
    profiles of services that have pods here.
    """

    cpu_policy: CPUPolicy = CPUPolicy.GROUP_IDENTITY
    net_policy: NetPolicy = NetPolicy.NONE
    classes: Mapping[QoSClass, ClassQoS] = field(default_factory=dict)
    threshold: UsedThreshold = field(default_factory=UsedThreshold)
    burst: CPUBurst = field(default_factory=CPUBurst)
    system: SystemStrategy = field(default_factory=SystemStrategy)
    root_blkio: BlkIOQoS = field(default_factory=BlkIOQoS)
    strategies: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    rollout: RolloutVersion | None = None
    total_network_bandwidth: int = 0
    host_applications: tuple[HostApplication, ...] = ()
    services: tuple[ServiceProfile, ...] = ()

    def of(self, qos: QoSClass) -> ClassQoS:
        """The strategy of a class; LSE shares LSR's, a pod without class has none."""
        wanted = QoSClass.LSR if qos is QoSClass.LSE else qos
        return self.classes.get(wanted, ClassQoS())
