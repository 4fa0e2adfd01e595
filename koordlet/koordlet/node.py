"""The node's side of koordlet, put together from the settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from koord_hooks.runner import HookRunner
from koord_host import detect
from koord_host import journal as journal_file
from koord_host.core_sched import CoreSched
from koord_host.executor import Executor
from koord_host.files import KernelFiles, Reader
from koord_host.journal import Change, Journal, rfc3339
from koord_host.layout import Driver, Layout
from koord_host.network.netlink import HostTraffic
from koord_host.originals import Originals
from koord_host.resctrl import ResctrlGroups
from koord_host.restore import Fate, restore
from koord_host.strangers import beside_static_kubelet
from koord_model.node import Kernel, NodeView
from koord_model.traffic import Traffic
from koord_service.logs import get_log

from koordlet.config import Settings
from koordlet.deciding.carrying import Carrier
from koordlet.gates import DEFAULTS
from koordlet.keeper import NodeKeeper
from koordlet.levelling import Levelled
from koordlet.metrics import NodeMetrics
from koordlet.pods import Pods
from koordlet.reconciler import HOOKS, Done, Reconciler
from koordlet.states.kubelet_client import pods_at
from koordlet.states.kubelet_cpus import STATIC
from koordlet.states.node_view import NodeViews
from koordlet.states.pod_source import PodSource
from koordlet.states.rdma_devices import verbs
from koordlet.states.remembered import Remembered
from koordlet.tasks import Tasks
from koordlet.telling import Told, tell_problems, tell_round

_log = get_log("koordlet.node")


@dataclass(frozen=True, slots=True)
class Node:
    """A node being kept: its keeper, and what to do after the keeper's last round.

    ``carrier`` takes what strategies want.
    """

    keeper: NodeKeeper
    views: NodeViews
    carrier: Carrier
    let_go: Callable[[], None]

    def look(self) -> None:
        """Know the node before the first round: hooks are answered meanwhile."""
        pods = self.keeper.pods
        known = [record.pod for record in pods.inventory.records()]
        _, problems = self.views.refresh(known if pods.known else None)
        for line in problems:
            _log.warning("rules", reason=line)


def open_pods(
    settings: Settings, layout: Layout, files: Reader, source: PodSource | None = None
) -> Pods:
    """Who runs here; ``source`` is the cluster's kubelet, unless the settings name another."""
    if settings.pods:
        ca_file, timeout = settings.kubelet_ca_file, settings.kubelet_sync_timeout
        source = pods_at(settings.pods, ca_file=ca_file, timeout=timeout)
    remembered = None
    if source is None and settings.node_writes:
        boot = detect.boot(files, layout.proc_root)
        path = f"{settings.state_dir}/pods.json"
        remembered = Remembered(path, boot, partial(_warn, "pods told of"))
    return Pods(
        layout,
        files,
        source=source,
        interval=settings.kubelet_sync_interval,
        runtime=settings.default_runtime_type,
        remembered=remembered,
    )


def open_views(settings: Settings, files: Reader) -> NodeViews:
    """The node as it looks where nothing is written: what its rules say."""
    views = NodeViews(files, NodeView(), Kernel, rules_file=settings.nodeslo_file)
    _, problems = views.refresh(None)
    for line in problems:
        _log.warning("rules", reason=line)
    return views


