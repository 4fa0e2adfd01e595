"""A node of a cluster with a real API server; koordlet runs there as its DaemonSet's pod would.

It has the rights of deploy/rbac/koordlet.yaml, and a token that is bound to its pod. What the
kernel says is simulated, and so is the kubelet, which asks the API server who may ask it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web
from koord_kube.client import Client, Cluster, Limits
from koord_kube.credentials import server_context
from koord_kube.protocol.api import Api, ApiError, ConflictError, NotFoundError, Object
from koord_kube.protocol.resources import (
    ACCESS_REVIEWS,
    EVENTS,
    NAMESPACES,
    NODE_METRICS,
    NODE_SLOS,
    NODES,
    PODS,
    TOKEN_REVIEWS,
    Resource,
)
from koord_model.keys import LABEL_QOS

from tests.apiserver.real_cluster import RealCluster
from tests.support.certificates import Certificates, make_certificates
from tests.support.cluster import ClusterKoordlet, let_time_pass
from tests.support.kube_apiserver import ADMIN
from tests.support.kubelet_server import KubeletServer, listed
from tests.support.manager_program import NAMESPACE
from tests.support.simulated_node import SimulatedNode
from tests.support.waiting import until

_USER = f"system:serviceaccount:{NAMESPACE}:koordlet"
_AUTHENTICATED = "authentication.kubernetes.io"
_SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", namespaced=True)


class _Bearer:
    async def header(self, *, anew: bool = False) -> str:
        return f"Bearer {ADMIN}"


def administrator(cluster: RealCluster) -> Client:
    """An administrator's client: kubectl costs a quarter of a second each time."""
    context = server_context(cluster.server.authority)
    return Client(Cluster(cluster.server.url, _Bearer(), context), Limits(qps=0))


class ReviewingKubelet(KubeletServer):
    """Lets in whom the API server lets it, as kubelets do with --authorization-mode=Webhook."""

    def __init__(self, api: Api, node: str, certificates: Certificates) -> None:
        super().__init__(certificates.server_context())
        self._api = api
        self._node = node

    async def _admit(self, request: web.Request) -> None:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        try:
            said = await self._review(TOKEN_REVIEWS, token=token)
        except ApiError:
            raise web.HTTPUnauthorized from None
        if not said.get("authenticated"):
            raise web.HTTPUnauthorized
        user = said["user"]
        # As kubelets do since 1.33; one of the two is enough.
        rights = [request.path.strip("/"), "proxy"]
        try:
            if not any([await self._allows(user, one) for one in rights]):
                told = f"verb=get, resource=nodes, subresource(s)=[{' '.join(rights)}]"
                raise web.HTTPForbidden(text=f"Forbidden (user={user['username']}, {told})\n")
        except ApiError:
            raise web.HTTPInternalServerError from None

    async def _allows(self, user: Object, subresource: str) -> bool:
        wanted = {
            "verb": "get",
            "resource": "nodes",
            "subresource": subresource,
            "name": self._node,
        }
        who = {"user": user["username"], "groups": user["groups"]}
        said = await self._review(ACCESS_REVIEWS, **who, resourceAttributes=wanted)
        return bool(said["allowed"])

    async def _review(self, resource: Resource, **spec: Any) -> Object:
        kind = {"apiVersion": f"{resource.group}/{resource.version}", "kind": resource.kind}
        said = await self._api.create(resource, {**kind, "spec": spec})
        return dict(said["status"])


@asynccontextmanager
async def real_node(cluster: RealCluster, name: str) -> AsyncIterator[RealNode]:
    """With four pods, and a NodeMetric that asks for reports."""
    async with RealNode(cluster, name).serving() as node:
        await node.ask_for_reports()
        for _ in range(4):
            await node.add_pod()
        yield node


