"""The node's side of koordlet, put together from the settings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from koord_hooks.runner import HookRunner
from koord_host import detect, kubelet_cgroups
from koord_host.core_sched import CoreSched
from koord_host.host_traffic import HostTraffic
from koord_host.kernel_files import processes
from koord_host.kernel_files.interface import FileReader, KernelFiles
from koord_host.kernel_files.occupancy import is_occupied
from koord_host.knobs.layout import Driver, Layout
from koord_host.kubelet_cgroups import KubeletCgroups
from koord_host.planning.drift import beside_static_kubelet
from koord_host.planning.jobs import CancelToken, Job, Jobs, JobState
from koord_host.resctrl import ResctrlGroups
from koord_host.resource_executor import journal as journal_file
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.job_threads import JobThreads
from koord_host.resource_executor.journal import ChangeEntry, Journal
from koord_host.resource_executor.restore import RestoreOutcome, restore
from koord_model.node import Kernel, NodeView
from koord_model.qos import KubeQoS
from koord_model.sources import Source
from koord_model.times import rfc3339_milli
from koord_service.error_text import describe_error
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.logs import get_log

from koordlet.agent.config import KoordletSettings
from koordlet.agent.feature_gates import DEFAULTS
from koordlet.qos_manager.plan_queue import PlanQueue
from koordlet.runtime_hooks.hook_log import log_problems, log_round
from koordlet.runtime_hooks.hook_metrics import ReconcileMetrics
from koordlet.runtime_hooks.node_traces import NodeTraces
from koordlet.runtime_hooks.reconciler import resctrl_groups
from koordlet.runtime_hooks.reconciler.desired_state import DesiredState
from koordlet.runtime_hooks.reconciler.network_traffic import TrafficShaper
from koordlet.runtime_hooks.reconciler.reconcile_loop import NodeReconcileLoop
from koordlet.runtime_hooks.reconciler.reconciler import HOOKS, NodeReconciler, ReconcileResult
from koordlet.runtime_hooks.reconciler.tasks import TaskReconciler
from koordlet.states_informer.cpu_manager_state import StateSnapshot
from koordlet.states_informer.kubelet_client import open_pod_source
from koordlet.states_informer.kubelet_cpus import STATIC
from koordlet.states_informer.node_view_builder import NodeViewBuilder
from koordlet.states_informer.pod_informer import PodInformer
from koordlet.states_informer.pod_snapshot import PodSnapshot
from koordlet.states_informer.pod_source import PodSource
from koordlet.states_informer.rdma_devices import VERBS, verbs
from koordlet.states_informer.state.last_good import LastGood

_log = get_log("koordlet.node")

_LAYOUT_SECONDS = 10.0

_STOP_SECONDS = 2.0
"""Jobs that were cancelled are waited for so long."""
_UNDO_SECONDS = 5.0
"""And those that undo what they did; all in all less than systemd waits (15 s)."""


@dataclass(frozen=True, slots=True)
class ManagedNode:
    """A managed node: its reconcile loop, and what to do after the last round.

    ``plan_queue`` takes what strategies want, ``jobs`` does what takes long.
    """

    reconcile_loop: NodeReconcileLoop
    views: NodeViewBuilder
    plan_queue: PlanQueue
    jobs: Jobs
    shut_down: Callable[[], None]

    def build_view(self) -> None:
        """Know the node before the first round: hooks are answered meanwhile."""
        pods = self.reconcile_loop.pods
        known = [record.pod for record in pods.inventory.records()]
        _, problems = self.views.refresh(known if pods.known else None)
        for line in problems:
            _log.warning("node settings rejected", reason=line)


def open_pods(
    settings: KoordletSettings, layout: Layout, files: FileReader, source: PodSource | None = None
) -> PodInformer:
    """Open the informer of pods; ``source`` is the cluster's kubelet, unless settings differ."""
    if settings.pod_list_source:
        ca_file, timeout = settings.kubelet_ca_file, settings.kubelet_sync_timeout
        source = open_pod_source(settings.pod_list_source, ca_file=ca_file, timeout=timeout)
    remembered = None
    if not settings.read_only:
        boot = detect.boot(files, layout.proc_root)
        path = f"{settings.state_dir}/pods.json"
        remembered = PodSnapshot(path, boot, partial(_warn, "known pods"))
    return PodInformer(
        layout,
        files,
        source=source,
        interval=settings.kubelet_sync_interval,
        runtime=settings.default_runtime_type,
        remembered=remembered,
    )


def open_views(settings: KoordletSettings, files: FileReader) -> NodeViewBuilder:
    """The node as it looks where nothing is written: what its rules say."""
    views = NodeViewBuilder(
        files,
        NodeView(),
        Kernel,
        rules_file=settings.nodeslo_file,
        kubelet_dir=settings.var_lib_kubelet_dir,
    )
    _, problems = views.refresh(None)
    for line in problems:
        _log.warning("node settings rejected", reason=line)
    return views


