"""The manager's account may do what its parts ask for, and no more."""

from __future__ import annotations

import asyncio
import copy
import json
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from koord_kube.client import Client, Cluster, Limits
from koord_kube.informer import Informer
from koord_kube.lease_elector import LeaseElector
from koord_kube.protocol.resources import (
    API_SERVICES,
    COLOCATION_PROFILES,
    CONFIG_MAPS,
    ELASTIC_QUOTAS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    NODE_METRICS,
    NODE_TOPOLOGIES,
    NODES,
    PODS,
    QUOTA_PROFILES,
    RECOMMENDATIONS,
    SERVICE_PROFILES,
    VALIDATING_WEBHOOKS,
)
from koord_kube.protocol.selectors import label_is
from koord_manager.node_metric import controller
from koord_manager.node_metric import publisher as publishing
from koord_manager.node_metric.publisher import LeaderEndpoint, LeaderPublisher
from koord_manager.node_metric.report_authorizer import ReportAuthorizer
from koord_manager.node_objects.core.nodes import ClusterNode, read_node
from koord_manager.noderesource.controller import NodeResourceController
from koord_manager.noderesource.core.pods import read_pod_summary
from koord_manager.program.cluster_queries import ClusterQueries
from koord_manager.program.config import Settings
from koord_manager.program.metrics_groups import METRICS_GROUPS
from koord_manager.program.node_metric_server import CA_CONFIG_MAP
from koord_manager.quota.charging import QuotaCharger
from koord_manager.quota.core.charge import QuotaCharge
from koord_manager.quota.core.review import PodQuery
from koord_manager.slo_config.informer import SLOConfigInformer
from koord_manager.webhooks.table import NAMES, TABLE
from koord_serving.admission.configuration_reconciler import WebhookConfigurationReconciler
from koord_serving.admission.core.ca_bundle_targets import api_service_target, configuration_target
from koord_serving.admission.core.configurations import WebhookClientConfig, configurations
from koord_serving.delegated_auth.authenticator import DelegatedAuthenticator
from koord_serving.delegated_auth.core.reviews import AccessAttributes
from koord_serving.delegated_auth.core.users import User
from koord_serving.tls.certificate_secret import CertificateSecret
from koord_serving.tls.core.certificates import LIFE
from koord_serving.tls.server_tls import ServerTls

from tests.deploy.manifests import NAMESPACE, containers, environ, installed
from tests.deploy.rights import Right, missing, rights, unused
from tests.manager.conftest import event_recorder
from tests.support.certificates import HAVE_OPENSSL, make_certificates
from tests.support.kube_api import KubeApi, koordlet_account
from tests.support.processes import PATIENCE
from tests.support.service_account_tokens import unsigned_token

SETTINGS = Settings()
METRICS = tuple(version for group in METRICS_GROUPS for version in group.versions)
PUBLISHED = (publishing.NODE_METRICS, *METRICS)
WEBHOOKS = "admissionregistration.k8s.io"
GATES = (
    "ColocationProfileController",
    "ConfigMapValidatingWebhook",
    "CustomMetricsAPI",
    "EnablePodEnhancedValidator",
    "ExternalMetricsAPI",
    "MultiQuotaTree",
    "NodeMutatingWebhook",
    "NodeValidatingWebhook",
    "ReservationMutatingWebhook",
    "ResourceMetricsAPI",
    "RolloutGuard",
)
NOT_RUN_HERE = {
    # What was learnt is kept after ten minutes.
    ("analysis.koordinator.sh", "recommendations", "patch"),
    # NodeSLOs are kept as NodeMetrics are.
    *(("slo.koordinator.sh", "nodeslos", verb) for verb in ("patch", "delete")),
}
"""What is allowed for what no test of this module waits for."""
MAY_RUN_HERE = {("slo.koordinator.sh", "nodeslos", "get")}
"""Rights used only if a NodeSLO is looked at again before its creation has been heard of."""
COMPONENTS = (
    "node-metric-api",
    "resource-metrics",
    "custom-metrics",
    "external-metrics",
    "colocation-profile-controller",
    "rollout-guard",
)
OF_COMPONENTS = {
    ("create", "apiservices"),
    *((verb, "apiservices") for verb in ("get", "list", "watch", "update", "delete")),
    ("create", "configmaps"),
    *((verb, "configmaps") for verb in ("get", "list", "watch", "update")),
    ("create", "endpointslices"),
    *((verb, "endpointslices") for verb in ("get", "update")),
    ("patch", "pods"),
    *((verb, "serviceprofiledescriptors") for verb in ("list", "watch")),
    ("create", "tokenreviews"),
    ("create", "subjectaccessreviews"),
}