class RealNode:
    """``name`` is the Node's; its pods are there for API server, kubelet and kernel alike.

    ``api`` is an administrator's.
    """

    def __init__(self, cluster: RealCluster, name: str) -> None:
        self.cluster = cluster
        self.name = name
        self.folder = cluster.server.folder / name
        self.kernel = SimulatedNode(self.folder / "node", pods=0, containers=1, cpus=8)
        self.kernel.memory_bytes = 8 << 30
        self.account = self.folder / "account"
        self._certificates = make_certificates(self.folder / "certificates")
        self.api = administrator(cluster)
        self.kubelet = ReviewingKubelet(self.api, name, self._certificates)
        self.pods: list[Object] = []
        self.koordlet_pod = ""
        self._koordlets = itertools.count(1)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[RealNode]:
        """With its kubelet there, and time passing."""
        async with self.api, self.kubelet, asyncio.TaskGroup() as group:
            await self._join()
            self.account.mkdir()
            shutil.copy(self.cluster.server.authority, self.account / "ca.crt")
            await self.put_token()
            passing = group.create_task(let_time_pass(self.kernel))
            try:
                yield self
            finally:
                passing.cancel()
                await self._drain()

    @asynccontextmanager
    async def koordlet(self, *flags: str) -> AsyncIterator[ClusterKoordlet]:
        """While it runs there; it ends well."""
        server, kubelet = self.cluster.server, self._certificates.authority
        environ = {
            "KUBERNETES_SERVICE_HOST": server.network.address,
            "KUBERNETES_SERVICE_PORT": server.url.rpartition(":")[2],
            "HURRIED_ACCOUNT": str(self.account),
        }
        given = (f"--kubelet-ca-file={kubelet}", *flags)
        made = ClusterKoordlet(self.folder / "koordlet", self.kernel, self.name, given, environ)
        made.start()
        try:
            yield made
            assert await asyncio.to_thread(made.stop) == 0
            made.assert_sound()
        finally:
            # Shown by pytest if anything fails.
            print(made.said[-6000:])
            made.close()

    async def put_token(self) -> None:
        """Have a token of a new pod of the DaemonSet's in koordlet's account."""
        name = self.koordlet_pod = f"koordlet-{self.name}-{next(self._koordlets)}"
        container = {"name": "koordlet", "image": "i"}
        spec = {"nodeName": self.name, "serviceAccountName": "koordlet", "containers": [container]}
        made = await self._run(name, NAMESPACE, spec)
        bound = ["--bound-object-kind=Pod", f"--bound-object-name={name}"]
        uid = made["metadata"]["uid"]
        token = self.cluster.token("koordlet", *bound, f"--bound-object-uid={uid}")
        aside = self.account / "..token"
        aside.write_text(token)
        aside.rename(self.account / "token")

    async def add_pod(self) -> None:
        """One more of the simulated pods, each third a batch pod."""
        number = len(self.kernel.records)
        best_effort = number % 3 == 0
        namespace, name = f"team-{number % 7}", f"app-{number}"
        for resource, within, called in (
            (NAMESPACES, "", namespace),
            (_SERVICE_ACCOUNTS, namespace, "default"),
        ):
            with suppress(ConflictError):
                await self.api.create(resource, {"metadata": {"name": called}}, within)
        spec = {
            "nodeName": self.name,
            "priorityClassName": "koord-batch" if best_effort else "koord-prod",
            "containers": [{"name": "c0", "image": "i"}],
        }
        labels = {LABEL_QOS: "BE" if best_effort else "LS", "app": name}
        made = await self._run(name, namespace, spec, labels)
        self.pods.append(made)
        self.kernel.add_pod(made["metadata"]["uid"])
        self.kubelet.pods = [listed(one) for one in self.kernel.records]

    async def _run(
        self, name: str, namespace: str, spec: Object, labels: Mapping[str, str] | None = None
    ) -> Object:
        """A pod that is bound here, as its kubelet has it once it runs."""
        meta = {"name": name, "namespace": namespace, "labels": labels or {}}
        await self.api.create(PODS, {"metadata": meta, "spec": spec}, namespace)
        ready = [{"type": "Ready", "status": "True"}]
        status = {"phase": "Running", "conditions": ready}
        return await self.api.patch(PODS, name, {"status": status}, namespace, "status")

    def requests(self) -> list[dict[str, Any]]:
        """koordlet's so far, as audit Events, of this node alone."""
        return [
            one
            for one in self.cluster.server.asked(_USER)
            if one["user"]["extra"][f"{_AUTHENTICATED}/node-name"] == [self.name]
        ]

    def pods_asking(self) -> set[str]:
        """As which pods of the DaemonSet koordlet has asked."""
        found = (one["user"]["extra"][f"{_AUTHENTICATED}/pod-name"] for one in self.requests())
        return {name for names in found for name in names}

    def asked(self, since: int = 0) -> Counter[tuple[str, str]]:
        """How often it did what with which kind of objects and was let; ``since`` so many requests.

        Of watches those count that have begun.
        """
        return Counter(
            (one["verb"], _kind(one))
            for one in self.requests()[since:]
            if one["responseStatus"]["code"] < 400
            and (one["verb"] != "watch" or one["stage"] == "ResponseStarted")
        )

    def refusals(self, since: int = 0) -> set[str]:
        """Its requests that were not taken, but for "try again" of a kind that is quite new."""
        return {
            f"{one['responseStatus']['code']} {one['verb']} {_kind(one)}"
            for one in self.requests()[since:]
            if one["responseStatus"]["code"] >= 400
            and "(re)initializing" not in one["responseStatus"].get("message", "")
        }

    async def events_of(self, pod: Object) -> dict[str, str]:
        """Messages of Events about a pod, by their reason."""
        meta = pod["metadata"]
        about = f"involvedObject.uid={meta['uid']}"
        pages = [page async for page in self.api.pages(EVENTS, meta["namespace"], about)]
        found = [json.loads(raw) for page in pages for raw in page.items]
        return {one["reason"]: one["message"] for one in found}

    async def get(self, resource: Resource) -> Object:
        """The object that is called as the node; empty while there is none."""
        try:
            return await self.api.get(resource, self.name)
        except NotFoundError:
            return {}

    async def next_report(self) -> None:
        """Wait until koordlet has written one more."""
        report = "patch", "nodemetrics/status"
        before = self.asked()[report]
        await until(lambda: self.asked()[report] > before, "a report")

    async def ask_for_reports(self) -> None:
        """The NodeMetric, as an administrator or the manager makes it."""
        policy = {
            "aggregateDurationSeconds": 60,
            "reportIntervalSeconds": 1,
            "nodeAggregatePolicy": {"durations": ["2s", "1m"]},
        }
        await self._make(NODE_METRICS, metricCollectPolicy=policy)

    async def put_slo(self, **spec: Any) -> None:
        """The NodeSLO, with this and nothing else."""
        there = await self.get(NODE_SLOS)
        if there:
            await self.api.replace(NODE_SLOS, self.name, there | {"spec": spec})
        else:
            await self._make(NODE_SLOS, **spec)

    async def _make(self, resource: Resource, **spec: Any) -> None:
        said = {"apiVersion": f"{resource.group}/{resource.version}", "kind": resource.kind}
        await self.api.create(resource, {**said, "metadata": {"name": self.name}, "spec": spec})

    async def put_application(self, name: str) -> None:
        """A NodeSLO in force shows: it names a host application that no one before did."""
        path = {"base": "CgroupRoot", "relativePath": "kubepods/besteffort"}
        await self.put_slo(hostApplications=[{"name": name, "qos": "BE", "cgroupPath": path}])

    def end(self, pod: str, namespace: str) -> None:
        """A pod is gone, at once."""
        self.cluster.kubectl("delete", "pod", pod, "-n", namespace, "--force", "--ignore-not-found")

    async def _drain(self) -> None:
        """Pods of the same names are another node's next."""
        for pod in self.pods:
            meta = pod["metadata"]
            await asyncio.to_thread(self.end, meta["name"], meta["namespace"])

    async def _join(self) -> None:
        """Its kubelet makes the Node."""
        amounts = {"cpu": "8", "memory": "8Gi", "pods": "110"}
        status = {
            "addresses": [
                {"type": "Hostname", "address": self.name},
                {"type": "InternalIP", "address": "127.0.0.1"},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.kubelet.port}},
            "allocatable": amounts,
            "capacity": amounts,
        }
        await self.api.create(NODES, {"metadata": {"name": self.name}, "status": status})


def _kind(asked: Mapping[str, Any]) -> str:
    of = asked["objectRef"]
    return "/".join(filter(None, (of["resource"], of.get("subresource"))))


def lost(sent: Any, kept: Any, where: str = "") -> list[str]:
    """What of a body the API server has not kept as it was sent; in merge patches None is gone.

    A resourceVersion is never kept: with it a change is made dependent on what was read.
    """
    if where == ".metadata.resourceVersion":
        return []
    if isinstance(sent, Mapping) and isinstance(kept, Mapping):
        pairs = [(f"{where}.{name}", one, kept.get(name)) for name, one in sent.items()]
    elif isinstance(sent, list) and isinstance(kept, list) and len(sent) == len(kept):
        pairs = [(f"{where}[{i}]", *both) for i, both in enumerate(zip(sent, kept, strict=True))]
    else:
        return [] if sent == kept else [f"{where}: {json.dumps(sent)} is {json.dumps(kept)}"]
    return [line for name, one, other in pairs for line in lost(one, other, name)]
