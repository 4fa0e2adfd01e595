"""A stand-in for kubelet, containerd and runc: requests become cgroups and processes.

Kept to what matters for what is in the kernel's files in the end. The real ones are
asked in ``tests/integration``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from koord_host.knobs.layout import Layout, ScopePrefix
from koord_host.knobs.table import KNOBS
from koord_host.knobs.weights import WeightFormula
from koord_model.qos import KubeQoS
from koord_proto import cri_pb2 as cri
from koord_proto import nri_pb2 as nri

from tests.support.node.kernel import FakeKernel
from tests.support.node.pods import PodSpec
from tests.support.nri_limits import resources

_KNOBS = {
    "cpu_shares": "cpu.shares",
    "cpu_period": "cpu.cfs_period_us",
    "cpu_quota": "cpu.cfs_quota_us",
    "cpuset_cpus": "cpuset.cpus",
    "cpuset_mems": "cpuset.mems",
    "memory_limit_in_bytes": "memory.limit_in_bytes",
}
_SANDBOX_SCORE = -998


@dataclass
class Spec:
    """What of a container is in its OCI specification and in no kernel file."""

    env: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    mounts: list[str] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)


class FakeRuntime:
    """Makes pods and containers as they are asked for, and shows them to NRI."""

    def __init__(self, node: FakeKernel, layout: Layout) -> None:
        self.node = node
        self.layout = layout
        self.specs: dict[str, Spec] = {}
        self.pids: dict[str, int] = {}
        #: How it makes weights of shares; the kubelet's are linear.
        self.formula = WeightFormula.LINEAR

    def make_qos_groups(self) -> None:
        """What the kubelet does when it starts."""
        for qos in KubeQoS:
            self.node.cgroups.make_group(self.layout.kube_qos_group(qos))
        # It gives its least to the class without requests.
        self._set(self.layout.kube_qos_group(KubeQoS.BEST_EFFORT), "cpu.shares", 2)

    def start(self, pod: PodSpec) -> None:
        """Make a pod with its sandbox and its container; nobody is asked about it."""
        config = pod.sandbox_request(self.layout).config
        self.make_pod_group(config)
        self.run_sandbox(config)
        self.create(pod.container_request(self.layout))

    def make_pod_group(self, config: cri.PodSandboxConfig) -> None:
        """What the kubelet does before it asks for a sandbox."""
        group = self.layout.group_of_parent(config.linux.cgroup_parent)
        self.node.cgroups.make_group(group)
        self._limit(group, config.linux.resources)

    def run_sandbox(self, config: cri.PodSandboxConfig) -> None:
        """Make a sandbox with its process."""
        group = self.group(config, f"{config.metadata.name}-sandbox")
        self.node.cgroups.make_group(group)
        self._set(group, "cpu.shares", 2)
        self.node.start_process(group, _SANDBOX_SCORE)

    def create(
        self, request: cri.CreateContainerRequest, adjust: nri.ContainerAdjustment | None = None
    ) -> str:
        """Make a container, with what NRI plugins adjusted; its id. Its process starts too."""
        adjust = adjust or nri.ContainerAdjustment()
        ident = f"{request.sandbox_config.metadata.name}-main"
        group = self.group(request.sandbox_config, ident)
        limits = request.config.linux.resources
        _adjust(limits, adjust.linux)
        self.node.cgroups.make_group(group)
        self._limit(group, limits)
        self.pids[ident] = self.node.start_process(group, limits.oom_score_adj)
        if adjust.linux.resources.HasField("rdt_class"):
            cache = adjust.linux.resources.rdt_class.value
            tasks = f"{self.layout.resctrl_root}/{cache}/tasks"
            self.node.write(tasks, f"{self.pids[ident]}\n")
        self.specs[ident] = Spec(
            env={one.key: one.value.decode() for one in request.config.envs}
            | {one.key: one.value for one in adjust.env},
            annotations={**request.config.annotations, **adjust.annotations},
            mounts=[one.destination for one in adjust.mounts],
            devices=[one.path for one in adjust.linux.devices],
        )
        return ident

    def group(self, config: cri.PodSandboxConfig, ident: str) -> str:
        """The cgroup of a container, or of the sandbox."""
        above = self.layout.group_of_parent(config.linux.cgroup_parent)
        return self.layout.container_group(above, ident, ScopePrefix.CONTAINERD)

    def shown_sandbox(self, config: cri.PodSandboxConfig, handler: str = "") -> nri.PodSandbox:
        """A pod as NRI's plugins see it."""
        sandbox = nri.PodSandbox(
            id=f"{config.metadata.name}-sandbox",
            name=config.metadata.name,
            uid=config.metadata.uid,
            namespace=config.metadata.namespace,
            labels=config.labels,
            annotations=config.annotations,
            runtime_handler=handler,
        )
        sandbox.linux.cgroup_parent = config.linux.cgroup_parent
        sandbox.linux.pod_resources.CopyFrom(_shown(config.linux.resources))
        return sandbox

    def shown_container(self, request: cri.CreateContainerRequest) -> nri.Container:
        """A container as NRI's plugins see it: with what was adjusted, once it is made."""
        ident = f"{request.sandbox_config.metadata.name}-main"
        made = self.specs.get(ident) or Spec(
            env={one.key: one.value.decode() for one in request.config.envs},
            annotations=dict(request.config.annotations),
        )
        container = nri.Container(
            id=ident,
            pod_sandbox_id=request.pod_sandbox_id,
            name=request.config.metadata.name,
            annotations=made.annotations,
            env=[f"{name}={value}" for name, value in made.env.items()],
            state=nri.CONTAINER_RUNNING,
        )
        limits = request.config.linux.resources
        container.linux.resources.CopyFrom(_shown(limits))
        container.linux.oom_score_adj.value = limits.oom_score_adj
        return container

    def _limit(self, group: str, limits: cri.LinuxContainerResources) -> None:
        for field_name, knob in _KNOBS.items():
            value = getattr(limits, field_name)
            if value:
                self._set(group, knob, value)

    def _set(self, group: str, knob: str, value: int | str) -> None:
        """One value into its file, in the runtime's spelling; what is so is left."""
        version, row = self.layout.version, KNOBS[knob]
        path = self.layout.path(row, group)
        current = self.node.read(path)
        if knob == "cpu.shares" and version == 2:
            text = str(self.formula.weight(int(value)))
        else:
            text = row.form(version).encode(value, current)
        if not row.form(version).holds(value, current):
            self.node.write(path, text)


def _adjust(limits: cri.LinuxContainerResources, adjusted: nri.LinuxContainerAdjustment) -> None:
    cpu = adjusted.resources.cpu
    for parent, there, name in (
        (cpu, "shares", "cpu_shares"),
        (cpu, "quota", "cpu_quota"),
        (cpu, "period", "cpu_period"),
        (adjusted.resources.memory, "limit", "memory_limit_in_bytes"),
        (adjusted, "oom_score_adj", "oom_score_adj"),
    ):
        if parent.HasField(there):
            setattr(limits, name, getattr(parent, there).value)
    limits.cpuset_cpus = cpu.cpus or limits.cpuset_cpus
    limits.cpuset_mems = cpu.mems or limits.cpuset_mems


def _shown(limits: cri.LinuxContainerResources) -> nri.LinuxResources:
    return resources(
        cpu_shares=limits.cpu_shares or None,
        cpu_quota=limits.cpu_quota or None,
        cpu_period=limits.cpu_period or None,
        cpuset_cpus=limits.cpuset_cpus,
        cpuset_mems=limits.cpuset_mems,
        memory_limit=limits.memory_limit_in_bytes or None,
    )
