"""The scheduler with extenders that answer over HTTP, beside the double of the API server."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from koord_kube.client import Client, Cluster, Limits
from koord_kube.protocol.resources import NODES, PODS, PRIORITY_CLASSES
from koord_scheduler.config.component_config import API_VERSION
from koord_scheduler.config.scheduler_config import KIND, SchedulerConfig, read_scheduler_config
from koord_scheduler.framework.recording import FORMAT, RecordingHeader
from koord_scheduler.io.recorder import Recorder
from koord_scheduler.program.program import SchedulerProgram

from tests.scheduler.program.test_program import NAMESPACE, SETTINGS, Side
from tests.support.certificates import HAVE_OPENSSL, make_certificates
from tests.support.extender_server import ExtenderServer
from tests.support.kube_api import KubeApi
from tests.support.ports import free_port
from tests.support.processes import PATIENCE
from tests.support.waiting import until

GPU = "example.com/gpu"


def everything(*passing: str, **reasons: str) -> dict[str, Any]:
    """A filter's rule: these nodes pass, others fail with a reason."""
    return {"passing": passing, "FailedNodes": reasons, "FailedAndUnresolvableNodes": {}}


def config(*extenders: dict[str, Any]) -> SchedulerConfig:
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "podMaxBackoffSeconds": 1,
        "extenders": extenders,
    }
    return read_scheduler_config(msgspec.json.encode(document).decode())


@pytest.fixture
async def extender() -> AsyncIterator[ExtenderServer]:
    server = ExtenderServer()
    async with server.serving():
        yield server


@pytest.fixture
async def side() -> AsyncIterator[Side]:
    limits = Limits(qps=0, answer=PATIENCE)
    async with KubeApi() as api, Client(Cluster(api.url), limits) as client:
        for value, name in enumerate(("low", "middle", "high")):
            api.put(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        made = Side(api, client)
        made.node("n1")
        made.node("n2")
        yield made


@asynccontextmanager
async def scheduler(side: Side, *extenders: dict[str, Any]) -> AsyncIterator[SchedulerProgram]:
    async with side.scheduler(SETTINGS, config(*extenders)) as made:
        yield made


@pytest.mark.parametrize("has_cache", [True, False])
async def test_extenders_filter_and_prioritize(
    side: Side, extender: ExtenderServer, has_cache: bool
) -> None:
    side.node("n3", "64")  # the plugins' choice
    extender.answers["/filter"] = everything("n2", "n3")
    extender.answers["/prioritize"] = {"status": 200, "body": '[{"Host": "n2", "Score": 10}]'}
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 10}
    about = {"urlPrefix": extender.url, "nodeCacheCapable": has_cache}
    async with scheduler(side, {**about, **verbs}) as made:
        await side.pod("web")
        await side.bound("web")
        side.api.delete(NODES, "n3")
        await until(lambda: not made._documents.nodes_of(["n3"]), "it is forgotten")
    assert side.node_of("web") == "n2"
    first, second = (one["body"] for one in extender.requests)
    assert first["Pod"]["metadata"]["name"] == "web"
    if has_cache:
        assert set(first["NodeNames"]) == {"n1", "n2", "n3"}
        assert set(second["NodeNames"]) == {"n2", "n3"}
    else:
        sent = {one["metadata"]["name"]: one for one in first["Nodes"]["items"]}
        assert sent["n2"]["status"] == side.api.get(NODES, "n2")["status"]


async def test_pods_wait_and_say_why_while_their_extender_is_down(side: Side) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    managed = {"managedResources": [{"name": GPU, "ignoredByScheduler": True}]}
    about = {"urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": True}
    container = {"name": "c", "image": "i", "resources": {"requests": {GPU: "1"}}}
    async with scheduler(side, {**about, **managed}) as made:
        await side.pod("training", containers=[container])
        await until(lambda: side.scheduled("training").get("status") == "False", "it waits")
        assert side.scheduled("training")["reason"] == "SchedulerError"
        assert f"{url}/filter" in side.scheduled("training")["message"]
        await until(lambda: side.events("training") == {"FailedScheduling"}, "its Event")
        await side.pod("web")  # no business of the extender's
        await side.bound("web")
        why = await made._why(f"{NAMESPACE}/training")
        assert f"{url}/filter" in why["extender_failure"]
        server = ExtenderServer(port=port)
        async with server.serving():
            server.answers["/filter"] = everything("n2")
            await side.bound("training")
    assert side.node_of("training") == "n2"