def _container() -> dict[str, Any]:
    return next(one for _, one in containers(installed()) if one["name"] == "manager")


def _quiet(_line: str) -> None:
    pass


class Parts:
    """Parts of the manager, each run for as long as it takes to ask for all that it may."""

    def __init__(self, api: KubeApi, client: Client, directory: Path) -> None:
        self.api = api
        self.client = client
        self.directory = directory

    async def until(self, true: Callable[[], bool], what: str = "") -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                while not true():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            pytest.fail(f"not within {PATIENCE:g} s: {what or true}")

    @asynccontextmanager
    async def running(self, *parts: Any) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one.run()) for one in parts]
            yield
            for task in tasks:
                task.cancel()

    async def lead(self) -> None:
        name = SETTINGS.leader_election_name
        elector = LeaseElector(self.client, "m-1", name=name, namespace=NAMESPACE)
        async with self.running(elector):
            await elector.wait_leads()
            await elector.release()

    async def serve(self) -> None:
        """Make certificates and renew them; tell the API server, again when they are others."""
        now = datetime.now(UTC) - LIFE
        rotation = CertificateSecret(
            self.client,
            ServerTls(),
            ("localhost",),
            namespace=NAMESPACE,
            secret=SETTINGS.webhook_secret,
            leads=lambda: True,
            now=lambda: now,
        )
        await rotation.once()
        now += LIFE - timedelta(days=1)
        for group in PUBLISHED:
            self.api.put(API_SERVICES, _api_service(group.group, group.version))
        async with self.running(rotation, self._keeper(rotation)):
            await self.until(partial(self._was_asked, "update", "secrets"))
            for plural in (MUTATING_WEBHOOKS.plural, VALIDATING_WEBHOOKS.plural, "secrets"):
                await self.api.wait_for("watch", 1, plural)
                await self.until(partial(self._was_asked, "create", plural))
            for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
                self._forget_whom_to_trust(resource)
                await self.until(partial(self._was_asked, "update", resource.plural))
            await self.api.wait_for("watch", len(PUBLISHED), "apiservices")
            await self.until(lambda: self.api.count("update", "apiservices") == len(PUBLISHED))

    def _keeper(self, rotation: CertificateSecret) -> WebhookConfigurationReconciler:
        async def ready() -> str:
            return ""

        gates = {row.gate: True for row in TABLE} | {"WebhookFramework": True}
        made = configurations(TABLE, gates, WebhookClientConfig(NAMESPACE))
        kinds = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
        targets = [configuration_target(*pair, NAMES) for pair in zip(kinds, made, strict=True)]
        return WebhookConfigurationReconciler(
            self.client,
            [
                *targets,
                *(
                    api_service_target(name, SETTINGS.node_metric_service, NAMESPACE)
                    for name in (group.api_service for group in PUBLISHED)
                ),
            ],
            bundle=lambda: rotation.bundle,
            ready=ready,
            leads=lambda: True,
        )

    def _forget_whom_to_trust(self, resource: Any) -> None:
        [held] = [one for key, one in self.api.objects.items() if key.resource == resource]
        given = copy.deepcopy(held)
        for one in given["webhooks"]:
            del one["clientConfig"]["caBundle"]
        self.api.put(resource, given)

    async def publish(self) -> None:
        service = SETTINGS.node_metric_service
        for ip in ("10.0.0.1", "10.0.0.2", "fd00::1"):
            publisher = LeaderPublisher(
                self.client,
                LeaderEndpoint(service, NAMESPACE, ip, {"https": 9443}),
                PUBLISHED,
            )
            await publisher.publish()
            for group in PUBLISHED:
                self.api.put(API_SERVICES, _api_service(group.group, group.version))
            await publisher.publish()
            await publisher.unregister(*METRICS)
            await publisher.withdraw()

    async def review(self) -> None:
        """Who a koordlet is, by the pod of its token; who may ask, as the API server says it."""
        who = koordlet_account(pod="koordlet-1")
        extra = {**who.extra, "authentication.kubernetes.io/pod-uid": ("u",)}
        token = unsigned_token()
        self.api.access.identities[token] = replace(who, extra=extra)
        self.api.put(PODS, {"metadata": {"name": "koordlet-1", "uid": "u"}}, NAMESPACE)
        await ReportAuthorizer(self.client, SETTINGS.node_metric_account)(token, "a node")
        await DelegatedAuthenticator(self.client).refusal(
            User("eve"), AccessAttributes("get", "g", "v1", "nodemetrics")
        )
        await self.client.get(CONFIG_MAPS, "extension-apiserver-authentication", "kube-system")

    async def control(self) -> None:
        """Offer a node's resources and keep its NodeMetric, which somebody deletes and changes."""
        self.api.put(CONFIG_MAPS, _config(), NAMESPACE)
        self.api.put(NODES, _node("n1"))
        self.api.put(NODES, _node("n2"))
        self.api.put(NODE_TOPOLOGIES, _topology())
        recorder = event_recorder(self.client)
        configs = SLOConfigInformer(self.client, recorder)

        def changed(name: str, before: ClusterNode | None, now: ClusterNode | None) -> None:
            resources.node_changed(name, before, now)
            metrics.node_changed(name, before, now)

        nodes = Informer(self.client, NODES, decode=read_node, on_change=changed)
        pods = Informer(self.client, PODS, decode=read_pod_summary)
        resources = NodeResourceController(
            self.client, nodes, pods, configs, gates={}, on_warning=_quiet, period=0.02
        )
        metrics = controller.controller(self.client, nodes, configs, _quiet)
        count = self.api.count
        async with self.running(recorder, configs, nodes, pods, metrics, resources):
            await self.until(lambda: count("create", "nodemetrics") == 2)
            status = {"status": _usage()}
            await self.client.patch(NODE_METRICS, "n1", status, subresource="status")
            await self.until(lambda: count("patch", "noderesourcetopologies") > 0)
            self.api.fail(times=1, status=404, verb="patch", plural="nodemetrics")
            spec = {"metadata": {"name": "n1"}, "spec": {}, "status": _usage()}
            self.api.put(NODE_METRICS, spec)
            await self.until(lambda: count("get", "nodemetrics") > 0)
            self.api.delete(NODES, "n2")
            await self.until(lambda: count("delete", "nodemetrics") > 0)

    async def answer(self) -> None:
        """What webhooks ask and write while they are asked themselves."""
        self.api.installed |= {ELASTIC_QUOTAS}
        self.api.put(ELASTIC_QUOTAS, _QUOTA, "shop")
        queries = ClusterQueries(self.client)
        await queries.pod("shop-1", "shop")
        await queries.has_pods(PodQuery(label_is("a", "b"), ("shop",), ""))
        assert not await QuotaCharger(self.client).charge(QuotaCharge("q", "shop", {"cpu": 1}))

    async def whole(self) -> None:
        """All of it as it is installed, with all that can be switched on."""
        self.api.installed |= {COLOCATION_PROFILES, ELASTIC_QUOTAS, QUOTA_PROFILES, RECOMMENDATIONS}
        self.api.installed |= {SERVICE_PROFILES}
        self.api.put(NAMESPACES, {"metadata": {"name": "default"}})
        self.api.put(NODES, _node("n1"))
        spec = {"selector": {}, "labels": {"a": "b"}}
        profile = {"metadata": {"name": "batch"}, "spec": spec}
        self.api.put(COLOCATION_PROFILES, profile)
        self.api.put(RECOMMENDATIONS, _RECOMMENDATION, "default")
        self.api.put(CONFIG_MAPS, _config(), NAMESPACE)
        state = f"{SETTINGS.slo_config_name}-rollout"
        self.api.put(CONFIG_MAPS, {"metadata": {"name": state}}, NAMESPACE)
        self.api.put(QUOTA_PROFILES, _QUOTA_PROFILE, "default")
        self.api.put(PODS, _WAITING, "default")
        gates = ",".join(f"{name}=true" for name in GATES)
        program = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                "-m",
                "koord_manager.program.main",
                f"--kubeconfig={self._kubeconfig()}",
            ),
            *_ANYWHERE,
            env={
                **environ(_container()),
                "KOORD_MANAGER_FEATURE_GATES": gates,
                "KOORD_MANAGER_ENABLE_NODE_METRIC_API": "true",
                "KOORD_MANAGER_COLOCATION_PROFILE_RECONCILE_BY_DEFAULT": "true",
                "KOORD_MANAGER_COLOCATION_PROFILE_RECONCILE_INTERVAL": "0.2",
                "KOORD_MANAGER_RECOMMENDATION_INTERVAL": "0.2",
            },
        )
        try:
            await self.until(partial(self._was_asked, "create", "configmaps"))
            self.api.put(CONFIG_MAPS, {"metadata": {"name": CA_CONFIG_MAP}}, NAMESPACE)
            for verb, plural in _SIGNS:
                await self.until(partial(self._was_asked, verb, plural), f"{verb} {plural}")
            for name in (state, CA_CONFIG_MAP):
                wanted = Right("update", "", "configmaps", NAMESPACE, name)
                await self.until(lambda right=wanted: right in rights(self.api.asked), str(wanted))
        finally:
            if program.returncode is None:
                program.terminate()
            assert await program.wait() == 0

    def _was_asked(self, verb: str, plural: str) -> bool:
        return self.api.count(verb, plural) > 0

    def _kubeconfig(self) -> Path:
        path = self.directory / "kubeconfig"
        named = {"name": "c", "cluster": {"server": self.api.url}}
        context = {"name": "c", "context": {"cluster": "c", "user": "c"}}
        given = {"clusters": [named], "contexts": [context], "current-context": "c"}
        path.write_text(yaml.safe_dump({**given, "users": [{"name": "c", "user": {}}]}))
        return path