def open_node(
    settings: Settings,
    runner: HookRunner,
    told: Told,
    files: KernelFiles,
    metrics: NodeMetrics,
    layout: Layout,
    pods: Pods,
    gates: Mapping[str, bool] = DEFAULTS,
) -> Node:
    """Be ready to keep the node.

    Raises:
        InUseError: another koordlet keeps it.
    """
    journal = Journal(f"{settings.state_dir}/{journal_file.NAME}", partial(_warn, "journal"))
    boot = detect.boot(files, layout.proc_root)
    originals = Originals(
        f"{settings.state_dir}/originals.db", partial(_warn, "originals"), boot=boot
    )
    executor = Executor(
        files,
        layout,
        journal,
        originals,
        clock=time.time,
        monotonic=time.monotonic,
        refresh_seconds=settings.resource_force_update_seconds,
        policy=beside_static_kubelet(lambda: _kubelet_is_static(views)),
    )
    core_sched = CoreSched(partial(_record, journal, "tasks"))
    resctrl = ResctrlGroups(
        files,
        layout.resctrl_root,
        record=partial(_record, journal),
        made=originals.cache_groups,
        keep=originals.keep_cache_groups,
    )
    cookies, why_not = core_sched.available()
    if not cookies:
        _log.debug("no core scheduling", reason=why_not)
    kernel = partial(_kernel, settings, layout, files, cookies, resctrl)
    found = kernel()
    tasks = Tasks(
        HOOKS,
        files,
        layout,
        time.monotonic,
        settings.resource_force_update_seconds,
        core_sched if cookies else None,
        resctrl,
    )
    shape = None
    if "tcnetworkqos" in runner.names:
        net_cls = "net_cls.classid" in found.knobs
        refresh = settings.resource_force_update_seconds
        shape = _shaper(journal, layout, told, refresh, net_cls=net_cls)
    reconciler = Reconciler(
        runner,
        layout,
        files,
        executor,
        tasks,
        partial(_tell_levelled, told),
        shape,
    )
    view = NodeView(
        kernel=found,
        idle_classes=settings.idle_besteffort,
        unset_cpu_quota=not settings.disable_unset_cpu_quota,
        suppresses=gates["BECPUSuppress"],
    )
    views = NodeViews(
        files,
        view,
        kernel,
        rules_file=settings.nodeslo_file,
        kubelet_dir=settings.var_lib_kubelet_dir,
    )
    carrier = Carrier(executor, tasks, journal)
    keeper = NodeKeeper(
        reconciler,
        views,
        pods,
        partial(_tell_done, told, metrics),
        cache_groups=lambda: tasks.cache_groups,
        before=carrier.take,
        interval=settings.runtime_hooks_reconcile_interval,
    )

    def let_go() -> None:
        if settings.restore_on_stop:
            _restore(files, layout, originals, journal)
            resctrl.remove_all_ours()
            if shape is not None:
                shape(None, "koordlet stops")
        journal.close()
        originals.close()

    return Node(keeper, views, carrier, let_go)


def find_layout(settings: Settings, files: Reader) -> Layout:
    """Where this node's cgroups are.

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
    )


def _kernel(
    settings: Settings,
    layout: Layout,
    files: KernelFiles,
    cookies: bool,
    resctrl: ResctrlGroups,
) -> Kernel:
    """What the kernel offers now: groups and devices come while we run."""
    return Kernel(
        knobs=detect.knobs(files, layout),
        core_sched=cookies,
        resctrl=resctrl.available(),
        verbs=verbs(settings.sys_root_dir),
    )


def _kubelet_is_static(views: NodeViews) -> bool:
    topology = views.current.topology
    return topology is not None and topology.kubelet_policy == STATIC


def _shaper(
    journal: Journal, layout: Layout, told: Told, refresh_seconds: float, *, net_cls: bool
) -> Callable[[Traffic | None, str], None]:
    traffic = HostTraffic(
        partial(_record, journal, "network"),
        net_cls=net_cls,
        cgroup_root=layout.cgroup_root,
    )

    last: tuple[Traffic | None, float] = (None, float("-inf"))

    def shape(wanted: Traffic | None, why: str) -> None:
        nonlocal last
        now = time.monotonic()
        if wanted == last[0] and now < last[1] + refresh_seconds:
            return
        last = wanted, now
        report = traffic.level(wanted, why)
        for line in (*report.errors, *report.ignored):
            if told.first_time(line):
                _log.warning("traffic not shaped", reason=line)

    return shape


def _restore(files: KernelFiles, layout: Layout, originals: Originals, journal: Journal) -> None:
    report = restore(files, layout, originals, journal, time.time)
    done = sum(one.fate is Fate.RESTORED for one in report)
    _log.info("what was found is put back", restored=done)
    for one in report:
        if one.fate in (Fate.SKIPPED, Fate.REFUSED):
            group, knob = one.target
            _log.warning("not put back", group=group, knob=knob, reason=one.reason)


def _record(journal: Journal, place: str, what: str, old: str, new: str, why: str) -> None:
    """A change that is none of a knob's: a group made, tasks moved, traffic shaped."""
    journal.add(Change(rfc3339(time.time()), HOOKS.name, place, "", what, old, new, why))


def _warn(what: str, reason: str) -> None:
    _log.warning(what, reason=reason)


def _tell_levelled(told: Told, levelled: Levelled) -> None:
    for fields, outcome in levelled.told:
        tell_problems(told, fields, outcome)
    if levelled.skipped and told.first_time(levelled.scope, levelled.skipped):
        _log.info("left alone", pod=levelled.pod, reason=levelled.skipped)


def _tell_done(told: Told, metrics: NodeMetrics, done: Done) -> None:
    metrics.count(done)
    for line in done.defects:
        if told.first_time(line):
            _log.error("pod not levelled", reason=line)
    tell_round(told, done.writes, done.troubles)