async def test_an_extender_that_may_be_ignored_is_passed_over(
    side: Side, extender: ExtenderServer
) -> None:
    away = {"urlPrefix": f"http://127.0.0.1:{free_port()}", "ignorable": True}
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1}
    extender.answers["/filter"] = everything("n2")
    there = {"urlPrefix": extender.url, "filterVerb": "filter"}
    async with scheduler(side, {**away, **verbs, "bindVerb": "bind"}, there):
        await side.pod("web")
        await side.bound("web")
    assert side.node_of("web") == "n2"


async def test_a_pod_that_extenders_reject_says_so_and_is_tried_again(
    side: Side, extender: ExtenderServer
) -> None:
    extender.answers["/filter"] = everything(n1="no gpu", n2="too far away")
    async with scheduler(side, {"urlPrefix": extender.url, "filterVerb": "filter"}) as made:
        await side.pod("web")
        await until(lambda: side.scheduled("web").get("status") == "False", "it waits")
        assert side.scheduled("web")["reason"] == "Unschedulable"
        message = side.scheduled("web")["message"]
        assert message.startswith("0/2 nodes are available: 1 no gpu, 1 too far away.")
        why = await made._why(f"{NAMESPACE}/web")
        assert why["diagnosis"]["plugins"] == [{"plugin": "Extender", "nodes": 2, "alone": 2}]
        extender.answers["/filter"] = everything("n1")
        await side.bound("web")
    assert side.node_of("web") == "n1"


@pytest.mark.parametrize("error", ["", "not now"])
async def test_an_extender_binds(side: Side, extender: ExtenderServer, error: str) -> None:
    """The second time, if it says that it could not; nobody else does."""
    asked: list[dict[str, Any]] = []

    async def bind(body: dict[str, Any]) -> dict[str, Any]:
        asked.append(body)
        if error and len(asked) == 1:
            return {"Error": error}
        binding = {"metadata": {"name": body["PodName"]}, "target": {"name": body["Node"]}}
        await side.client.create(PODS, binding, body["PodNamespace"], body["PodName"], "binding")
        return {}

    extender.answers["/bind"] = bind
    async with scheduler(side, {"urlPrefix": extender.url, "bindVerb": "bind"}):
        await side.pod("web")
        await side.bound("web")
        await until(lambda: "Scheduled" in side.events("web"), "its Event")
    assert len(asked) == (2 if error else 1)
    assert asked[0]["PodUID"] == side.api.get(PODS, "web", NAMESPACE)["metadata"]["uid"]


@pytest.mark.parametrize("has_cache", [True, False])
async def test_an_extender_chooses_whose_place_a_pod_takes(
    side: Side, extender: ExtenderServer, has_cache: bool
) -> None:
    async def choose(body: dict[str, Any]) -> dict[str, Any]:
        proposed = body["NodeNameToMetaVictims" if has_cache else "NodeNameToVictims"]
        uids = [
            one["UID"] if has_cache else one["metadata"]["uid"] for one in proposed["n1"]["Pods"]
        ]
        victims = [{"UID": uid} for uid in uids]
        return {"NodeNameToMetaVictims": {"n1": {"Pods": victims, "NumPDBViolations": 0}}}

    extender.answers["/preempt"] = choose
    about = {"urlPrefix": extender.url, "preemptVerb": "preempt", "nodeCacheCapable": has_cache}
    async with scheduler(side, about):
        for name, priority in (("batch", "middle"), ("other", "low")):
            node = {"batch": "n1", "other": "n2"}[name]
            selector = {"kubernetes.io/hostname": node}
            await side.pod(name, "4", priorityClassName=priority, nodeSelector=selector)
        await side.bound("batch", "other")
        await side.pod("web", priorityClassName="high")

        def is_leaving(name: str) -> bool:
            return "deletionTimestamp" in side.api.get(PODS, name, NAMESPACE)["metadata"]

        await until(lambda: is_leaving("batch"), "the extender's choice")
        assert not is_leaving("other"), "ours would be the less important one"


