"""A node in memory, and a koordlet that manages it: all of it but real system calls."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

from koord_hooks.runner import HookRunner, load
from koord_host.core_sched import CoreSched
from koord_host.host_traffic import TrafficReport
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS
from koord_host.knobs.weights import WeightFormula
from koord_host.planning.jobs import CancelToken, InlineJobs, Jobs
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import ChangeEntry, Journal
from koord_host.resource_executor.restore import RestoreResult
from koord_model import cpuset
from koord_model.keys import ANNOTATION_RESOURCE_STATUS, CPU, MEMORY
from koord_model.traffic import Traffic
from koord_service.log_deduplicator import LogDeduplicator
from koordctl.restore import put_back
from koordlet.agent.config import KoordletSettings
from koordlet.agent.runtime_hooks import ManagedNode, find_layout, open_node, open_pods
from koordlet.qos_manager.core.strategy import PodView
from koordlet.runtime_hooks.hook_metrics import ReconcileMetrics
from prometheus_client import CollectorRegistry

from tests.support.journals import read
from tests.support.node.kernel import CPUS, FakeKernel
from tests.support.node.pods import PodSpec
from tests.support.node.runtime import FakeRuntime
from tests.support.views import AT, STEADY

VERBS = "0000:3b:00.2"
"""The address of the node's one RDMA device, uverbs0."""
NO_DIRECTORY = Path("/nonexistent")


