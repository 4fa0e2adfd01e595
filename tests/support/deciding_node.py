"""A node in memory on which the whole deciding side works, and one run of koordlet after another.

All between what was measured and the kernel's files is real: views, strategies, decider,
evictor (it evicts nobody), carrier, keeper, reconciler, executor, baselines. What is measured
the test says, and what time it is.
"""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from koord_hooks.runner import HookRunner
from koord_host.knobs.layout import Driver, Layout
from koord_host.knobs.table import KNOBS
from koord_host.knobs.weights import WeightFormula
from koord_host.planning.outcomes import Outcome
from koord_host.resource_executor.restore import RestoreResult
from koord_model import cpuset
from koord_model.keys import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY
from koord_model.node_info import LocalStorage
from koord_model.qos import KubeQoS, QoSClass
from koordctl.restore import put_back
from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.agent.runtime_hooks import ManagedNode
from koordlet.qos_manager.core.decision_log import MOST_ENTRIES, DecisionLog
from koordlet.qos_manager.core.strategy import PodView, Strategy, StrategyView
from koordlet.qos_manager.core.strategy_runner import RoundPlans, StrategyRunner
from koordlet.qos_manager.eviction.event_writer import PodEventWriter
from koordlet.qos_manager.eviction.evictor import Evictor
from koordlet.qos_manager.eviction.policy.account import EvictionLimits
from koordlet.qos_manager.plan_queue import NodePlan
from koordlet.qos_manager.strategy_loop import StrategyLoop
from koordlet.qos_manager.strategy_table import select_enabled
from koordlet.qos_manager.view_builder import StrategyViewBuilder, ViewSources
from koordlet.runtime_hooks.reconciler.reconciler import ReconcileResult

from tests.support.fake_cgroupfs import FakeCgroupfs
from tests.support.fake_node import FakeNode
from tests.support.fake_node.files import CPUS
from tests.support.fake_node.kept import kept, settings_of
from tests.support.processes import PATIENCE
from tests.support.views import (
    AT,
    GIB,
    STEADY,
    FakeHistory,
    FakeLatest,
    cpu_info,
    memory_info,
    pod_view,
    stats,
)

DISKS = {"/dev/vda": "254:0", "/dev/vdb": "254:16"}
ALL_GATES = dict.fromkeys(DEFAULTS, True)
SETTLED = 11.0
"""Seconds after which a decider takes it that every strategy has measured what it goes by."""

Refused = tuple[str, str, int]


class FragileNode(FakeNode):
    """Notes every write that the kernel refuses, and tells when it is about to take one."""

    def __init__(self, version: int = 2, *, vendor: bool = False, iocost: bool = False) -> None:
        super().__init__(version, vendor=vendor)
        self.cgroups = FakeCgroupfs(
            version,
            vendor=vendor,
            cpus=CPUS,
            mems="0-1",
            devices=tuple(DISKS.values()),
            iocost=iocost,
        )
        self.refused: list[Refused] = []
        #: Called before each write, and after it.
        self.at_write: Callable[[], None] | None = None
        self.plain.texts |= _SYSCTLS | (_VENDOR if vendor else {})

    def write(self, path: str, text: str) -> None:
        if self.at_write is not None:
            self.at_write()
        try:
            super().write(path, text)
        except OSError as error:
            self.refused.append((path, text, error.errno or 0))
            raise
        if self.at_write is not None:
            self.at_write()


_SYSCTLS = {
    "/proc/sys/vm/min_free_kbytes": "67584\n",
    "/proc/sys/vm/watermark_scale_factor": "10\n",
}
_VENDOR = {
    "/sys/kernel/mm/memcg_reaper/reap_background": "0\n",
    "/sys/kernel/mm/pagecache_limit/enabled": "0\n",
    "/proc/sys/kernel/sched_idle_saver_wmark": "0\n",
}


# ---- what the cluster asks for


