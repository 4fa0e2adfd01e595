"""The parts of one run of koordlet, wired together, and its life from start to SIGTERM."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from koord_hooks.runner import available_plugins, load
from koord_hooks.stages import Stage
from koord_host.detect import DetectError
from koord_host.kernel_files.interface import NodeFiles
from koord_host.knobs.layout import Layout
from koord_host.resource_executor import journal
from koord_kube.protocol.api import Object
from koord_model.node_info import NodeCPUInfo
from koord_service import logs, systemd
from koord_service.error_text import describe_error, describe_os_error, first_error
from koord_service.feature_gates import report_unknown
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.program_end import on_signals
from koord_service.program_start import STARTED_AT
from koord_service.sqlite_state import InUseError
from koord_service.status import MakePage, StatusServer, json_page, metrics_page
from koord_service.tracing import SpanRecorder

from koordlet.agent.config import KoordletSettings, select_plugins
from koordlet.agent.feature_gates import DEFAULTS, OF_PLUGINS, UNUSED, parse_gates
from koordlet.agent.http_api import nri_state, open_malachite_server, open_servers
from koordlet.agent.metrics_advisor import MetricsAdvisor, open_metrics_advisor
from koordlet.agent.metrics_reporter import MetricsReporter
from koordlet.agent.qos_manager import QoSManager, open_qos_manager
from koordlet.agent.resource_plugins import open_resource_plugins
from koordlet.agent.runtime_hooks import (
    ManagedNode,
    find_kubelet_cgroups,
    find_layout,
    follow_layout,
    open_node,
    open_pods,
    open_views,
)
from koordlet.agent.states_informer import StatesInformer
from koordlet.http_api.documents.node import Document
from koordlet.http_api.documents.status import HookTransports, status_document
from koordlet.http_api.journal import JournalPages
from koordlet.http_api.prometheus import SampleMetrics
from koordlet.http_api.routes import events_page, pages
from koordlet.metrics_reporter.documents.topology_annotations import set_aside
from koordlet.plugin_watcher.watcher import PluginWatcher
from koordlet.qos_manager.plan_queue import NodePlan
from koordlet.qos_manager.strategy_loop import StrategyLoop
from koordlet.runtime_hooks.answered_requests import AnsweredRequests
from koordlet.runtime_hooks.hook_answers import HookAnswers
from koordlet.runtime_hooks.hook_metrics import (
    HookMetrics,
    JobMetrics,
    NriMetrics,
    ReconcileMetrics,
)
from koordlet.runtime_hooks.hook_server import HookServer, PreparePod
from koordlet.runtime_hooks.node_traces import NodeTraces
from koordlet.runtime_hooks.nri.client import NriClient
from koordlet.runtime_hooks.nri.hook_handler import HookHandler
from koordlet.runtime_hooks.reconciler.reconcile_loop import OBSERVED
from koordlet.runtime_hooks.registration import HookRegistration, registration_text
from koordlet.states_informer.node_view_builder import NodeViewBuilder
from koordlet.states_informer.pod_arrivals import PodArrivals
from koordlet.states_informer.pod_informer import PodInformer
from koordlet.states_informer.state.share_pools import ReservedCPUs

_GRACE_SECONDS = 2.0
_AGAIN_SECONDS = 5.0

Loop = Callable[[], Coroutine[Any, Any, None]]

_log = logs.get_log("koordlet")

READ_ONLY = (
    "observes this node; changes nothing, answers no hook calls, and reports nothing (--read-only)"
)

DRY_RUN = (
    "reads and decides everything; writes no kernel file, answers no hook calls, reports nothing, "
    "evicts nobody, and keeps no state (--dry-run)"
)


class Agent:
    """One run.

    Raises:
        ValueError: a plugin that there is not, an address that cannot be.
    """

    def __init__(
        self,
        settings: KoordletSettings,
        files: NodeFiles,
        cluster: StatesInformer | None = None,
        tracing: SpanRecorder | None = None,
    ) -> None:
        self._settings = settings
        self._cluster = cluster
        self._disabled = {Stage(name) for name in settings.runtime_hooks_disable_stages}
        self._metrics = HookMetrics()
        self._traces: NodeTraces | None = None
        if tracing is not None:
            tracing.register(self._metrics.registry)
            self._traces = NodeTraces(tracing)
        self._deduplicator = LogDeduplicator()
        self._answers = HookAnswers()
        self._answered = AnsweredRequests()
        known = available_plugins()
        names, others = select_plugins(settings.hook_plugins, settings.feature_gates, known)
        gates, others = parse_gates(others)
        report_unknown(_log, others, (*DEFAULTS, *OF_PLUGINS), UNUSED)
        self._runner = load(names)
        self._loops: list[Loop] = []
        self._stop = asyncio.Event()
        self._cgroups: str | None = None
        self._node: ManagedNode | None = None
        self._nri: NriClient | None = None
        self._observing: MetricsAdvisor | None = None
        self._deciding: QoSManager | None = None
        self._plugins = PluginWatcher(settings.plugin_registration_dir)
        self._prepare_pod: PreparePod | None = None
        self._malachite: StatusServer | None = None
        self._open(files, gates)
        if self._plugins.is_followed:
            self._loops.append(self._plugins.run)
        self._stages = self._select_stages()
        self._server: HookServer | None = None
        self._registration: HookRegistration | None = None
        if not settings.only_observes:
            self._open_hook_server()
        self._open_nri_client()
        self._status = self._status_servers()

    async def serve(self) -> None:
        """Answer hooks until SIGTERM or SIGINT, then drain. The registration stays.

        Raises:
            OSError: a socket or the registration directory cannot be used.
            ValueError: a socket's path is too long.
        """
        stop = self._stop
        on_signals(stop.set, self._register_again, asyncio.get_running_loop())
        async with AsyncExitStack() as at_exit:
            if self._server is not None:
                await self._server.start(self._settings.runtime_hooks_addr)
                at_exit.push_async_callback(self._server.stop, _GRACE_SECONDS)
            for status in self._status:
                status.start()
                at_exit.callback(status.stop)
            if self._registration is not None:
                self._registration.write()
            self._announce()
            if self._node is not None:
                at_exit.push_async_callback(self._node.reconcile_loop.finish, self._node.shut_down)
            systemd.notify("READY=1")
            await self._work(stop)

    def _open(self, files: NodeFiles, gates: Mapping[str, bool]) -> None:
        """The node's parts, as far as it can be kept and looked at."""
        settings, cluster = self._settings, self._cluster
        try:
            layout = find_layout(settings, files)
        except DetectError as error:
            _log.warning(
                "cannot manage or observe the node, only answering hooks", reason=str(error)
            )
            return
        self._cgroups = f"v{layout.version}, {find_kubelet_cgroups(settings, files, layout)}"
        self._malachite = open_malachite_server(settings, files, layout)
        self._loops.append(partial(follow_layout, settings, files, layout, self._stop.set))
        pods = open_pods(settings, layout, files, cluster.kubelet if cluster else None)
        self._loops.append(pods.run)
        if pods.source is not None:
            self._loops.append(PodArrivals(layout, pods.arrived).run)
        self._node = self._open_node(files, layout, pods, gates)
        views = self._node.views if self._node else open_views(settings, files)
        if cluster is not None:
            views.set_aside = lambda: None  # until the Node is known
            self._follow(cluster, views, pods)
        if self._node is not None:
            self._node.build_view()
        else:
            self._loops.append(partial(_follow_rules, settings, views, pods))
        if settings.collect_res_used_interval >= 1:
            self._observing = open_metrics_advisor(
                settings, gates, layout, files, pods, views, cluster
            )
            if self._node is not None:
                observed = replace(self._observing.observed, jobs=self._node.jobs.states)
                self._observing = replace(self._observing, observed=observed)
            self._loops.append(self._observing.run)
            self._decide(files, gates, layout, pods, views, self._observing)
        else:
            off = f"--collect-res-used-interval is {settings.collect_res_used_interval:g}"
            _log.warning("not observing or reporting", reason=f"{off}, below 1 s")
            if self._node is not None:
                # Nor decided: what strategies of an earlier run left is put back.
                self._node.plan_queue.put(NodePlan(complete=True))
        if cluster is not None:
            views.set_aside = partial(reserved_cpus, cluster, self._observing)
            self._loops.append(cluster.run)
            if self._observing is not None and not settings.only_observes:
                slo = lambda: views.current.slo  # noqa: E731 - nothing to name
                reporting = MetricsReporter(
                    *(settings, gates, cluster, self._observing, views.kubelet_cpus, slo),
                    self._deciding,
                    plugins=self._plugins,
                    set_aside=lambda: views.set_aside(),
                    allocations=lambda: views.newest.allocations,
                )
                self._loops += reporting.loops
                observed = replace(self._observing.observed, reports=reporting.states)
                self._observing = replace(self._observing, observed=observed)
        if self._deciding is not None:
            views.set_aside = partial(with_strategies, views.set_aside, self._deciding.decider)

    def _decide(
        self,
        files: NodeFiles,
        gates: Mapping[str, bool],
        layout: Layout,
        pods: PodInformer,
        views: NodeViewBuilder,
        observing: MetricsAdvisor,
    ) -> None:
        self._deciding = open_qos_manager(
            self._settings,
            gates,
            layout,
            files,
            pods,
            views,
            observing,
            self._node,
            self._cluster,
            os.environ,
            # To register is to answer.
            None if self._settings.only_observes else self._plugins,
        )
        self._loops += self._deciding.loops

    def _open_node(
        self, files: NodeFiles, layout: Layout, pods: PodInformer, gates: Mapping[str, bool]
    ) -> ManagedNode | None:
        """The node to keep; ``None`` where it cannot be: hooks are answered all the same."""
        if self._settings.read_only:
            return None
        try:
            if os.geteuid() != 0 and not self._settings.dry_run:
                raise DetectError("only root may write kernel files")
            metrics = ReconcileMetrics(self._metrics.registry)
            node = open_node(
                self._settings,
                self._runner,
                self._deduplicator,
                files,
                metrics,
                layout,
                pods,
                gates,
                traces=self._traces,
            )
        except (DetectError, InUseError) as error:
            _log.warning("not writing kernel files, only answering hooks", reason=str(error))
            return None
        self._loops.append(node.reconcile_loop.run)
        # A plugin that is asked has allocated.
        if "resourceplugins" in self._runner.names and not self._settings.dry_run:
            host = open_resource_plugins(
                self._settings, node, self._plugins, self._metrics.registry
            )
            self._loops.append(host.run)
            self._prepare_pod = host.prepare
        JobMetrics(self._metrics.registry, node.jobs)
        self._answers.journal = node.plan_queue.note
        return node

    def _follow(self, cluster: StatesInformer, views: NodeViewBuilder, pods: PodInformer) -> None:
        """Have the API server's documents count, beginning with those of the last run."""
        reconcile_loop = self._node.reconcile_loop if self._node is not None else None

        def changed(kind: str, found: Object | None) -> None:
            if kind == "Node":
                pods.arrived()  # it says where the kubelet is
            if kind in ("Node", "NodeSLO"):
                views.update_object(kind, found)
                if reconcile_loop is not None:
                    reconcile_loop.wake()
                    return
                for line in views.refresh(None)[1]:
                    _log.warning("node settings rejected", reason=line)

        cluster.state.changed = changed
        cluster.state.recall()

    def _select_stages(self) -> tuple[Stage, ...]:
        """The stages to register for: the plugins' own, and those that show what runs."""
        observed = OBSERVED if self._node is not None else ()
        asked = self._runner.stages()
        return tuple(
            stage
            for stage in Stage
            if stage not in self._disabled and (stage in asked or stage in observed)
        )

    def _open_hook_server(self) -> None:
        """Open the server of hook calls and its registration with the proxy."""
        settings = self._settings
        self._registration = HookRegistration(
            settings.runtime_hooks_config_path,
            registration_text(
                settings.runtime_hooks_host_endpoint,
                settings.runtime_hooks_failure_policy,
                self._stages,
                settings.hook_timeout,
            ),
        )
        self._server = HookServer(
            self._runner,
            [stage for stage in self._runner.stages() if stage not in self._disabled],
            self._metrics,
            node=None if self._node is None else self._node.reconcile_loop,
            deduplicator=self._deduplicator,
            answers=self._answers,
            answered=self._answered,
            plugin_failure_fails=self._settings.runtime_hooks_plugin_failure_policy == "Fail",
            prepare=self._prepare_pod,
            traces=self._traces,
        )

    def _open_nri_client(self) -> None:
        settings = self._settings
        # NRI is of containerd's CRI part and knows none of docker's containers: its list
        # would be taken as complete.
        of_docker = settings.default_runtime_type == "docker"
        off = of_docker or settings.only_observes or not settings.enable_nri_runtime_hook
        if self._node is None or off:
            return
        reconcile_loop = self._node.reconcile_loop
        handler = HookHandler(
            self._runner,
            reconcile_loop,
            self._metrics,
            self._deduplicator,
            self._disabled,
            self._answers,
            self._answered,
            self._prepare_pod,
            self._traces,
        )
        name = settings.runtime_hooks_nri_plugin_name
        index = settings.runtime_hooks_nri_plugin_index
        directory = Path(settings.runtime_hooks_addr).parent
        self._nri = NriClient(
            handler,
            name=name,
            index=index,
            socket=settings.runtime_hooks_nri_socket_path,
            # Beside our own socket: the runtime's directory may be read-only to us.
            lock=str(directory / f"nri-{index}-{name}.lock"),
        )
        NriMetrics(self._metrics.registry, self._nri)
        self._loops.append(self._nri.run)

    def _status_servers(self) -> tuple[StatusServer, ...]:
        registry = self._metrics.registry
        kept = None
        if self._node is not None:
            kept = JournalPages(f"{self._settings.state_dir}/{journal.NAME}")
        served: dict[str, MakePage] = {
            "/metrics": lambda _: metrics_page(registry, "koordlet"),
            "/v1/status": lambda _: json_page(self._status_document()),
            "/events": events_page(kept),
        }
        if self._observing is not None:
            observed = self._observing.observed
            registry.register(SampleMetrics(observed))
            decided = None
            if self._deciding is not None:
                self._deciding.register(registry)
                decided = self._deciding.decided
            served |= pages(observed, decided, kept, self._answers)
        servers = open_servers(self._settings, served, self._cluster)
        return (*servers, self._malachite) if self._malachite is not None else servers

    def _status_document(self) -> Document:
        registration = self._registration
        hooks = HookTransports(
            self._settings.runtime_hooks_addr,
            str(registration.path) if registration is not None and registration.written else "",
            self._runner.names,
            self._stages,
            nri_state(self._settings, self._nri),
        )
        observed = self._observing.observed if self._observing else None
        mode = self._settings.mode
        return status_document(hooks, observed, STARTED_AT, mode)

    async def _work(self, stop: asyncio.Event) -> None:
        """Run all loops until stopped."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_run_forever(loop)) for loop in self._loops]
            tasks.append(group.create_task(systemd.feed_watchdog()))
            await stop.wait()
            systemd.notify("STOPPING=1")
            _log.info("stopping", registration=self._registration and self._registration.path)
            # Before the loops end, which may take seconds, and before anything is put
            # back: nobody may be given our values any more.
            if self._server is not None:
                await self._server.stop(_GRACE_SECONDS)
            for task in tasks:
                task.cancel()

    def _announce(self) -> None:
        status = ",".join(status.address for status in self._status) or None
        if self._registration is None:
            if self._settings.dry_run:
                _log.warning("DRY RUN", reason=DRY_RUN, status=status)
            else:
                _log.warning("read-only", reason=READ_ONLY, status=status)
            return
        _log.info(
            "serving",
            socket=self._settings.runtime_hooks_addr,
            registration=self._registration.path,
            plugins=",".join(self._runner.names),
            stages=",".join(self._stages),
            cgroups=self._cgroups,
            status=status,
        )

    def _register_again(self) -> None:
        if self._registration is None or not self._registration.written:
            # Not serving yet: the proxy must not find us.
            return
        try:
            self._registration.write()
        except OSError as error:
            _log.error(
                "cannot register again, keeping the old registration",
                reason=describe_os_error(error),
            )
        else:
            _log.info("registered again", registration=self._registration.path)


def reserved_cpus(cluster: StatesInformer, observing: MetricsAdvisor | None) -> ReservedCPUs | None:
    """The CPUs that the Node keeps out of the pools; ``None`` until it and the machine's are known.

    A Node that the API server does not have keeps none out.
    """
    cpus = observing.observer.newest.info(NodeCPUInfo) if observing else None
    node = cluster.node()
    if node is None and cluster.ages()["Node"].age_seconds is None:
        return None
    if cpus is None and observing is not None:
        return None
    return set_aside(node or {}, cpus.online if cpus else ())


def with_strategies(
    reserved: Callable[[], ReservedCPUs | None], strategies: StrategyLoop
) -> ReservedCPUs | None:
    """Add CPUs that strategies claim to those that are reserved."""
    found, claimed = reserved(), strategies.set_aside
    return found and replace(found, claims=claimed.claims, named=claimed.named)


async def _follow_rules(
    settings: KoordletSettings, views: NodeViewBuilder, pods: PodInformer
) -> None:
    """Apply the rules file where no reconcile loop reads it."""
    while True:
        known = [record.pod for record in pods.inventory.records()] if pods.known else None
        _, problems = await asyncio.to_thread(views.refresh, known)
        for line in problems:
            _log.warning("node settings rejected", reason=line)
        await asyncio.sleep(settings.runtime_hooks_reconcile_interval)


async def _run_forever(loop: Loop) -> None:
    """A loop in which a defect of ours costs a pause, and nothing of the other loops."""
    while True:
        try:
            return await loop()
        except Exception as error:
            _log.error("loop failed, restarting", reason=describe_error(first_error(error)))
        await asyncio.sleep(_AGAIN_SECONDS)