async def test_the_cluster_is_followed_while_an_extender_is_asked(
    side: Side, extender: ExtenderServer
) -> None:
    is_asked, may_answer = anyio.Event(), anyio.Event()

    async def filter_(body: dict[str, Any]) -> dict[str, Any]:
        is_asked.set()
        await may_answer.wait()
        return {"NodeNames": [name for name in body["NodeNames"] if name == "n1"] or ["n2"]}

    extender.answers["/filter"] = filter_
    about = {"urlPrefix": extender.url, "filterVerb": "filter", "nodeCacheCapable": True}
    async with scheduler(side, about) as made:
        await side.pod("web")
        await is_asked.wait()
        side.api.delete(NODES, "n1")
        await until(lambda: made.status().cached["nodes"] == 1, "the node is gone")
        may_answer.set()
        await side.bound("web")
    assert side.node_of("web") == "n2"


@pytest.mark.skipif(not HAVE_OPENSSL, reason="needs openssl")
@pytest.mark.parametrize("form", ["file", "data", "name", "any", "wrong"])
async def test_extenders_are_known_by_certificates(side: Side, tmp_path: Path, form: str) -> None:
    """Of both sides: the double asks for the scheduler's."""
    names = "DNS:extender.example.com" if form == "name" else "IP:127.0.0.1"
    own, others = make_certificates(tmp_path / "own", names), make_certificates(tmp_path / "others")
    context = own.server_context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(own.authority)
    paths = {"cert": own.certificate, "key": own.key}
    tls = {f"{name}File": str(path) for name, path in paths.items()}
    if form != "any":
        tls["caFile"] = str((others if form == "wrong" else own).authority)
    if form == "name":
        tls["serverName"] = "extender.example.com"
    if form == "data":
        read = {name: Path(path).read_bytes() for name, path in tls.items()}
        tls = {name.replace("File", "Data"): one for name, one in read.items()}  # type: ignore[misc]
    server = ExtenderServer(context)
    async with server.serving():
        server.answers["/filter"] = everything("n2")
        about = {"urlPrefix": server.url, "filterVerb": "filter", "enableHTTPS": True}
        async with scheduler(side, {**about, "tlsConfig": tls}):
            await side.pod("web")
            if form == "wrong":
                await until(lambda: side.scheduled("web").get("status") == "False", "it waits")
                assert "the certificate is not trusted" in side.scheduled("web")["message"]
            else:
                await side.bound("web")
                assert side.node_of("web") == "n2"


def test_a_certificate_that_cannot_be_read_is_refused_at_the_start(tmp_path: Path) -> None:
    tls = {"caFile": str(tmp_path / "none")}
    extenders = config({"urlPrefix": "https://e.example.com", "tlsConfig": tls})
    client = Client(Cluster("http://127.0.0.1:1"))
    with pytest.raises(ValueError, match=r"extender https://e\.example\.com: tlsConfig"):
        SchedulerProgram(SETTINGS, extenders, client, "s1_0")


def test_they_are_not_recorded(tmp_path: Path) -> None:
    header = RecordingHeader(FORMAT, 0.0, 0.0, 0, {})
    recorder = Recorder(tmp_path, "s1", header)
    client = Client(Cluster("http://127.0.0.1:1"))
    extenders = config({"urlPrefix": "http://e.example.com"})
    with pytest.raises(ValueError, match=r"--record-to: .* extenders"):
        SchedulerProgram(SETTINGS, extenders, client, "s1_0", recorder)