def open_node(
    settings: KoordletSettings,
    runner: HookRunner,
    deduplicator: LogDeduplicator,
    files: KernelFiles,
    metrics: ReconcileMetrics,
    layout: Layout,
    pods: PodInformer,
    gates: Mapping[str, bool] = DEFAULTS,
    jobs: Jobs | None = None,
    traces: NodeTraces | None = None,
) -> ManagedNode:
    """Be ready to keep the node; ``jobs`` are threads unless given.

    Raises:
        InUseError: another koordlet keeps it.
    """
    journal = Journal(f"{settings.state_dir}/{journal_file.NAME}", partial(_warn, "journal"))
    boot = detect.boot(files, layout.proc_root)
    baselines = BaselineStore(f"{settings.state_dir}/originals.db", boot=boot)
    jobs = jobs or JobThreads(_log_job_failure)
    executor = Executor(
        files,
        layout,
        journal,
        baselines,
        clock=time.time,
        monotonic=time.monotonic,
        refresh_seconds=settings.resource_force_update_seconds,
        policy=beside_static_kubelet(lambda: _kubelet_is_static(views)),
        jobs=jobs,
    )
    core_sched = CoreSched(
        partial(_record, journal, "tasks"),
        partial(processes.held, files, layout.proc_root),
    )
    resctrl = ResctrlGroups(
        files,
        layout.resctrl_root,
        record=partial(_record, journal),
        made=baselines.cache_groups,
        keep=baselines.keep_cache_groups,
        proc_root=layout.proc_root,
    )
    cookies, why_not = core_sched.available()
    if settings.dry_run:
        # Cookies are system calls: values cannot be laid over them as over files.
        cookies, why_not = False, "cookies have no dry run"
    if not cookies:
        _log.debug("no core scheduling", reason=why_not)
    rdma: LastGood[Mapping[str, str]] = LastGood(
        f"{settings.sys_root_dir}/{VERBS}", partial(_warn, "cannot read the node's state")
    )
    list_verbs = partial(rdma.refresh, partial(verbs, settings.sys_root_dir))
    kernel = partial(_kernel, layout, files, cookies, resctrl, list_verbs)
    found = kernel()
    tasks = TaskReconciler(
        HOOKS,
        files,
        layout,
        time.monotonic,
        settings.resource_force_update_seconds,
        core_sched if cookies else None,
        resctrl,
        jobs,
    )
    shape = None
    # Neither has the traffic of an interface.
    if "tcnetworkqos" in runner.names and not settings.dry_run:
        net_cls = "net_cls.classid" in found.knobs
        refresh = settings.resource_force_update_seconds
        traffic = HostTraffic(
            partial(_record, journal, "network"), net_cls=net_cls, cgroup_root=layout.cgroup_root
        )
        on_warning = partial(_log_traffic, deduplicator)
        shape = TrafficShaper(traffic, jobs, on_warning, time.monotonic, refresh)
    reconciler = NodeReconciler(
        runner,
        layout,
        files,
        executor,
        tasks,
        partial(_log_desired_state, deduplicator),
        shape,
    )
    view = NodeView(
        kernel=found,
        idle_classes=settings.idle_besteffort,
        unset_cpu_quota=not settings.disable_unset_cpu_quota,
        suppresses=gates["BECPUSuppress"],
    )
    views = NodeViewBuilder(
        files,
        view,
        kernel,
        rules_file=settings.nodeslo_file,
        kubelet_dir=settings.var_lib_kubelet_dir,
        kept_cpus=StateSnapshot(
            f"{settings.state_dir}/kubelet_cpus.json", detect.boot(files, layout.proc_root)
        ),
    )
    plan_queue = PlanQueue(executor, tasks, journal)
    reconcile_loop = NodeReconcileLoop(
        reconciler,
        views,
        pods,
        plan_queue,
        partial(_log_result, deduplicator, metrics, jobs, traces, pods),
        cache_groups=lambda: tasks.cache_groups,
        interval=settings.runtime_hooks_reconcile_interval,
    )

    def shut_down() -> None:
        jobs.cancel()
        _log_unfinished(jobs.wait(_STOP_SECONDS))
        plan_queue.write_notes()
        if settings.restore_on_stop:
            _restore(files, layout, baselines, journal)
            jobs.submit(Job(resctrl_groups.KEY, resctrl_groups.SECONDS, remove_groups))
            if shape is not None:
                shape(None, "koordlet stops")
            _log_unfinished(jobs.wait(_UNDO_SECONDS))
        journal.close()
        baselines.close()

    def remove_groups(cancel: CancelToken) -> None:
        for line in resctrl.remove_all_ours(cancel):
            _log.warning("tasks not reconciled", reason=line)

    return ManagedNode(reconcile_loop, views, plan_queue, jobs, shut_down)


def find_layout(settings: KoordletSettings, files: FileReader) -> Layout:
    """Find the layout of this node's cgroups.

    Raises:
        DetectError: there are none.
    """
    version, driver = settings.cgroup_version, settings.cgroup_driver
    return detect.layout(
        files,
        cgroup_root=settings.cgroup_root_dir,
        resctrl_root=f"{settings.sys_fs_root_dir.rstrip('/')}/resctrl",
        proc_root=settings.proc_root_dir.rstrip("/"),
        version=None if version == "auto" else int(version),
        driver=None if driver == "auto" else Driver(driver),
        kubelet_dir=settings.var_lib_kubelet_dir,
    )


