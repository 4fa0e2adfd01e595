"""Controllers of the leader, for one term."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import anyio
from koord_kube.client import Client
from koord_kube.event_recorder import EventRecorder
from koord_kube.informer import Informer
from koord_kube.pod_evictor import PodEvictor
from koord_kube.protocol.api import Api
from koord_kube.protocol.resources import NODES, PODS, SERVICE_PROFILES
from koord_kube.shared_backoff import backoff_of
from koord_model.elastic_quota import ElasticQuota
from koord_service import memory

from koord_manager.cluster_page.core.cluster_document import ClusterSummary
from koord_manager.metrics_apis.core.pods import PodIndex
from koord_manager.metrics_apis.core.service_metrics import read_packed
from koord_manager.node_backstop.controller import GATE as NODE_BACKSTOP_GATE
from koord_manager.node_backstop.controller import BackstopInputs, NodeBackstopController
from koord_manager.node_backstop.evictions import BackstopEvictor
from koord_manager.node_metric import controller as node_metric_controller
from koord_manager.node_metric.service import NodeMetricService
from koord_manager.node_objects.controller import NodeObjectController
from koord_manager.node_objects.core.nodes import ClusterNode, is_gone, read_node
from koord_manager.node_taints.controller import NodeTaintController
from koord_manager.node_taints.core.source import TaintSource
from koord_manager.node_taints.reported_conditions import GATE as MANAGED_TAINTS_GATE
from koord_manager.node_taints.reported_conditions import ReportedConditions
from koord_manager.noderesource.controller import NodeResourceController
from koord_manager.noderesource.core.calculation_names import CALCULATIONS
from koord_manager.noderesource.core.pods import PodSummary, pod_summary, read_pod_summary
from koord_manager.nodeslo import controller as nodeslo_controller
from koord_manager.nodeslo.controller import NodeSLOController
from koord_manager.nodeslo.core.reconciler import no_services
from koord_manager.profiles.controller import ColocationProfileController, ProfilePace
from koord_manager.program.config import Settings, enabled_controllers, select_enabled
from koord_manager.program.gates import CUSTOM_METRICS, EXTERNAL_METRICS, RESOURCE_METRICS
from koord_manager.program.metrics import ManagerStatus
from koord_manager.program.shared_pods import SharedPods
from koord_manager.quota.controller import QuotaProfileController
from koord_manager.recommendation.controller import RecommendationController
from koord_manager.recommendation.core.pods import recommendation_pod
from koord_manager.recommendation.core.recommender import RecommendationPolicy, Recommender
from koord_manager.resize.controller import ResizeController
from koord_manager.rollout.controller import RolloutController
from koord_manager.service_profiles.controller import GATE as SERVICE_PROFILES_GATE
from koord_manager.service_profiles.controller import NO_PROFILES, ServiceProfileController
from koord_manager.service_profiles.core.explanation import Explanation, answer
from koord_manager.service_profiles.core.objects import service_pod
from koord_manager.slo_config.core.colocation import SETTLE_SECONDS, ColocationStrategy
from koord_manager.slo_config.informer import SLOConfigInformer
from koord_manager.webhooks.cluster_view import ClusterView

OnWarning = Callable[[str], None]


@dataclass(frozen=True)
class ManagerContext:
    """Context of all managers, leading or not; ``service`` where nodes report straight."""

    configs: SLOConfigInformer
    view: Callable[[], ClusterView]
    gates: Mapping[str, bool]
    service: NodeMetricService | None
    recorder: EventRecorder
    on_warning: OnWarning


class LeaderControllers:
    """The controllers of one term; ``api`` writes only while the term lasts."""

    def __init__(self, settings: Settings, api: Client, shared: ManagerContext) -> None:
        self._shared = shared
        names = enabled_controllers(settings.controllers)
        self._nodes: Informer[ClusterNode] = Informer(
            api, NODES, decode=read_node, on_change=self._node_changed, on_warning=shared.on_warning
        )
        measures = shared.gates[RESOURCE_METRICS] or shared.gates[CUSTOM_METRICS]
        self._shared_pods = (
            SharedPods(api, PodIndex(), on_warning=shared.on_warning) if measures else None
        )
        self._pods = self._pod_informer(api, "noderesource" in names)
        self._services = self._service_profiles(api) if "serviceprofile" in names else None
        self._service_values: Informer[bytes] | None = (
            Informer(
                api,
                SERVICE_PROFILES,
                decode=read_packed,
                optional=True,
                on_warning=shared.on_warning,
            )
            if shared.gates[EXTERNAL_METRICS]
            else None
        )
        self._objects = tuple(self._node_objects(api, names))
        self.resources = (
            self._node_resources(settings, api, self._pods)
            if "noderesource" in names and self._pods is not None
            else None
        )
        self._profiles = _profiles(settings, api, shared) if "colocationprofile" in names else None
        self._quotas = (
            QuotaProfileController(api, self._nodes, shared.recorder, on_warning=shared.on_warning)
            if "quotaprofile" in names
            else None
        )
        self._recommendations = (
            self._recommending(settings, api) if "recommendation" in names else None
        )
        self._backstop = self._guarding(settings, api) if "nodetaint" in names else None
        self._taints = self._tainting(api) if "nodetaint" in names else None
        self.resizes = self._resizing(api) if "podresize" in names else None
        self._rollouts = self._following(settings, api) if "rollout" in names else None

    @property
    def nodes(self) -> Mapping[str, ClusterNode]:
        """The cluster's nodes, as far as they are known."""
        return self._nodes.objects

    @property
    def nodes_complete(self) -> bool:
        """True if all ``nodes`` are there, and their strategies are known."""
        return self._nodes.synced and self._shared.configs.synced

    @property
    def pods(self) -> PodIndex | None:
        """All pods on nodes, for the metrics APIs; ``None`` while they are not known."""
        found = self._shared_pods
        return found.index if found is not None and found.informer.synced else None

    @property
    def service_values(self) -> Mapping[str, bytes] | None:
        """Packed values of descriptors by namespace/name; ``None`` while not known."""
        found = self._service_values
        known = found is not None and (found.synced or found.absent)
        return found.objects if found is not None and known else None

    def strategy(self, node: str) -> ColocationStrategy:
        """The strategy of a node; of one that is not known the cluster's."""
        taken = self.resources.fleet.strategy(node) if self.resources else None
        if taken is not None:
            return taken  # where it is computed already: this is asked for thousands at once
        known, config = self._nodes.objects.get(node), self._shared.configs.config
        if known is None:
            return config.colocation.cluster
        return config.strategies_for(known.labels, known.annotations).colocation

    def received(self, node: str, status: bytes, at: float) -> None:
        """A node has reported straight to this manager; ``at`` in monotonic seconds."""
        if self.resources is not None:
            self.resources.received(node, status, at)

    def why(self, node: str) -> dict[str, object] | None:
        """Decisions about a node, in the form of ``/v1/why``; ``None`` where none are made."""
        if self.resources is None:
            return None
        more = {}
        if self._backstop is not None:
            more[NODE_BACKSTOP_GATE] = self._backstop.decisions(node)
        return self.resources.why(node, more)

    def cluster_summary(self, quotas: Mapping[str, ElasticQuota], now: float) -> ClusterSummary:
        """Summarise the cluster for its page; ``now`` is in seconds since the epoch."""
        resources = self.resources
        return ClusterSummary(
            usage=resources.fleet.usage(now) if resources is not None else None,
            is_complete=resources is None or resources.known.is_set(),
            closed=frozenset(name for name, node in self.nodes.items() if not node.takes_pods),
            quotas=quotas,
            rollouts=self._rollouts.overview() if self._rollouts is not None else None,
            node_evictions=self._rollouts.evictions() if self._rollouts is not None else None,
            backstop=asdict(self._backstop.figures) if self._backstop is not None else None,
        )

    def why_service(self, service: str) -> Explanation:
        """Explain the profiles of a service, "namespace/name"."""
        if self._services is None:
            return answer(service, (), NO_PROFILES)
        return self._services.why(service)

    def problems(self) -> Iterator[str]:
        """Reasons why something may not be as desired, a line each."""
        others = (
            *(self.resources, self._quotas, self._recommendations, self._taints),
            *(self._rollouts, self._pods, self._services, self.resizes),
            self._service_values
            if self._service_values and not self._service_values.absent
            else None,
        )
        for controller in (self._nodes, *self._objects, *others):
            if controller is not None and controller.problem:
                yield controller.problem

    def figures(self, leads: bool, problems: int) -> ManagerStatus:
        """Return the controllers' present numbers."""
        queues = [(controller.loop.name, controller.loop) for controller in self._objects]
        found = (
            *(self.resources, self._quotas, self._recommendations, self._taints),
            self.resizes,
        )
        queues += [
            (controller.loop.name, controller.loop)
            for controller in found
            if controller is not None
        ]
        return ManagerStatus(
            leads,
            problems,
            nodes=len(self.nodes),
            passes=self.resources.passes if self.resources else 0,
            pass_seconds=self.resources.pass_seconds if self.resources else 0.0,
            queues=tuple(queues),
            backstop=self._backstop.figures if self._backstop is not None else None,
            resizes=dict(self.resizes.done) if self.resizes else {},
            resize_states=self.resizes.states() if self.resizes else {},
        )

    async def run(self) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._nodes.run)
            for controller in self._objects:
                group.start_soon(controller.run)
            for other in (
                self.resources,
                self._profiles,
                self._quotas,
                self._recommendations,
                self._taints,
                self._backstop,
                self.resizes,
                self._rollouts,
                self._pods,
                self._services,
                self._service_values,
            ):
                if other is not None:
                    group.start_soon(other.run)
            if self.resources is not None:
                await self.resources.known.wait()
                memory.freeze_startup()  # what was read of a large cluster stays
                usual = self._shared.configs.config.colocation.cluster
                await anyio.sleep(usual.metric_report_seconds + SETTLE_SECONDS)
                memory.freeze_startup()  # and so does what nodes have reported by then

    def _node_objects(self, api: Api, names: Collection[str]) -> Iterator[NodeObjectController]:
        shared = self._shared
        given = api, self._nodes, shared.configs, shared.on_warning
        if "nodemetric" in names:
            yield node_metric_controller.controller(*given)
        if "nodeslo" in names:
            services = self._services.entries if self._services else no_services
            yield nodeslo_controller.controller(*given, services)

    def _pod_informer(self, api: Api, summaries: bool) -> Informer[Any] | None:
        """An informer of as much of each pod as anybody needs; ``None`` where nobody does."""
        if self._shared_pods is not None:
            if summaries:
                self._shared_pods.add(pod_summary, self._summary_changed)
            return self._shared_pods.informer
        if not summaries:
            return None
        return Informer(
            api,
            PODS,
            decode=read_pod_summary,
            on_change=self._summary_changed,
            on_warning=self._shared.on_warning,
        )

    def _summary_changed(self, key: str, before: PodSummary | None, now: PodSummary | None) -> None:
        if self.resources is not None:
            self.resources.pod_changed(key, before, now)

    def _service_profiles(self, api: Api) -> ServiceProfileController | None:
        shared = self._shared
        if not shared.gates[SERVICE_PROFILES_GATE]:
            return None
        pods = self._shared_pods
        return ServiceProfileController(
            api,
            self._services_changed,
            shared.recorder,
            on_warning=shared.on_warning,
            source=partial(pods.some, service_pod) if pods is not None else None,
        )

    def _services_changed(self, nodes: set[str]) -> None:
        for controller in self._objects:
            if isinstance(controller, NodeSLOController):
                controller.services_changed(nodes)

    def _node_resources(
        self, settings: Settings, api: Api, pods: Informer[Any]
    ) -> NodeResourceController:
        shared = self._shared
        plugins = settings.noderesource_plugins
        return NodeResourceController(
            api,
            self._nodes,
            pods,
            shared.configs,
            gates=shared.gates,
            calculations=select_enabled("noderesource-plugins", plugins, CALCULATIONS),
            on_warning=shared.on_warning,
            settle=SETTLE_SECONDS if shared.service is not None else 0.0,
            period=settings.noderesource_interval,
        )

    def _node_changed(self, name: str, before: ClusterNode | None, now: ClusterNode | None) -> None:
        if self._shared.service is not None and is_gone(before, now):
            self._shared.service.forget(name)
        for controller in self._objects:
            controller.node_changed(name, before, now)
        if self.resources is not None:
            self.resources.node_changed(name, before, now)

    def _guarding(self, settings: Settings, api: Client) -> NodeBackstopController | None:
        shared, resources = self._shared, self.resources
        if resources is None or not shared.gates[NODE_BACKSTOP_GATE]:
            return None
        return NodeBackstopController(
            BackstopInputs(
                self._nodes,
                lambda: self._nodes.is_followed and resources.hears,
                lambda: shared.configs.config,
                self.strategy,
                resources.status,
            ),
            BackstopEvictor(
                api,
                PodEvictor(api.write, backoff_of(api)),
                shared.recorder,
                on_warning=shared.on_warning,
            ),
            shared.recorder,
            config_map=(settings.slo_config_name, settings.config_namespace),
            on_warning=shared.on_warning,
        )

    def _tainting(self, api: Api) -> NodeTaintController | None:
        shared = self._shared
        if self.resources is None:
            return None  # there was a line at the start
        sources: list[TaintSource] = []
        if shared.gates[MANAGED_TAINTS_GATE]:
            sources.append(ReportedConditions(self._nodes, self.resources.status))
        if self._backstop is not None:
            sources.append(self._backstop)
        if not sources:
            return None
        return NodeTaintController(
            api,
            self._nodes,
            sources,
            shared.recorder,
            known=self.resources.known.wait,
            on_warning=shared.on_warning,
        )

    def _following(self, settings: Settings, api: Api) -> RolloutController | None:
        shared = self._shared
        slos = next((one for one in self._objects if isinstance(one, NodeSLOController)), None)
        if self.resources is None or slos is None or not shared.gates["RolloutGuard"]:
            return None
        return RolloutController(
            api,
            self._nodes,
            shared.configs,
            slos,
            self.resources.status,
            shared.recorder,
            name=settings.slo_config_name,
            namespace=settings.config_namespace,
            on_warning=shared.on_warning,
        )

    def _resizing(self, api: Api) -> ResizeController | None:
        shared = self._shared
        if self.resources is None or not shared.gates["PodResize"]:
            return None
        return ResizeController(
            api, self.resources.status, shared.recorder, on_warning=shared.on_warning
        )

    def _recommending(self, settings: Settings, api: Api) -> RecommendationController | None:
        if self.resources is None:
            return None  # there was a line at the start
        pods = self._shared_pods
        policy = RecommendationPolicy(
            margin=settings.recommendation_safety_margin_percent / 100,
            half_life=settings.recommendation_half_life,
        )
        return RecommendationController(
            api,
            self._nodes,
            Recommender(policy),
            self.resources.status,
            on_warning=self._shared.on_warning,
            interval=settings.recommendation_interval,
            source=partial(pods.some, recommendation_pod) if pods is not None else None,
        )


def _profiles(
    settings: Settings, api: Api, shared: ManagerContext
) -> ColocationProfileController | None:
    if not shared.gates["ColocationProfileController"]:
        return None
    return ColocationProfileController(
        api,
        shared.view,
        by_default=settings.colocation_profile_reconcile_by_default,
        pace=ProfilePace(
            settings.colocation_profile_reconcile_interval,
            settings.colocation_profile_force_update_pod_duration,
            settings.colocation_profile_expire_pod_cache_duration,
            settings.colocation_profile_update_pod_qps,
            settings.colocation_profile_update_pod_qps_burst,
        ),
        on_warning=shared.on_warning,
    )