_ANYWHERE = [
    f"--{name}=127.0.0.1:0"
    for name in (
        "metrics-addr",
        "health-probe-addr",
        "webhook-address",
        "node-metric-api-address",
        "node-metric-report-address",
    )
]
_SIGNS = (
    ("update", "configmaps"),
    ("create", "nodeslos"),
    ("watch", "elasticquotaprofiles"),
    ("watch", "elasticquotas"),
    ("create", "elasticquotas"),
    ("patch", "elasticquotaprofiles"),
    ("watch", "clustercolocationprofiles"),
    ("watch", "namespaces"),
    ("watch", "priorityclasses"),
    ("watch", "nodeslos"),
    ("patch", "pods"),
    ("patch", "recommendations"),
    ("watch", "serviceprofiledescriptors"),
    ("create", "endpointslices"),
)
"""Requests after which all parts are at work."""
_RECOMMENDATION = {
    "metadata": {"name": "shop"},
    "spec": {
        "target": {
            "type": "workload",
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "shop"},
        }
    },
}
_QUOTA = {"metadata": {"name": "q"}, "spec": {"max": {"cpu": 1}}}
_QUOTA_PROFILE = {"metadata": {"name": "q"}, "spec": {"quotaName": "q", "nodeSelector": {}}}
_WAITING = {
    "metadata": {"name": "waits", "uid": "u"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
    "status": {"phase": "Pending"},
}


def _api_service(group: str, version: str) -> dict[str, Any]:
    """One of ours that is out of date."""
    service = {"name": SETTINGS.node_metric_service, "namespace": NAMESPACE}
    spec = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": 99,
        "versionPriority": 100,
        "service": service,
    }
    labels = {"app.kubernetes.io/managed-by": "koord-manager"}
    return {"metadata": {"name": f"{version}.{group}", "labels": labels}, "spec": spec}


