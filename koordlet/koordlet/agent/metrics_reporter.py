"""Builds koordlet's reports to the cluster, and their paths, from the settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from koord_kube.credentials import ACCOUNT, TokenFile
from koord_kube.protocol.api import Object
from koord_kube.protocol.resources import (
    CUSTOM_NODE_RESOURCES,
    DEVICES,
    NODE_METRICS,
    NODE_TOPOLOGIES,
    Resource,
)
from koord_model.allocation import Allocations, exclusive_cpus
from koord_model.demand import Amounts
from koord_model.node_info import GPUs, NodeCPUInfo, NodeMemoryInfo, RDMADevices, XPUs
from koord_model.node_slo import NodeSLO
from koord_prediction.amount import ResourceAmount
from koord_service.logs import get_log

from koordlet.agent.config import KoordletSettings
from koordlet.agent.metrics_advisor import MetricsAdvisor
from koordlet.agent.qos_manager import QoSManager
from koordlet.agent.states_informer import StatesInformer
from koordlet.http_api.documents.node import ReportState
from koordlet.metrics_reporter.applier import ObjectApplier
from koordlet.metrics_reporter.direct_link import DirectLink
from koordlet.metrics_reporter.documents import (
    custom_node_resource,
    device,
    node_metric,
    node_topology,
    topology_change,
)
from koordlet.metrics_reporter.documents.metric_policy import MetricCollectPolicy, policy
from koordlet.metrics_reporter.documents.rollout_echo import RestartCounter, RolloutEcho
from koordlet.metrics_reporter.documents.topology_annotations import TopologyInputs
from koordlet.metrics_reporter.publisher import (
    BuildObject,
    BuildPatch,
    ObjectPublisher,
    PublisherState,
    PublishLoop,
)
from koordlet.metrics_reporter.reporter import NodeMetricReporter, ReporterState, ReportRoute
from koordlet.plugin_watcher.watcher import PluginWatcher
from koordlet.qos_manager.eviction.plugins.core.answers import PluginCondition, PluginConditions
from koordlet.states_informer.kubelet_cpus import KubeletCPUs
from koordlet.states_informer.state.share_pools import ReservedCPUs

if TYPE_CHECKING:
    from koordlet.metrics_reporter.plugins.export import PluginFieldExport

FIELD_MANAGER = "koordlet"
Loop = Callable[[], Coroutine[Any, Any, None]]

_log = get_log("koordlet.reporter")


class MetricsReporter:
    """koordlet's reports to the cluster, as far as the settings and gates want them.

    ``loops`` report until cancelled.
    """

    def __init__(
        self,
        settings: KoordletSettings,
        gates: Mapping[str, bool],
        cluster: StatesInformer,
        observing: MetricsAdvisor,
        kubelet_cpus: Callable[[], KubeletCPUs | None],
        slo: Callable[[], NodeSLO],
        deciding: QoSManager | None = None,
        *,
        set_aside: Callable[[], ReservedCPUs | None] = ReservedCPUs,
        allocations: Callable[[], Allocations] = dict,
        plugins: PluginWatcher | None = None,
    ) -> None:
        self._settings = settings
        self._gates = gates
        self._cluster = cluster
        self._observing = observing
        self._kubelet_cpus = kubelet_cpus
        self._slo = slo
        self._deciding = deciding
        self._set_aside = set_aside
        self._allocations = allocations
        self._built: tuple[object, Object | None] = None, None
        self._restarts = RestartCounter()
        self._problems: tuple[NodeSLO | None, tuple[str, ...]] = None, ()
        self.reporter: NodeMetricReporter | None = None
        self._link: DirectLink | None = None
        if settings.enable_node_metric_report:
            link = self._link = _link(settings, cluster.name)
            self.reporter = NodeMetricReporter(
                cluster.name, self._status, self._policy, cluster.client, link
            )
        runs: list[Loop] = [] if self.reporter is None else [self.reporter.run]
        self._plugin_fields, asking = _reporter_plugins(gates, plugins)
        runs += asking
        self.publishers = tuple(self._publishers())
        self.loops = (*runs, *(publisher.run for publisher in self.publishers))

    def states(self) -> Mapping[str, ReportState]:
        """The state of each report, by the kind of its object."""
        found = {}
        if self.reporter is not None:
            found[NODE_METRICS.kind] = node_metric_state(self.reporter.state, self._link)
        return found | {
            publisher.kind: publisher_state(publisher.state) for publisher in self.publishers
        }

    def _publishers(self) -> list[PublishLoop]:
        made: list[PublishLoop] = []
        if self._gates["NodeTopologyReport"]:
            change: BuildPatch = topology_change.change
            made.append(self._publisher(NODE_TOPOLOGIES, self._topology, change))
        if self._gates["Accelerators"] or self._gates["RDMADevices"]:
            made.append(self._publisher(DEVICES, self._devices, device.change))
        if self._gates["CustomNodeResource"]:
            made.append(self._custom_node_resource_applier())
        return made

    def _publisher(
        self, resource: Resource, build: BuildObject, change: BuildPatch
    ) -> ObjectPublisher:
        interval = self._settings.node_topology_sync_interval
        cluster = self._cluster
        return ObjectPublisher(
            cluster.client, resource, cluster.name, build, change, interval=interval
        )

    def _custom_node_resource_applier(self) -> ObjectApplier:
        cluster = self._cluster
        return ObjectApplier(
            cluster.client,
            CUSTOM_NODE_RESOURCES,
            cluster.name,
            self._custom_node_resource,
            self._with_usage,
            FIELD_MANAGER,
            judge=self._plugin_fields.judge if self._plugin_fields else None,
            interval=self._settings.node_topology_sync_interval,
        )

    def _policy(self) -> MetricCollectPolicy:
        found, problems = policy(self._cluster.state.get("NodeMetric") or {})
        self._cluster.complain(*problems)
        return found

    def _status(self, now: float) -> node_metric.NodeMetricStatus:
        observed = self._observing.observed
        prod = self._observing.predicting.prediction.prod
        known = node_metric.NodeMetricInputs(
            pods=observed.pods(),
            host_applications=self._slo().host_applications,
            gpus=observed.latest.info(GPUs),
            memory=observed.latest.info(NodeMemoryInfo),
            reclaimable=_amounts(prod.reclaimable if prod else None),
            peak=_amounts(prod.peak if prod else None),
            conditions=self._conditions(),
            echo=self._echo(),
            with_recent=self._gates["RecentUsage"],
        )
        return node_metric.build(observed.cache, now, self._policy(), known)

    def _echo(self) -> RolloutEcho | None:
        slo, deciding = self._slo(), self._deciding
        restarts = self._restarts.look(self._observing.observed.pods())
        if slo.rollout is None or deciding is None:
            return None
        if slo is not self._problems[0]:
            self._problems = slo, deciding.settings_problems(slo)
        return RolloutEcho(slo.rollout, self._problems[1], deciding.evicted(), restarts)

    def _topology(self, _: Object | None = None) -> Object | None:
        """The NodeResourceTopology; the same object for as long as nothing in it has changed."""
        observed, node = self._observing.observed, self._cluster.node()
        cpus = observed.latest.info(NodeCPUInfo)
        memory = observed.latest.info(NodeMemoryInfo)
        kubelet = self._kubelet_cpus()
        if cpus is None or memory is None or node is None or kubelet is None:
            return None
        pods = observed.pods()
        inputs = TopologyInputs(
            cpus,
            memory,
            pods,
            self._cluster.kubelet_config,
            kubelet.by_pod,
            self._gates["HugePageReport"],
            exclusive_cpus(self._allocations(), (record.pod for record in pods)),
            self._set_aside() or ReservedCPUs(),
        )
        if self._built[0] != (node, inputs):
            built, problems = node_topology.build(node, inputs)
            self._cluster.complain(*problems)
            self._built = (node, inputs), built
        return self._built[1]

    def _conditions(self) -> tuple[tuple[str, PluginCondition], ...]:
        found = self._observing.observed.latest.info(PluginConditions)
        return found.conditions if found else ()

    def _custom_node_resource(self) -> Object | None:
        node, cpus = self._cluster.node(), self._observing.observed.latest.info(NodeCPUInfo)
        topology = self._topology()
        if node is None or cpus is None or topology is None:
            return None
        built = custom_node_resource.build(node, topology, cpus.online, self._conditions())
        return built if self._plugin_fields is None else self._plugin_fields.add(built)

    def _with_usage(self, built: Object) -> Object:
        now = time.time()
        return custom_node_resource.with_usage(built, self._status(now).status, now)

    def _devices(self, there: Object | None) -> Object | None:
        latest, node = self._observing.observed.latest, self._cluster.node()
        gpus, xpus, rdma = latest.info(GPUs), latest.info(XPUs), latest.info(RDMADevices)
        if node is None or (gpus is None and xpus is None and rdma is None):
            return None
        uid = node["metadata"].get("uid", "")
        return device.device(self._cluster.name, uid, gpus, xpus, rdma, time.time(), there)


def _reporter_plugins(
    gates: Mapping[str, bool], plugins: PluginWatcher | None
) -> tuple[PluginFieldExport | None, list[Loop]]:
    """The export of what reporter plugins say, and the loop that asks them; none if it is off."""
    if not gates["ReporterPlugins"] or plugins is None:
        return None, []
    if not gates["CustomNodeResource"]:
        reason = "what they report is exported with --feature-gates=CustomNodeResource=true"
        _log.warning("reporter plugins are not asked", reason=reason)
        return None, []
    # Imported late: few nodes have such plugins.
    from koordlet.metrics_reporter.plugins.export import PluginFieldExport
    from koordlet.metrics_reporter.plugins.host import KIND, VERSIONS, ReporterPluginHost

    host = ReporterPluginHost()
    plugins.follow(KIND, VERSIONS, host.follow)
    return PluginFieldExport(host.reported), [host.run]


def node_metric_state(state: ReporterState, link: DirectLink | None) -> ReportState:
    """The state of NodeMetric; ``link`` is the direct link, if there is one."""
    sent = {ReportRoute.OBJECT.value: state.objects}
    if link is not None:
        sent[ReportRoute.DIRECT.value] = state.direct
    problem = [state.problem] if state.problem else []
    if state.link_problem:
        problem.append(f"direct link: {state.link_problem}")
    return ReportState(
        way=state.route.value,
        reported_at=state.reported_at,
        sent=sent,
        failures=state.failures + state.link_failures,
        problem="; ".join(problem),
        leader=link.leader if link is not None and state.route is ReportRoute.DIRECT else "",
    )


def publisher_state(state: PublisherState) -> ReportState:
    """The state of a published object."""
    well = state.reported_at and not state.problem
    return ReportState(
        way=(ReportRoute.OBJECT if well else ReportRoute.NONE).value,
        reported_at=state.reported_at,
        sent={ReportRoute.OBJECT.value: state.created + state.patched},
        failures=state.failures,
        problem=state.problem,
    )


def _link(settings: KoordletSettings, name: str) -> DirectLink | None:
    if not settings.node_metric_report_address:
        return None
    authority = settings.node_metric_report_ca_file
    if not authority and (ACCOUNT / "ca.crt").exists():
        authority = str(ACCOUNT / "ca.crt")
    address = settings.node_metric_report_address
    credentials = TokenFile(Path(settings.node_metric_report_token_file))
    try:
        return DirectLink(address, name, ca_file=authority, credentials=credentials)
    except ValueError as error:
        raise ValueError(f"--node-metric-report-address: {error}") from None


def _amounts(amount: ResourceAmount | None) -> Amounts | None:
    """In the units of reports: millicores and bytes."""
    if amount is None:
        return None
    return {"cpu": round(amount.cpu * 1000), "memory": round(amount.memory)}