def find_kubelet_cgroups(
    settings: KoordletSettings, files: FileReader, layout: Layout
) -> KubeletCgroups:
    """Find the kubelet's present naming of groups, and its source."""
    driver = None if settings.cgroup_driver == "auto" else Driver(settings.cgroup_driver)
    return kubelet_cgroups.find(files, layout, driver, settings.var_lib_kubelet_dir)


async def follow_layout(
    settings: KoordletSettings, files: FileReader, layout: Layout, stop: Callable[[], None]
) -> None:
    """Stop koordlet, which is started again, once the kubelet's groups are others than assumed.

    Before the kubelet's first start there is only its configuration, or nothing, to go by.
    """
    top, confirmed = layout.kube_qos_group(KubeQoS.GUARANTEED), False
    while True:
        if not confirmed or not await asyncio.to_thread(is_occupied, files, layout, top):
            found = await asyncio.to_thread(find_kubelet_cgroups, settings, files, layout)
            if (found.driver, found.root) == (layout.driver, layout.kubelet_root):
                confirmed |= found.is_certain
            elif found.is_certain or not (confirmed or found.source is Source.DEFAULT):
                assumed = f"{layout.driver}, cgroup root /{layout.kubelet_root}"
                _log.warning("kubelet has other cgroups, restarting", cgroups=found, was=assumed)
                stop()
                return
        await asyncio.sleep(_LAYOUT_SECONDS)


def _kernel(
    layout: Layout,
    files: KernelFiles,
    cookies: bool,
    resctrl: ResctrlGroups,
    list_verbs: Callable[[], Mapping[str, str] | None],
) -> Kernel:
    """Return the kernel's present features: groups and devices come while we run."""
    return Kernel(
        knobs=detect.knobs(files, layout),
        core_sched=cookies,
        resctrl=resctrl.available(),
        verbs=list_verbs() or {},
    )


def _kubelet_is_static(views: NodeViewBuilder) -> bool:
    topology = views.current.topology
    return topology is not None and topology.kubelet_policy == STATIC


def _restore(
    files: KernelFiles, layout: Layout, baselines: BaselineStore, journal: Journal
) -> None:
    report = restore(files, layout, baselines, journal, time.time)
    done = sum(result.outcome is RestoreOutcome.RESTORED for result in report)
    _log.info("original values restored", restored=done)
    for result in report:
        if result.outcome in (RestoreOutcome.SKIPPED, RestoreOutcome.REFUSED):
            group, knob = result.target
            _log.warning(
                "original value not restored", group=group, knob=knob, reason=result.reason
            )


def _record(journal: Journal, place: str, what: str, old: str, new: str, why: str) -> None:
    """A change that is none of a knob's: a group made, tasks moved, traffic shaped."""
    journal.add(ChangeEntry(rfc3339_milli(time.time()), HOOKS.name, place, "", what, old, new, why))


def _warn(what: str, reason: str) -> None:
    _log.warning(what, reason=reason)


def _log_desired_state(deduplicator: LogDeduplicator, desired: DesiredState) -> None:
    for fields, outcome in desired.outcomes_to_log:
        log_problems(deduplicator, fields, outcome)
    if desired.skipped and deduplicator.is_new(desired.scope, desired.skipped):
        _log.info("left alone", pod=desired.pod, reason=desired.skipped)


def _log_traffic(deduplicator: LogDeduplicator, line: str) -> None:
    if deduplicator.is_new(line):
        _log.warning("traffic not shaped", reason=line)


def _log_job_failure(kind: str, error: Exception) -> None:
    _log.error("job failed", job=kind, reason=describe_error(error))


def _log_unfinished(left: Iterable[JobState]) -> None:
    """Log the jobs for which koordlet does not wait when it stops."""
    for job in left:
        _log.warning("job abandoned on shutdown", **_job_fields(job), state=job.state)


def _job_fields(job_state: JobState) -> dict[str, str | None]:
    kind, target, owner = job_state.key
    return {
        "job": kind,
        "target": target or None,
        "owner": owner or None,
        "since": f"{job_state.age:.0f} s",
    }


def _log_result(
    deduplicator: LogDeduplicator,
    metrics: ReconcileMetrics,
    jobs: Jobs,
    traces: NodeTraces | None,
    pods: PodInformer,
    done: ReconcileResult,
) -> None:
    metrics.count(done)
    if traces is not None:
        traces.written(done, pods.inventory.records())
    jobs.retry()
    for job in jobs.take_overdue():
        _log.error("job hangs", **_job_fields(job), deadline=f"{job.seconds:g} s")
    for line in done.defects:
        if deduplicator.is_new(line):
            _log.error("pod not reconciled", reason=line)
    log_round(deduplicator, done.writes, done.problems)