def _config() -> dict[str, Any]:
    entry = {"name": "first", "nodeSelector": {"matchLabels": {"a": "b"}}, "strategies": {}}
    data = {
        "colocation-config": '{"enable": true}',
        "cpu-burst-config": "wrong",
        "pykoord-config": json.dumps({"nodeStrategies": [entry]}),
    }
    return {"metadata": {"name": SETTINGS.slo_config_name}, "data": data}


def _node(name: str) -> dict[str, Any]:
    amounts = {"cpu": "10", "memory": "10Gi"}
    return {"metadata": {"name": name}, "status": {"capacity": amounts, "allocatable": amounts}}


def _topology() -> dict[str, Any]:
    cpu = {"name": "cpu", "capacity": "5", "allocatable": "5", "available": "5"}
    zones = [{"name": f"node-{one}", "type": "Node", "resources": [cpu]} for one in range(2)]
    return {"metadata": {"name": "n1"}, "topologyPolicies": ["None"], "zones": zones}


def _usage() -> dict[str, Any]:
    usage = {"resources": {"cpu": "1", "memory": "1Gi"}}
    idle = {"resources": {"cpu": "0", "memory": "0"}}
    at = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"updateTime": at, "nodeMetric": {"nodeUsage": usage, "systemUsage": idle}}


