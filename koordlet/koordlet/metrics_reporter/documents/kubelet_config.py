"""The kubelet's configuration and CPU manager's state, in the scheduler's terms. No IO.

The configuration is what the kubelet answers at ``/configz``. It does not report
which CPUs its static policy reserves: they are calculated here as the kubelet does
(k8s.io/kubernetes/pkg/kubelet/cm/cpumanager).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from koord_model import cpuset
from koord_model.fields import Fields, cpu_list, text
from koord_model.keys import CPU
from koord_model.node_info import Processor
from koord_model.quantity import milli

STATIC = "static"

_LEVELS = ("SingleNUMANode", "Restricted", "BestEffort")
_WORDS = {"single-numa-node": _LEVELS[0], "restricted": _LEVELS[1], "best-effort": _LEVELS[2]}


@dataclass(frozen=True, slots=True)
class KubeletConfig:
    """The kubelet's policies.

    ``reserved_cpus`` is a kernel CPU list, "" where the kubelet picks them itself;
    ``reserved_millicores`` is how much CPU it sets aside for the system and for itself.
    """

    cpu_policy: str = "none"
    cpu_policy_options: Mapping[str, str] = field(default_factory=dict)
    topology_policy: str = "none"
    topology_scope: str = "container"
    reserved_cpus: str = ""
    reserved_millicores: int = 0

    @property
    def topology_level(self) -> str:
        """Policy and scope in the one word that NodeResourceTopology has for both."""
        level = _WORDS.get(self.topology_policy)
        if level is None:
            return "None"
        return f"{level}{'Pod' if self.topology_scope == 'pod' else 'Container'}Level"


def parse(document: Mapping[str, object]) -> tuple[KubeletConfig, tuple[str, ...]]:
    """The configuration in an answer of ``/configz``, and lines on what cannot be used."""
    ignored: list[str] = []
    fields = Fields(document, "kubelet /configz", ignored).of("kubeletconfig")
    held = ("kubeReserved", "systemReserved", "evictionHard")
    found = KubeletConfig(
        cpu_policy=fields.text("cpuManagerPolicy", "none") or "none",
        cpu_policy_options=fields.take("cpuManagerPolicyOptions", {}, _words, "texts by name"),
        topology_policy=fields.text("topologyManagerPolicy", "none") or "none",
        topology_scope=fields.text("topologyManagerScope", "container") or "container",
        reserved_cpus=fields.take("reservedSystemCPUs", "", cpu_list, "a CPU list"),
        reserved_millicores=sum(_reserved(fields.of(name)) for name in held),
    )
    return found, tuple(ignored)


def static_reserved(config: KubeletConfig, processors: Iterable[Processor]) -> frozenset[int]:
    """The CPUs that the static policy gives to no container alone; none under another."""
    if config.cpu_policy != STATIC:
        return frozenset()
    if config.reserved_cpus:
        return cpuset.parse(config.reserved_cpus)
    return take_by_topology(processors, -(-config.reserved_millicores // 1000))


def take_by_topology(processors: Iterable[Processor], number: int) -> frozenset[int]:
    """So many of the CPUs, packed: whole NUMA nodes, whole sockets, whole cores, then threads.

    All are free, so that of equals the lowest is taken, as the kubelet does.
    """
    free = list(processors)
    taken: set[int] = set()
    for unit in (_node, _socket, _core, _thread):
        groups: dict[tuple[int, ...], list[int]] = {}
        for processor in free:
            groups.setdefault(unit(processor), []).append(processor.id)
        for _, cpus in sorted(groups.items()):
            if len(cpus) <= number - len(taken):
                taken.update(cpus)
        free = [processor for processor in free if processor.id not in taken]
    return frozenset(taken)


def _node(processor: Processor) -> tuple[int, ...]:
    return (processor.node,)


def _socket(processor: Processor) -> tuple[int, ...]:
    return (processor.socket,)


def _core(processor: Processor) -> tuple[int, ...]:
    return (processor.node, processor.socket, processor.core)


def _thread(processor: Processor) -> tuple[int, ...]:
    return (processor.node, processor.socket, processor.core, processor.id)


def _reserved(fields: Fields) -> int:
    return fields.take(CPU, 0, lambda given: milli(text(given)), 'CPU like "500m"', "not counted")


def _words(given: object) -> Mapping[str, str]:
    if not isinstance(given, Mapping):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return {str(name): text(word) for name, word in given.items()}