class NodeFixture:
    """A node with pods and clocks; koordlets that it opened end when it is closed.

    ``directory`` is koordlet's: state, rules, RDMA devices.
    """

    def __init__(
        self,
        directory: Path = NO_DIRECTORY,
        version: int = 2,
        driver: Driver = Driver.CGROUPFS,
        *,
        vendor: bool = False,
        iocost: bool = False,
        static: bool = False,
        files: FakeKernel | None = None,
    ) -> None:
        self.directory = directory
        self.files = files or FakeKernel(version, vendor=vendor, iocost=iocost)
        self.layout = Layout(version, driver)
        self.runtime = FakeRuntime(self.files, self.layout)
        self.runtime.make_qos_groups()
        #: Whether the kubelet has the static CPU policy.
        self.static = static
        self.wall, self.steady = AT, STEADY
        self.pods: list[PodView] = []
        self._stack = ExitStack()
        if static:
            self._write_cpu_state()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._stack.close()

    # ---- pods

    def start(self, *pods: PodView | PodSpec) -> None:
        """Pods begin: the kubelet and the runtime make their groups and processes."""
        for pod in pods:
            if isinstance(pod, PodSpec):
                self.runtime.start(pod)
            else:
                self.pods.append(pod)
                self._make(pod)
        if self.static:
            self._write_cpu_state()

    def stop(self, *pods: PodView) -> None:
        """Pods end, and their groups with them."""
        gone = {pod.uid for pod in pods}
        self.pods = [pod for pod in self.pods if pod.uid not in gone]
        for pod in pods:
            self.files.remove_group(pod.group)
        if self.static:
            self._write_cpu_state()

    def _make(self, pod: PodView) -> None:
        groups = [pod.group, f"{pod.group}/sandbox", *(one.group for one in pod.containers)]
        for group in groups:
            self.files.cgroups.make_group(group)
        demand = pod.demand
        assert demand is not None
        self._limit(pod.group, demand.limits)
        for one in pod.containers:
            self._limit(one.group, demand.container_limits[one.container.name])
            self.files.start_process(one.group)
            if self.static and (own := _own_cpus(pod)):
                self.set(one.group, "cpuset.cpus", own)
        self.files.start_process(f"{pod.group}/sandbox", -998)

    def _limit(self, group: str, limits: Mapping[str, int]) -> None:
        """As the kubelet computes them; it knows no batch resources."""
        self.set(group, "cpu.shares", max(limits.get(CPU, 0) * 1024 // 1000, 2))
        if CPU in limits:
            self.set(group, "cpu.cfs_quota_us", limits[CPU] * 100)
        if MEMORY in limits:
            self.set(group, "memory.limit_in_bytes", limits[MEMORY])

    def _write_cpu_state(self) -> None:
        """The state file of a kubelet with the static policy."""
        entries = {pod.uid: {"main": _own_cpus(pod)} for pod in self.pods if _own_cpus(pod)}
        text = json.dumps({"policyName": "static", "entries": entries})
        self.files.plain.texts["/var/lib/kubelet/cpu_manager_state"] = text

    # ---- what files contain

    def set(self, group: str, knob: str, value: int | str) -> None:
        """As another process sets it."""
        row = KNOBS[knob]
        path = self.layout.path(row, group)
        if knob == "cpu.shares" and self.layout.version == 2:
            text = str(WeightFormula.LINEAR.weight(int(value)))
        else:
            text = row.form(self.layout.version).encode(value, self.files.read(path))
        self.files.cgroups.write(path, text)

    def value(self, group: str, knob: str) -> int | str:
        """What a knob of a group has."""
        row = KNOBS[knob]
        return row.form(self.layout.version).decode(self.files.read(self.layout.path(row, group)))

    def path(self, group: str, file: str) -> str:
        """Where a group's file is."""
        return f"{self.layout.group_path(group, file.partition('.')[0])}/{file}"

    def read(self, group: str, file: str) -> str:
        """What a group's file contains."""
        return self.files.read(self.path(group, file)).strip()

    def write(self, group: str, file: str, text: object) -> None:
        self.files.write(self.path(group, file), str(text))

    def cpus(self, group: str) -> frozenset[int]:
        """A group's own CPUs; on v2 there may be none of its own."""
        return cpuset.parse(str(self.value(group, "cpuset.cpus")))

    def values(self) -> dict[str, str]:
        """All that can be set.

        A cpuset of its own that has all CPUs is as good as none (where v2 has tasks, the
        kernel does not take an empty one again), and a disk without a limit, or whose cost
        is not modelled, as one that was never named.
        """
        self.files.cgroups.check()
        found = self.files.values(self.layout)
        root = self.layout.group_path("", "blkio")
        for file in ("io.cost.qos", "io.cost.model", "blkio.cost.qos", "blkio.cost.model"):
            if self.files.exists(f"{root}/{file}"):
                found[f"{root}/{file}"] = self.files.read(f"{root}/{file}")
        return {path: _normal(path, text) for path, text in found.items()}

    # ---- koordlet

    def settings(self, **more: Any) -> KoordletSettings:
        """koordlet's settings for this node, with an RDMA device."""
        device = self.directory / "sys/class/infiniband_verbs/uverbs0"
        if not device.exists():
            device.mkdir(parents=True)
            (self.directory / VERBS).mkdir()
            (device / "device").symlink_to(self.directory / VERBS)
        defaults = {
            "cgroup_version": str(self.layout.version),
            "cgroup_driver": self.layout.driver.value,
            "sys_root_dir": str(self.directory / "sys"),
            "state_dir": str(self.directory / "state"),
        }
        return KoordletSettings(**(defaults | more))

    def start_koordlet(self, *plugins: str, **options: Any) -> ManagedNode:
        """``koordlet``, until this node is closed."""
        return self._stack.enter_context(self.koordlet(*plugins, **options))

    @contextmanager
    def koordlet(
        self,
        *plugins: str,
        runner: HookRunner | None = None,
        log: LogDeduplicator | None = None,
        jobs: Jobs | None = None,
        **settings: Any,
    ) -> Iterator[ManagedNode]:
        """Opens the node as koordlet does, with hook plugins by name.

        Slow effects happen at once, unless ``jobs`` are given.
        """
        wanted = self.settings(**settings)
        metrics = ReconcileMetrics(CollectorRegistry())
        with self.system_calls():
            layout = find_layout(wanted, self.files)
            opened = open_node(
                wanted,
                runner or (load(plugins) if plugins else HookRunner([])),
                log or LogDeduplicator(),
                self.files,
                metrics,
                layout,
                open_pods(wanted, layout, self.files),
                jobs=jobs or InlineJobs(lambda: 0.0),
            )
            opened.build_view()
        try:
            yield opened
        finally:
            opened.shut_down()
            opened.reconcile_loop._writer.shutdown()

    def system_calls(self) -> Any:
        """Patches what is not done by files: core scheduling, and traffic control."""
        files = self.files

        class FakeTraffic:
            def __init__(self, *_: object, **__: object) -> None: ...

            def reconcile(
                self, wanted: Traffic | None, why: str, cancel: CancelToken
            ) -> TrafficReport:
                files.traffic = wanted
                return TrafficReport()

        cookies = partial(CoreSched, prctl=files.prctl)
        where = "koordlet.agent.runtime_hooks"
        return patch.multiple(where, CoreSched=cookies, HostTraffic=FakeTraffic)

    def executor(self) -> Executor:
        """An executor alone, without a journal, by this node's clock."""
        return Executor(
            self.files,
            self.layout,
            Journal("", print),
            BaselineStore(""),
            clock=lambda: self.wall,
            monotonic=lambda: self.steady,
        )

    def journal(self) -> list[ChangeEntry]:
        return list(read(str(self.directory / "state/journal.jsonl")))

    def copied(self, directory: Path) -> Self:
        """This node as it is now, with what koordlet has on its disk."""
        directory.mkdir(parents=True)
        if (self.directory / "state").exists():
            shutil.copytree(self.directory / "state", directory / "state")
        at_write, self.files.at_write = self.files.at_write, None
        twin = copy.copy(self)
        twin.directory, twin.files = directory, copy.deepcopy(self.files)
        twin.runtime = FakeRuntime(twin.files, self.layout)
        twin.pods, twin._stack = list(self.pods), ExitStack()
        self.files.at_write = at_write
        return twin

    def restored(self) -> list[RestoreResult]:
        """What ``koordctl restore`` does: put back without a koordlet."""
        with patch("koordctl.restore.detect.layout", lambda *_, **__: self.layout):
            return put_back(self.files, str(self.directory / "state"), lambda _: None)


def _own_cpus(pod: PodView) -> str:
    status = pod.record.pod.annotations.get(ANNOTATION_RESOURCE_STATUS, "{}")
    return str(json.loads(status).get("cpuset", ""))


def _normal(path: str, text: str) -> str:
    file = path.rpartition("/")[2]
    if file == "cpuset.cpus" and text.strip() == CPUS:
        return ""
    if file.endswith(".cost.qos"):
        return "\n".join(line for line in text.splitlines() if " enable=0 " not in line)
    if file.endswith(".cost.model"):
        return "\n".join(line for line in text.splitlines() if " ctrl=auto " not in line)
    if file == "io.max":
        return "\n".join(line for line in text.splitlines() if not _unlimited(line))
    return text.strip()


def _unlimited(line: str) -> bool:
    return all(word.endswith("=max") for word in line.split()[1:])