def everything_on(
    policy: str = "cpuset", cpu_policy: str = "groupIdentity", **strategies: Mapping[str, Any]
) -> dict[str, Any]:
    """A NodeSLO that asks every strategy to work; ``strategies`` are settings of ours."""
    return {
        "resourceUsedThresholdWithBE": {
            "enable": True,
            "cpuSuppressThresholdPercent": 65,
            "cpuSuppressPolicy": policy,
            "cpuEvictBESatisfactionLowerPercent": 40,
            "cpuEvictBESatisfactionUpperPercent": 60,
            "cpuEvictThresholdPercent": 80,
            "memoryEvictThresholdPercent": 70,
            "cpuAllocatableEvictThresholdPercent": 110,
            "cpuAllocatableEvictLowerPercent": 100,
            "memoryAllocatableEvictThresholdPercent": 110,
            "memoryAllocatableEvictLowerPercent": 100,
            "evictEnabledPriorityThreshold": 5999,
            "allocatableEvictPriorityThreshold": 5999,
        },
        "cpuBurstStrategy": {"policy": "auto", "cfsQuotaBurstPercent": 120},
        "resourceQOSStrategy": {
            "policies": {"cpuPolicy": cpu_policy},
            "cgroupRoot": {
                "blkioQOS": {"enable": True, "blocks": [{"name": name} for name in DISKS]}
            },
            **{name: _class(*numbers) for name, numbers in _CLASSES.items()},
        },
        "systemStrategy": {
            "minFreeKbytesFactor": 100,
            "watermarkScaleFactor": 150,
            "memcgReapBackGround": 1,
            "schedGroupIdentityEnabled": 1,
            "schedIdleSaverWmark": 4000,
            "pageCacheLimitEnabled": 1,
        },
        "extensions": {
            "pykoord": {"strategies": {"memory_qos": {"high_for_watermarks": True}, **strategies}}
        },
    }


_CLASSES = {"lsrClass": (2, 60), "lsClass": (2, 40), "beClass": (-1, 20)}


def _class(identity: int, percent: int) -> dict[str, Any]:
    io = {"readBPS": percent << 20, "writeIOPS": percent * 10, "ioWeightPercent": percent}
    return {
        "cpuQOS": {"enable": True, "groupIdentity": identity},
        "memoryQOS": {
            "enable": True,
            "minLimitPercent": percent,
            "lowLimitPercent": percent + 20,
            "throttlingPercent": 80,
            "wmarkRatio": 90,
            "priorityEnable": 1,
            "priority": 3,
            "oomKillGroup": 1,
            "pageCacheLimitPercent": 50,
            "pageCacheEnable": True,
        },
        "resctrlQOS": {"enable": True, "catRangeEndPercent": percent, "mbaPercent": percent},
        "blkioQOS": {
            "enable": True,
            "blocks": [{"name": name, "ioCfg": {**io, "readLatency": 2000}} for name in DISKS],
        },
    }


# ---- who runs


def some_pods(
    layout: Layout, *classes: QoSClass, sizes: Sequence[int] = (2, 1, 4)
) -> list[PodView]:
    """A pod of each of these classes, in turn with one container, two, and without limits.

    LSE and LSR pods get CPUs of their own, from 0 on and from 8 on.
    """
    pods, own = [], {QoSClass.LSE: 0, QoSClass.LSR: 8}
    for number, qos in enumerate(classes):
        cpus = sizes[number % len(sizes)]
        given = ""
        if qos in own:
            cpus, first = 1 + number % 2, own[qos]
            given = cpuset.render(frozenset(range(first, first + cpus)))
            own[qos] = first + cpus
        pods.append(a_pod(layout, f"{qos.value.lower() or 'plain'}-{number}", qos, cpus, given))
    return pods