@pytest.mark.skipif(not HAVE_OPENSSL, reason="openssl makes the certificates")
async def test_what_the_parts_ask_is_what_they_may(tmp_path: Path) -> None:
    proxy, asked = make_certificates(tmp_path), set[Right]()
    several = (Parts.lead, Parts.serve, Parts.publish, Parts.review, Parts.control, Parts.answer)
    for part in (*several, Parts.whole):
        limits = Limits(qps=0, answer=PATIENCE)
        async with KubeApi(front_proxy=proxy) as api, Client(Cluster(api.url), limits) as client:
            api.streams_lists = False  # where it does, nobody lists
            await part(Parts(api, client, tmp_path))
            asked |= rights(api.asked)
    # What koordlet does here, by the same client.
    asked -= {Right("patch", "slo.koordinator.sh", "nodemetrics/status", "", "n1")}
    assert missing(asked, components=COMPONENTS) == []
    assert unused(asked, components=COMPONENTS) - MAY_RUN_HERE == NOT_RUN_HERE
    # What is for a component is only there with it.
    of_components = {(right.verb, right.resource) for right in missing(asked)}
    assert of_components == OF_COMPONENTS


@pytest.mark.parametrize(
    "wanted",
    [
        Right("get", "", "secrets", NAMESPACE, "somebody-elses"),
        Right("list", "", "secrets", NAMESPACE),
        Right("get", "", "secrets", "default", SETTINGS.webhook_secret),
        Right("update", "coordination.k8s.io", "leases", "kube-system", "kube-scheduler"),
        Right("patch", "", "pods/status", "default", "a"),
        Right("delete", "", "nodes", "", "a"),
        Right("update", WEBHOOKS, "mutatingwebhookconfigurations", "", "somebody-elses"),
        Right("delete", WEBHOOKS, "mutatingwebhookconfigurations", "", "somebody-elses"),
        Right("get", "", "configmaps", "kube-system", "coredns"),
        Right("create", "", "pods", NAMESPACE),
        Right("patch", "", "pods", "default", "a"),
        Right("create", "apiregistration.k8s.io", "apiservices"),
    ],
)
def test_what_no_part_asks_it_may_not(wanted: Right) -> None:
    assert missing([wanted]) == [wanted]
