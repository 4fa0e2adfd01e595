"""Builds the hooks' view of this node from its files.

Without a cluster the rules come from one YAML file (``--nodeslo-file``) with up to
three documents, distinguished by their ``kind``: NodeSLO, Node (its annotations) and
NodeResourceTopology. With one, documents of the API server count instead of those of
their kind in the file. CPU pools that no document gives are computed from /sys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from koord_host.kernel_files.interface import FileReader
from koord_model import cpuset, node_document, node_slo_document
from koord_model.allocation import Allocations, exclusive_cpus
from koord_model.node import Kernel, NodeView, Topology
from koord_model.node_slo import NodeSLO
from koord_model.pod import Pod
from koord_model.yaml_documents import yaml_documents
from koord_service.logs import get_log

from koordlet.states_informer.cpu_manager_state import CPUManagerState, StateSnapshot
from koordlet.states_informer.kubelet_cpus import KubeletCPUs
from koordlet.states_informer.state import share_pools
from koordlet.states_informer.state.last_good import LastGood
from koordlet.states_informer.state.share_pools import ReservedCPUs

_log = get_log("koordlet.node")

_SYS_NODES = "/sys/devices/system/node"
_ONLINE = "/sys/devices/system/cpu/online"
_SYS_CPUS = "online CPUs in /sys/devices/system"


@dataclass(frozen=True, slots=True)
class NodeRules:
    """Content of the file; ``problems`` are lines about unusable parts."""

    slo: NodeSLO
    topology: Topology | None = None
    normalization_ratio: float = 1.0
    problems: tuple[str, ...] = ()


NO_RULES = NodeRules(NodeSLO())


def parse_rules(text: str, online: str = "") -> NodeRules:
    """The documents of a rules file; a field that cannot be used keeps its default.

    ``online`` are the node's CPUs ("": not known): the file can mean no others.

    Raises:
        ValueError: it is not valid YAML, or a document is no object of a known kind.
    """
    try:
        documents = [
            yaml_document for yaml_document in yaml_documents(text) if yaml_document is not None
        ]
    except ValueError as error:
        raise ValueError(f"is not valid YAML: {error}") from None
    rules = NO_RULES
    for document in documents:
        rules = _with_document(rules, document, online)
    return rules


def _with_document(rules: NodeRules, document: object, online: str) -> NodeRules:
    kind = str(document.get("kind", "NodeSLO")) if isinstance(document, dict) else ""
    if not isinstance(document, dict) or kind not in _KINDS:
        known = ", ".join(_KINDS)
        raise ValueError(f'has a document of kind "{kind}"; expected one of {known}')
    return _KINDS[kind](rules, document, online)


def _slo(rules: NodeRules, document: Mapping[str, object], _: str) -> NodeRules:
    slo, problems = node_slo_document.parse(document)
    return replace(rules, slo=slo, problems=rules.problems + problems)


def _node(rules: NodeRules, document: Mapping[str, object], _: str) -> NodeRules:
    ratio, problems = node_document.normalization_ratio(document)
    return replace(rules, normalization_ratio=ratio, problems=rules.problems + problems)


def _topology(rules: NodeRules, document: Mapping[str, object], online: str) -> NodeRules:
    topology, problems = node_document.topology(document, online)
    return replace(rules, topology=topology, problems=rules.problems + problems)


_KINDS: Mapping[str, Callable[[NodeRules, Mapping[str, object], str], NodeRules]] = {
    "NodeSLO": _slo,
    "Node": _node,
    "NodeResourceTopology": _topology,
}


class NodeViewBuilder:
    """The current view; the same object as long as nothing has changed."""

    def __init__(
        self,
        reader: FileReader,
        view: NodeView,
        kernel: Callable[[], Kernel],
        *,
        rules_file: str = "",
        kubelet_dir: str = "/var/lib/kubelet",
        kept_cpus: StateSnapshot | None = None,
    ) -> None:
        """``kept_cpus`` keeps the kubelet's CPUs over a restart."""
        self.set_aside: Callable[[], ReservedCPUs | None] = ReservedCPUs
        """CPUs that the cluster keeps out of the pools; ``None`` until it is known."""
        self.allocations: Callable[[], Allocations] = lambda: view.allocations
        """Those of resource plugins."""
        self._reader = reader
        self._kernel = kernel
        self._rules_file = Path(rules_file) if rules_file else None
        self._read: str | None = None
        self._rules = NO_RULES
        self._from_file = NO_RULES
        self._objects: Mapping[str, Mapping[str, object]] = {}
        self._taken: object = None
        self._kubelet = CPUManagerState(reader, kubelet_dir, kept_cpus)
        self._numa: LastGood[dict[int, frozenset[int]]] = LastGood(_SYS_CPUS, _warn)
        self._computed: Topology | None = None
        self.current = view

    @property
    def newest(self) -> NodeView:
        """The current view, with allocations that have been made since."""
        view, allocations = self.current, self.allocations()
        return view if view.allocations is allocations else replace(view, allocations=allocations)

    def refresh(self, pods: Iterable[Pod] | None) -> tuple[NodeView, tuple[str, ...]]:
        """The view with these pods running, and what is newly wrong with the rules file.

        ``None``: it is not known at present which pods run, and so which CPUs are shared: the
        pools stay. A file that cannot be read or used leaves the last good rules in force.
        """
        problems = self._reread()
        if (self._from_file, self._objects) != self._taken:
            problems += self._take()
        rules = self._rules
        view = replace(
            self.current,
            kernel=self._kernel(),
            slo=rules.slo,
            topology=self._topology(pods, rules.topology),
            cpu_normalization_ratio=rules.normalization_ratio,
            allocations=self.allocations(),
        )
        if view != self.current:
            self.current = view
        return self.current, problems

    def kubelet_cpus(self) -> KubeletCPUs | None:
        """The kubelet's own CPUs, as they were known last; ``None`` until they are."""
        return self._kubelet.current()

    def _topology(self, pods: Iterable[Pod] | None, document: Topology | None) -> Topology:
        """The pools now; those from before while an owner's CPUs are not known.

        A ``document`` says which CPUs there are to share; who has some of them for itself is not
        in it.
        """
        before = self._computed
        pods = None if pods is None else tuple(pods)
        if document is not None and pods is None and before is None:
            pods = ()  # perhaps nobody lists pods, and the document stands for that
        found = share_pools.topology(
            _pools_of(document) or self._numa_cpus(),
            pods,
            self._kubelet.current(),
            self.set_aside(),
            exclusive_cpus(self.allocations(), pods or ()),
        )
        if before is not None and before.owners_known and not found.owners_known:
            return before
        self._computed = found if document is None else _with_words_of(document, found)
        return self._computed

    def update_object(self, kind: str, document: Mapping[str, object] | None) -> None:
        """A document of the API server from now on, or that it has none any more."""
        kept = {key: found for key, found in self._objects.items() if key != kind}
        # Replaced, never changed: another thread reads it.
        self._objects = kept if document is None else {**kept, kind: document}

    def _take(self) -> tuple[str, ...]:
        """Put what the API server says over the file's rules; lines on what of it is ignored."""
        self._taken = (self._from_file, self._objects)
        self._rules = replace(self._from_file, problems=())
        for kind, document in self._objects.items():
            # The state stores objects without their kind.
            self._rules = _with_document(self._rules, {**document, "kind": kind}, self._online())
        return self._rules.problems

    def _online(self) -> str:
        return cpuset.render(frozenset().union(*self._numa_cpus().values()))

    def numa_nodes(self) -> int:
        """The NUMA nodes with CPUs, as bits."""
        return sum(1 << node for node in self._numa.value or {})

    def _numa_cpus(self) -> dict[int, frozenset[int]]:
        def read() -> dict[int, frozenset[int]]:
            found = numa_cpus(self._reader)
            if self._numa.value and not any(found.values()):
                raise ValueError("there are none")
            return found

        return self._numa.refresh(read) or {}

    def _reread(self) -> tuple[str, ...]:
        if self._rules_file is None:
            return ()
        try:
            text = self._rules_file.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as error:
            text = f"\0{getattr(error, 'strerror', None) or error}"
        if text == self._read:
            return ()
        self._read = text
        try:
            if text.startswith("\0"):
                raise ValueError(f"cannot be read: {text[1:]}")
            self._from_file = parse_rules(text, self._online())
        except ValueError as error:
            stays = (
                "the defaults are" if self._from_file is NO_RULES else "the last good rules stay"
            )
            return (f"{self._rules_file} {error} ({stays} in force)",)
        return tuple(f"{self._rules_file}: {line}" for line in self._from_file.problems)