def a_pod(layout: Layout, name: str, qos: QoSClass, cpus: int = 2, own: str = "") -> PodView:
    """A pod whose limits are twice what it requests, LSE and LSR's the same."""
    milli, size = cpus * 1000, cpus * GIB
    keys = (BATCH_CPU, BATCH_MEMORY) if qos is QoSClass.BE else (CPU, MEMORY)
    factor = 1 if own else 2
    limits = dict(zip(keys, (milli, size), strict=True))
    requests = {key: value // factor for key, value in limits.items()}
    names = ("main",) if len(name) % 2 or own else ("main", "side")
    half = lambda amounts: {k: v // len(names) for k, v in amounts.items()}  # noqa: E731
    return pod_view(
        name,
        qos=qos,
        priority={QoSClass.BE: 5500, QoSClass.NONE: 9000}.get(qos, 9100),
        containers={one: (half(requests), half(limits)) for one in names},
        cpuset=own,
        layout=layout,
        labels={"koordinator.sh/eviction-enabled": "true"},
    )


# ---- the node


@dataclass
class Measured:
    """What is measured; ``missing`` are kinds of which nothing is."""

    latest: FakeLatest = field(default_factory=lambda: FakeLatest({}))
    history: FakeHistory = field(default_factory=FakeHistory)


class DecidingNode:
    """A node with pods, its clocks, and the run of koordlet on it."""

    def __init__(
        self,
        directory: Path,
        version: int = 2,
        driver: Driver = Driver.CGROUPFS,
        *,
        vendor: bool = False,
        iocost: bool = False,
        static: bool = False,
        files: FragileNode | None = None,
    ) -> None:
        self.directory = directory
        self.files = files or FragileNode(version, vendor=vendor, iocost=iocost)
        self.layout = Layout(version, driver)
        self.static = static
        self.wall, self.steady = AT, STEADY
        self.pods: list[PodView] = []
        self.measured = Measured()
        self.pods_known = True
        self.slo: dict[str, Any] | None = None
        if files is None:
            self._furnish()

    def _furnish(self) -> None:
        for qos in KubeQoS:
            self.files.cgroups.make_group(self.layout.kube_qos_group(qos))
        self.set(self.layout.kube_qos_group(KubeQoS.BEST_EFFORT), "cpu.shares", 2)
        if self.static:
            self._tell_cpus()

    # ---- pods

    def start(self, *pods: PodView) -> None:
        """Pods begin: the kubelet and the runtime make their groups and processes."""
        self.pods += pods
        for pod in pods:
            self._make(pod)
        if self.static:
            self._tell_cpus()

    def stop(self, *pods: PodView) -> None:
        """Pods end, and their groups with them."""
        gone = {pod.uid for pod in pods}
        self.pods = [pod for pod in self.pods if pod.uid not in gone]
        for pod in pods:
            self.files.remove_group(pod.group)
        if self.static:
            self._tell_cpus()

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
            own = _own(pod)
            if self.static and own:
                self.set(one.group, "cpuset.cpus", own)
        self.files.start_process(f"{pod.group}/sandbox", -998)

    def _limit(self, group: str, limits: Mapping[str, int]) -> None:
        """As the kubelet reckons them; it knows no batch resources."""
        self.set(group, "cpu.shares", max(limits.get(CPU, 0) * 1024 // 1000, 2))
        if CPU in limits:
            self.set(group, "cpu.cfs_quota_us", limits[CPU] * 100)
        if MEMORY in limits:
            self.set(group, "memory.limit_in_bytes", limits[MEMORY])

    def _tell_cpus(self) -> None:
        """The state file of a kubelet with the static policy."""
        entries = {pod.uid: {"main": _own(pod)} for pod in self.pods if _own(pod)}
        text = json.dumps({"policyName": "static", "entries": entries})
        self.files.plain.texts["/var/lib/kubelet/cpu_manager_state"] = text

    # ---- what stands in files

    def set(self, group: str, knob: str, value: int | str) -> None:
        """As somebody else sets it."""
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

    def cpus(self, group: str) -> frozenset[int]:
        """A group's own CPUs; on v2 there may be none of its own."""
        return cpuset.parse(str(self.value(group, "cpuset.cpus")))

    def values(self) -> dict[str, str]:
        """All that can be set.

        A cpuset of its own that has all CPUs is as good as none (where v2 has tasks, the
        kernel does not take an empty one again), and a disk without a limit, or whose cost
        is not reckoned, as one that was never named.
        """
        self.files.cgroups.check()
        found = self.files.values(self.layout)
        root = self.layout.group_path("", "blkio")
        for file in ("io.cost.qos", "io.cost.model", "blkio.cost.qos", "blkio.cost.model"):
            if self.files.exists(f"{root}/{file}"):
                found[f"{root}/{file}"] = self.files.read(f"{root}/{file}")
        return {path: _plain(path, text) for path, text in found.items()}

    # ---- runs of koordlet

    def run(self, runner: HookRunner | None = None, **options: Any) -> Run:
        """The next run of koordlet."""
        return Run(self, runner or HookRunner([]), **options)

    def copied(self, directory: Path) -> DecidingNode:
        """This node as it is now, with what koordlet has on its disk."""
        directory.mkdir(parents=True)
        if (self.directory / "state").exists():
            shutil.copytree(self.directory / "state", directory / "state")
        twin, at_write, self.files.at_write = copy.copy(self), self.files.at_write, None
        twin.directory, twin.files = directory, copy.deepcopy(self.files)
        twin.pods = list(self.pods)
        self.files.at_write = at_write
        return twin

    def restored(self) -> list[RestoreResult]:
        """What ``koordctl restore`` does: put back without a koordlet."""
        where = partial(detected, self.layout)
        with patch("koordctl.restore.detect.layout", where):
            return put_back(self.files, str(self.directory / "state"), lambda _: None)


def detected(layout: Layout, *_: object, **__: object) -> Layout:
    """Where cgroups are, without a look."""
    return layout


class Run:
    """One run of koordlet; leaving it is as good as a kill: nothing is put back."""

    def __init__(
        self,
        node: DecidingNode,
        runner: HookRunner,
        *,
        strategies: Sequence[Strategy] | None = None,
        gates: Mapping[str, bool] = ALL_GATES,
        remembers: int = MOST_ENTRIES,
    ) -> None:
        self.of = node
        self._stack = ExitStack()
        clock = SimpleNamespace(time=lambda: node.wall, monotonic=lambda: node.steady)
        settings = settings_of(node.files, node.directory, node.layout.driver)
        self._stack.enter_context(patch("koordlet.agent.runtime_hooks.time", clock))
        self.node: ManagedNode = self._stack.enter_context(kept(node.files, settings, runner))
        self.executor = self.node.plan_queue._executor
        pods = self.node.reconcile_loop.pods
        self._seen = ViewSources(
            node.layout,
            node.files,
            pods=pods.inventory.records,
            pods_known=lambda: node.pods_known,
            view=lambda: self.node.views.current,
            newest=cast("Any", SimpleNamespace(frozen=lambda: node.measured.latest)),
            cache=cast("Any", None),
            base=self.node.plan_queue.base,
        )
        self.views = StrategyViewBuilder(self._seen)
        chosen, off = select_enabled(KoordletSettings(), gates)
        self.strategies = tuple(strategies if strategies is not None else chosen)
        self.rounds = StrategyRunner(self.strategies, lambda: 0.0)
        self.decisions = DecisionLog(remembers)
        self.evictor = Evictor(
            None,
            EvictionLimits(5, 20, 4),
            PodEventWriter(None, "n1"),
            why_not="a test",
            now=lambda: node.wall,
            monotonic=lambda: node.steady,
        )
        self.wanted: list[NodePlan] = []
        self.decider = StrategyLoop(
            self.rounds, off, self._look, self.decisions, self.evictor, self._carry
        )
        self.found: RoundPlans | None = None
        self.done: list[ReconcileResult] = []
        self.said: list[str] = []
        """Lines for people, of rules and strategies."""

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _look(self, *_: object) -> StrategyView:
        node = self.of
        view = self.views.build(node.wall, node.steady, self.rounds.signals)
        return replace(view, latest=node.measured.latest, history=node.measured.history)

    def _carry(self, wanted: NodePlan) -> None:
        self.wanted.append(wanted)
        self.node.plan_queue.put(wanted)

    def round(self, seconds: float = 1.0) -> ReconcileResult:
        """After some seconds: have strategies decide, and what they want done."""
        self.of.wall += seconds
        self.of.steady += seconds
        reconcile_loop, of = self.node.reconcile_loop, self.of
        reconcile_loop.pods.inventory.replace([pod.record for pod in of.pods], of.steady)
        reconcile_loop.pods.complete = of.pods_known
        document = None if of.slo is None else {"spec": of.slo}
        if self.node.views._objects.get("NodeSLO") != document:
            self.node.views.update_object("NodeSLO", document)
        known = [pod.record.pod for pod in of.pods] if of.pods_known else None
        self.said += reconcile_loop._views.refresh(known)[1]
        view, self.found = self.decider._round()
        self.said += self.found.problems
        self.decider._publish(view, self.found)
        done, _ = reconcile_loop._round(reconcile_loop.inventory.records(), set())
        # Time stands still here until they are done, as it does for everything else.
        assert not self.node.jobs.wait(PATIENCE)
        self.done.append(done)
        return done

    def rounds_of(self, *seconds: float) -> list[ReconcileResult]:
        """Some rounds, each so many seconds after the last."""
        return [self.round(one) for one in seconds]

    def comes_to_rest(self, most: int = 60) -> int:
        """Rounds until nothing has been written for a while; how many those were.

        Deeds leave no state, and go on.
        """
        quiet = 0
        for number in range(most):
            done = self.round(5.0)
            wrote = any(
                one.outcome is Outcome.WRITTEN and one.target.knob != "memory.reclaim"
                for one in done.writes.results
            )
            quiet = 0 if wrote else quiet + 1
            if quiet > 4:
                return number
        raise AssertionError(f"written over and over: {done.writes.news}")


def _own(pod: PodView) -> str:
    status = pod.record.pod.annotations.get("scheduling.koordinator.sh/resource-status", "{}")
    return str(json.loads(status).get("cpuset", ""))


def _plain(path: str, text: str) -> str:
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


# ---- what is measured


def measured(
    pods: Iterable[PodView],
    load: float,
    seed: int = 0,
    missing: Iterable[str] = (),
    at: float = AT,
) -> Measured:
    """A node of 16 CPUs and 64 GiB of which so much is used, 1.0 being all of it.

    What each pod has of it follows from the seed. ``missing`` are kinds that nobody
    measures, or "facts".
    """
    pods, rng, gone = list(pods), random.Random(seed), frozenset(missing)
    facts = (cpu_info(16, 2, smt=False), memory_info(64 * GIB, 2), LocalStorage(DISKS))
    values: dict[tuple[str, ...], float] = {
        ("node_cpu_usage",): 16 * load,
        ("node_memory_usage",): 64 * GIB * load,
        ("node_memory_usage_with_page_cache",): 64 * GIB * min(load * 1.2, 1),
    }
    shares = [rng.random() for _ in pods]
    whole = sum(shares) * 1.1 or 1.0
    best_effort = 0.0
    for pod, share in zip(pods, shares, strict=True):
        cores, size = 16 * load * share / whole, 64 * GIB * load * share / whole
        best_effort += cores if pod.kube is KubeQoS.BEST_EFFORT else 0
        values[("pod_cpu_usage", pod.uid)] = cores
        values[("pod_memory_usage", pod.uid)] = size
        values[("pod_memory_usage_with_page_cache", pod.uid)] = size * 1.2
        values[("pod_cpu_throttled", pod.uid)] = rng.choice([0.0, 0.3])
        values[("pod_psi", pod.uid, "cpu", "avg10", "some")] = rng.choice([0.0, 5.0, 60.0])
        values[("pod_psi", pod.uid, "mem", "avg10", "some")] = rng.choice([0.0, 1.0, 60.0])
        for one in pod.containers:
            key = pod.uid, one.container.id
            values[("container_cpu_usage", *key)] = cores / len(pod.containers)
            values[("container_memory_usage", *key)] = size / len(pod.containers)
            values[("container_cpu_throttled", *key)] = rng.choice([0.0, 0.0, 0.4])
            values[("container_psi", *key, "cpu", "avg10", "some")] = rng.choice([0.0, 40.0])
            values[("container_cpi", *key, "cycle")] = rng.choice([1e9, 4e9])
            values[("container_cpi", *key, "instruction")] = 1e9
    values[("node_be", "cpu", "usage")] = best_effort * 1000
    values[("node_be", "cpu", "request")] = 4000.0
    values[("node_be", "cpu", "real-limit")] = 1000.0 * rng.choice([2, 16])
    values = {key: value for key, value in values.items() if key[0] not in gone}
    series = {key: stats(value, points=30, seconds=60, until=at) for key, value in values.items()}
    known = () if "facts" in gone else facts
    return Measured(FakeLatest(values, *known), FakeHistory(series))


def all_of(results: Iterable[ReconcileResult], outcome: Outcome) -> Iterator[Any]:
    """Every result with this outcome."""
    return (one for done in results for one in done.writes.results if one.outcome is outcome)
