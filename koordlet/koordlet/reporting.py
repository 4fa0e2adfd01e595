"""What koordlet tells the cluster, put together from the settings: its reports and their ways."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from koord_host.files import Reader
from koord_kube.api import Object
from koord_kube.credentials import ACCOUNT, TokenFile
from koord_kube.resources import DEVICES, NODE_METRICS, NODE_TOPOLOGIES, Resource
from koord_model.demand import Amounts
from koord_model.node_info import GPUs, NodeCPUInfo, NodeMemoryInfo, RDMADevices, XPUs
from koord_model.node_slo import NodeSLO
from koord_prediction.amount import Amount

from koordlet.cluster import ClusterSide
from koordlet.config import Settings
from koordlet.delivery.direct_link import DirectLink
from koordlet.delivery.publisher import Build, Change, Publisher, PublisherState
from koordlet.delivery.reporter import Reporter, ReporterState, Way
from koordlet.observing import Observing
from koordlet.pages.node import ReportState
from koordlet.reports import device, node_metric, node_topology, topology_change
from koordlet.reports.metric_policy import Policy, policy
from koordlet.reports.topology_annotations import Facts
from koordlet.states import kubelet_cpus


class Reporting:
    """NodeMetric, NodeResourceTopology and Device, as far as the settings and gates want them.

    ``loops`` report until cancelled.
    """

    def __init__(
        self,
        settings: Settings,
        gates: Mapping[str, bool],
        cluster: ClusterSide,
        observing: Observing,
        reader: Reader,
        slo: Callable[[], NodeSLO],
    ) -> None:
        self._settings = settings
        self._gates = gates
        self._cluster = cluster
        self._observing = observing
        self._reader = reader
        self._slo = slo
        self.reporter: Reporter | None = None
        self._link: DirectLink | None = None
        if settings.enable_node_metric_report:
            link = self._link = _link(settings, cluster.name)
            self.reporter = Reporter(cluster.name, self._status, self._policy, cluster.client, link)
        self.publishers = tuple(self._publishers())
        runs = [] if self.reporter is None else [self.reporter.run]
        self.loops = (*runs, *(one.run for one in self.publishers))

    def states(self) -> Mapping[str, ReportState]:
        """How each report fares, by the kind of its object."""
        found = {}
        if self.reporter is not None:
            found[NODE_METRICS.kind] = node_metric_state(self.reporter.state, self._link)
        return found | {one.kind: publisher_state(one.state) for one in self.publishers}

    def _publishers(self) -> list[Publisher]:
        made = []
        if self._gates["NodeTopologyReport"]:
            change: Change = topology_change.change
            made.append(self._publisher(NODE_TOPOLOGIES, self._topology, change))
        if self._gates["Accelerators"] or self._gates["RDMADevices"]:
            made.append(self._publisher(DEVICES, self._devices, device.change))
        return made

    def _publisher(self, resource: Resource, build: Build, change: Change) -> Publisher:
        interval = self._settings.node_topology_sync_interval
        cluster = self._cluster
        return Publisher(cluster.client, resource, cluster.name, build, change, interval=interval)

    def _policy(self) -> Policy:
        found, problems = policy(self._cluster.state.get("NodeMetric") or {})
        self._cluster.complain(*problems)
        return found

    def _status(self, now: float) -> node_metric.Built:
        observed = self._observing.observed
        prod = self._observing.predicting.prediction.prod
        known = node_metric.Known(
            pods=observed.pods(),
            host_applications=self._slo().host_applications,
            gpus=observed.latest.fact(GPUs),
            memory=observed.latest.fact(NodeMemoryInfo),
            reclaimable=_amounts(prod.reclaimable if prod else None),
            peak=_amounts(prod.peak if prod else None),
        )
        return node_metric.build(observed.cache, now, self._policy(), known)

    def _topology(self, _: Object | None) -> Object | None:
        observed, node = self._observing.observed, self._cluster.node()
        cpus = observed.latest.fact(NodeCPUInfo)
        memory = observed.latest.fact(NodeMemoryInfo)
        if cpus is None or memory is None or node is None:
            return None
        facts = Facts(
            cpus,
            memory,
            observed.pods(),
            self._cluster.kubelet_config,
            self._given_away(),
            self._gates["HugePageReport"],
        )
        built, problems = node_topology.build(node, facts)
        self._cluster.complain(*problems)
        return built

    def _given_away(self) -> Mapping[str, frozenset[int]]:
        """The CPUs that the kubelet gave to containers; none where it keeps no such file."""
        path = f"{self._settings.var_lib_kubelet_dir}/{kubelet_cpus.STATE_FILE}"
        try:
            return kubelet_cpus.parse(self._reader.read(path)).by_pod
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            self._cluster.complain(f"{path}: {error} (no CPUs are told as given away)")
            return {}

    def _devices(self, there: Object | None) -> Object | None:
        latest, node = self._observing.observed.latest, self._cluster.node()
        gpus, xpus, rdma = latest.fact(GPUs), latest.fact(XPUs), latest.fact(RDMADevices)
        if node is None or (gpus is None and xpus is None and rdma is None):
            return None
        uid = node["metadata"].get("uid", "")
        return device.device(self._cluster.name, uid, gpus, xpus, rdma, time.time(), there)


def node_metric_state(state: ReporterState, link: DirectLink | None) -> ReportState:
    """How NodeMetric fares; ``link`` is the direct one, where there is one."""
    sent = {Way.OBJECT.value: state.objects}
    if link is not None:
        sent[Way.DIRECT.value] = state.direct
    trouble = [state.trouble] if state.trouble else []
    if state.link_trouble:
        trouble.append(f"direct link: {state.link_trouble}")
    return ReportState(
        way=state.way.value,
        reported_at=state.reported_at,
        sent=sent,
        failures=state.failures + state.link_failures,
        trouble="; ".join(trouble),
        leader=link.leader if link is not None and state.way is Way.DIRECT else "",
    )


def publisher_state(state: PublisherState) -> ReportState:
    """How an object that is published fares."""
    well = state.reported_at and not state.trouble
    return ReportState(
        way=(Way.OBJECT if well else Way.NONE).value,
        reported_at=state.reported_at,
        sent={Way.OBJECT.value: state.created + state.patched},
        failures=state.failures,
        trouble=state.trouble,
    )


def _link(settings: Settings, name: str) -> DirectLink | None:
    if not settings.node_metric_report_address:
        return None
    authority = settings.node_metric_report_ca_file
    if not authority and (ACCOUNT / "ca.crt").exists():
        authority = str(ACCOUNT / "ca.crt")
    address = settings.node_metric_report_address
    credentials = TokenFile(ACCOUNT / "token")
    try:
        return DirectLink(address, name, ca_file=authority, credentials=credentials)
    except ValueError as error:
        raise ValueError(f"--node-metric-report-address: {error}") from None


def _amounts(amount: Amount | None) -> Amounts | None:
    """In the units of reports: millicores and bytes."""
    if amount is None:
        return None
    return {"cpu": round(amount.cpu * 1000), "memory": round(amount.memory)}