def _pools_of(document: Topology | None) -> dict[int, frozenset[int]]:
    """The pools of a document by NUMA node."""
    found: dict[int, frozenset[int]] = {}
    for pool in document.shared_pools if document else ():
        found[pool.numa_node] = found.get(pool.numa_node, frozenset()) | cpuset.parse(pool.cpuset)
    return found


def _with_words_of(document: Topology, found: Topology) -> Topology:
    named = document.kubelet_policy not in ("", "none")  # the default too
    return replace(
        found,
        system_cpuset=document.system_cpuset or found.system_cpuset,
        kubelet_policy=document.kubelet_policy if named else found.kubelet_policy,
        be_shared_pools=document.be_shared_pools,
        online=document.online,
    )


def numa_cpus(reader: FileReader) -> dict[int, frozenset[int]]:
    """Online CPUs by NUMA node; one node 0 where the kernel knows of none.

    Nodes without CPUs are left out; without sysfs there is nothing.

    Raises:
        OSError, ValueError: one of the files cannot be read or parsed.
    """
    try:
        online = cpuset.parse(reader.read(_ONLINE))
    except FileNotFoundError:
        return {}
    try:
        names = [name for name in reader.entries(_SYS_NODES) if name[4:].isdigit()]
    except FileNotFoundError:
        names = []
    found: dict[int, frozenset[int]] = {}
    for name in names:
        cpus = cpuset.parse(reader.read(f"{_SYS_NODES}/{name}/cpulist")) & online
        if cpus:
            found[int(name[4:])] = cpus
    return found or {0: online}


def _warn(line: str) -> None:
    _log.warning("cannot read the node's state", reason=line)
