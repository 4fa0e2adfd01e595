"""A group that an APIService gives to a service is asked for there, through the API server."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from koord_kube.protocol.resources import API_SERVICES, CONFIG_MAPS
from kubernetes.aio import client, watch

from tests.support.certificates import HAVE_OPENSSL, Certificates, make_certificates
from tests.support.kube_access import service_account
from tests.support.kube_api import KubeApi
from tests.support.kube_refusal import Refused
from tests.support_selftest.kube_clients import ApiException, connected

pytestmark = pytest.mark.skipif(not HAVE_OPENSSL, reason="needs openssl")

GROUP = ("metrics.koordinator.sh", "v1alpha1", "nodemetrics")
ROOT = "/apis/metrics.koordinator.sh/v1alpha1"
SERVICE = ("koord", "metrics", 443)
METRIC = {"apiVersion": "metrics.koordinator.sh/v1alpha1", "kind": "NodeMetric"}


class Backend:
    """The service: it asks for the front proxy's certificate, and tells what it has heard."""

    def __init__(self, own: Certificates, front: Certificates) -> None:
        self.bundle = base64.b64encode(own.authority.read_bytes()).decode()
        self.seen: list[Any] = []
        self.port = 0
        self.more = asyncio.Event()
        self._tls = own.server_context()
        self._tls.load_verify_locations(front.authority)
        self._tls.verify_mode = ssl.CERT_REQUIRED

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._serve)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=self._tls).start()
        self.port = runner.addresses[0][1]
        return runner

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.path_qs, request.headers, await request.read()))
        if request.query.get("watch") in ("true", "True"):
            return await self._watch(request)
        if request.path == ROOT:
            return web.json_response({"kind": "APIResourceList", "resources": []})
        if request.path.endswith("/gone"):
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        return web.json_response({**METRIC, "metadata": {"name": request.path.split("/")[-1]}})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        for name in ("a", "b"):
            given = {"type": "ADDED", "object": {**METRIC, "metadata": {"name": name}}}
            await response.write(json.dumps(given).encode() + b"\n")
            await self.more.wait()
        return response


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("front"))


@pytest.fixture
async def api(front: Certificates) -> AsyncIterator[KubeApi]:
    async with KubeApi(front_proxy=front) as serving:
        yield serving


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("own"), "DNS:metrics.koord.svc")


@pytest.fixture
async def backend(api: KubeApi, own: Certificates, front: Certificates) -> AsyncIterator[Backend]:
    made = Backend(own, front)
    runner = await made.start()
    api.services[SERVICE] = ("127.0.0.1", made.port)
    yield made
    await runner.cleanup()


def service(backend: Backend, **more: Any) -> Any:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": "v1alpha1.metrics.koordinator.sh"},
        "spec": {
            "group": GROUP[0],
            "version": GROUP[1],
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "service": {"namespace": "koord", "name": "metrics"},
            "caBundle": backend.bundle,
            **more,
        },
    }


async def test_requests_go_on_with_who_asks(api: KubeApi, backend: Backend) -> None:
    api.put(API_SERVICES, service(backend))
    api.access.identities["secret"] = service_account("koordlet", node="n1")
    async with connected(api, "secret") as made:
        made.set_default_header("X-Remote-User", "somebody-else")
        custom = client.CustomObjectsApi(made)
        got = await custom.get_cluster_custom_object(*GROUP, "n1")
    assert got["metadata"]["name"] == "n1"
    [(method, path, headers, _)] = backend.seen
    assert (method, path) == ("GET", f"{ROOT}/nodemetrics/n1")
    assert headers.getall("X-Remote-User") == ["system:serviceaccount:default:koordlet"]
    assert "system:serviceaccounts:default" in headers.getall("X-Remote-Group")
    assert headers["X-Remote-Extra-authentication.kubernetes.io%2Fnode-name"] == "n1"
    assert "Authorization" not in headers


async def test_bodies_and_refusals_pass(
    api: KubeApi, backend: Backend, custom: client.CustomObjectsApi
) -> None:
    api.put(API_SERVICES, service(backend))
    body = [{"op": "add", "path": "/a", "value": 1}]
    await custom.patch_cluster_custom_object(*GROUP, "n1", body)
    assert json.loads(backend.seen[-1][3]) == body
    with pytest.raises(ApiException) as raised:
        await custom.get_cluster_custom_object(*GROUP, "gone")
    assert raised.value.status == 404


async def test_a_watch_comes_line_by_line(
    api: KubeApi, backend: Backend, custom: client.CustomObjectsApi
) -> None:
    api.put(API_SERVICES, service(backend))
    seen = []
    async with watch.Watch() as events:
        listing = custom.list_cluster_custom_object
        async for one in events.stream(listing, *GROUP, timeout_seconds=9):
            seen.append(one["object"]["metadata"]["name"])
            backend.more.set()
    assert seen == ["a", "b"]


def condition(api: KubeApi) -> tuple[str, str]:
    [found] = api.get(API_SERVICES, "v1alpha1.metrics.koordinator.sh")["status"]["conditions"]
    assert found["type"] == "Available"
    return found["status"], found["reason"]


async def test_whether_it_is_available(
    api: KubeApi, backend: Backend, api_client: client.ApiClient, custom: client.CustomObjectsApi
) -> None:
    services = client.ApiregistrationV1Api(api_client)
    await services.create_api_service(service(backend))
    assert condition(api) == ("True", "Passed")
    groups = {one.name for one in (await client.ApisApi(api_client).get_api_versions()).groups}
    assert GROUP[0] in groups
    where = api.services.pop(SERVICE)
    await api.check_services()
    assert condition(api) == ("False", "FailedDiscoveryCheck")
    with pytest.raises(ApiException) as raised:
        await custom.get_cluster_custom_object(*GROUP, "n1")
    assert raised.value.status == 503
    api.services[SERVICE] = where
    await services.delete_api_service("v1alpha1.metrics.koordinator.sh")
    with pytest.raises(ApiException) as raised:
        await custom.get_cluster_custom_object(*GROUP, "n1")
    assert raised.value.status == 404


async def test_its_certificate_is_of_somebody_else(
    api: KubeApi, backend: Backend, front: Certificates, custom: client.CustomObjectsApi
) -> None:
    other = base64.b64encode(front.authority.read_bytes()).decode()
    api.put(API_SERVICES, service(backend, caBundle=other))
    with pytest.raises(ApiException) as raised:
        await custom.get_cluster_custom_object(*GROUP, "n1")
    assert (raised.value.status, backend.seen) == (503, [])


def test_extension_servers_learn_whom_to_trust(api: KubeApi, front: Certificates) -> None:
    name = "extension-apiserver-authentication"
    data = api.get(CONFIG_MAPS, name, "kube-system")["data"]
    assert data["requestheader-client-ca-file"] == front.authority.read_text()
    assert json.loads(data["requestheader-username-headers"]) == ["X-Remote-User"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": "v2"},
        {"groupPriorityMinimum": 0},
        {"insecureSkipTLSVerify": True},
        {"service": None},
        {"service": {"name": "metrics"}},
        {"caBundle": "bm8="},
    ],
)
def test_services_that_are_wrong(api: KubeApi, backend: Backend, wrong: Any) -> None:
    with pytest.raises(Refused):
        api.put(API_SERVICES, service(backend, **wrong))
