"""koordlet as a process in a whole cluster: API server, kubelet, managers; all of them fail."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio
from koord_kube.definitions.catalogue import DEFINITIONS
from koord_kube.protocol.resources import DEVICES, NODE_METRICS, NODE_TOPOLOGIES
from koord_manager.node_metric.receiver import SERVER_OPTIONS, NodeMetricReceiver
from koord_manager.node_metric.report_authorizer import ReportClaim
from koord_model import quantity
from koord_model.keys import (
    ANNOTATION_CPU_MANAGER_POLICY,
    ANNOTATION_NODE_RESERVATION,
)

from tests.support.certificates import HAVE_OPENSSL, make_certificates
from tests.support.cluster import (
    ACCOUNT_TOKEN,
    KUBELET_HAS,
    MANAGERS,
    NAME,
    TOKEN,
    Cluster,
    ClusterKoordlet,
)
from tests.support.kube_api.definitions import defined
from tests.support.ports import free_port
from tests.support.service_account_tokens import unsigned_token
from tests.support.waiting import until

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not HAVE_OPENSSL, reason="needs openssl"),
]

SOON = 10
"""Reports: it is the next one, but for those that a machine which stalls does not get through."""
ACCELERATOR = {
    "vendor": "huawei",
    "model": "Ascend-310P3-300I-DUO",
    "uuid": "185011D4-21104518",
    "minor": "0",
    "resources": {"gpu-core": "100", "gpu-memory": "24Gi", "huawei.com/npu-cpu": "7"},
    "topology": {"nodeID": "1", "pcieID": "pci0000:80", "busID": "0000:81:00.0"},
    "status": {"healthy": False, "errCode": "TooHot", "errMessage": "too hot"},
}
_ROTATED = f"{TOKEN}-rotated"
_SECRETS = (TOKEN, ACCOUNT_TOKEN)
"""All tokens begin with one of these."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="pykoord-cl-") as name:
        async with Cluster(Path(name)).serving() as made:
            yield made


@pytest_asyncio.fixture(loop_scope="module")
async def apart() -> AsyncIterator[Cluster]:
    """Another cluster, of which no one else's koordlet knows."""
    with tempfile.TemporaryDirectory(prefix="pykoord-cl-") as name:
        async with Cluster(Path(name)).serving() as made:
            yield made


@asynccontextmanager
async def running(
    cluster: Cluster, name: str, *flags: str, **environ: str
) -> AsyncIterator[ClusterKoordlet]:
    koordlet = cluster.koordlet(name, *flags, **environ)
    koordlet.start()
    try:
        yield koordlet
    finally:
        # Shown by pytest if anything fails.
        print(koordlet.said[-6000:])
        koordlet.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def steady(cluster: Cluster) -> AsyncIterator[ClusterKoordlet]:
    """One that runs through most of these tests, and is healthy between them."""
    devices = cluster.folder / "devices"
    devices.mkdir()
    (devices / "huawei.json").write_text(json.dumps([ACCELERATOR]))
    flags = ("--feature-gates=Accelerators=true", f"--xpu-device-infos-dir={devices}")
    async with running(cluster, "steady", *flags, *cluster.on_host) as koordlet:
        yield koordlet


@pytest_asyncio.fixture(loop_scope="module")
async def koordlet(cluster: Cluster, steady: ClusterKoordlet) -> AsyncIterator[ClusterKoordlet]:
    await healthy(cluster, steady)
    yield steady
    steady.assert_sound()


async def healthy(cluster: Cluster, koordlet: ClusterKoordlet) -> None:
    async def well() -> bool:
        found = await koordlet.ask("/healthz")
        return bool(found) and found["status"] == "ok"

    await until(well, "koordlet is healthy")
    await until(lambda: len(cluster.status.get("podsMetric", ())) == 4, "pods are reported")


async def test_the_definitions_allow_all_that_it_writes(
    cluster: Cluster, koordlet: ClusterKoordlet
) -> None:
    await until(lambda: cluster.topology, "its zones are written")
    written = {NODE_METRICS, NODE_TOPOLOGIES, DEVICES}
    await until(lambda: written <= {key.resource for key in cluster.api.objects}, "its devices")
    kinds = {one.resource: one for each in DEFINITIONS for one in defined(each)}
    for resource in written:
        kept = cluster.api.get(resource, NAME)
        assert kinds[resource].schema.wrong(kept) == []
        assert kinds[resource].schema.complete(kept) == [], "fields that the API server drops"


def cpu(usage: dict[str, Any]) -> float:
    return quantity.milli(usage["resources"]["cpu"]) / 1000


class TestNodeMetric:
    async def test_it_says_what_koordlet_measures(
        self, cluster: Cluster, koordlet: ClusterKoordlet
    ) -> None:
        async def same() -> bool:
            # Between a report and the question a new second may begin: then the next one.
            status = await cluster.next_report()
            measured = {
                one.pod.name: await koordlet.value("pod_cpu_usage", pod_uid=one.pod.uid)
                for one in cluster.node.records
            }
            measured["the node"] = await koordlet.value("node_cpu_usage")
            reported = {one["name"]: cpu(one["podUsage"]) for one in status["podsMetric"]}
            reported["the node"] = cpu(status["nodeMetric"]["nodeUsage"])
            return reported == {
                name: pytest.approx(one, abs=6e-4) for name, one in measured.items()
            }

        await until(same, "the report says what is measured")

    async def test_a_new_policy_is_followed(
        self, cluster: Cluster, koordlet: ClusterKoordlet
    ) -> None:
        def windows() -> list[str]:
            usages = cluster.status["nodeMetric"]["aggregatedNodeUsages"]
            return [one["duration"] for one in usages]

        assert windows() == ["2s", "1m0s"]
        cluster.put_policy(nodeAggregatePolicy={"durations": ["3s", "5m", "oops"]})
        await until(lambda: windows() == ["3s", "5m0s"], "the new windows are reported")
        cluster.put_policy()
        await until(lambda: windows() == ["2s", "1m0s"], "the old windows are reported")
        [line] = [
            one for one in koordlet.reasons("cannot use part of an object") if "durations" in one
        ]
        assert '"oops"' in line


class TestTopology:
    async def test_it_is_made_once_and_left_alone(
        self, cluster: Cluster, koordlet: ClusterKoordlet
    ) -> None:
        found = await until(lambda: cluster.topology, "it is there")
        assert [zone["name"] for zone in found["zones"]] == ["node-0", "node-1"]
        [owner] = found["metadata"]["ownerReferences"]
        assert owner["uid"] == cluster.put_node()["metadata"]["uid"]

        def policy() -> str:
            return str(cluster.topology["metadata"]["annotations"][ANNOTATION_CPU_MANAGER_POLICY])

        await until(lambda: policy() == '{"policy":"none"}', "the kubelet's policy is reported")
        patched = cluster.patches("noderesourcetopologies")
        await asyncio.sleep(1.0)  # three looks
        assert cluster.patches("noderesourcetopologies") == patched
        assert cluster.api.count("create", "noderesourcetopologies") == 1


class TestKubelet:
    async def test_a_token_that_is_replaced(
        self, cluster: Cluster, koordlet: ClusterKoordlet
    ) -> None:
        cluster.kubelet.tokens = frozenset({_ROTATED})
        await until(lambda: self.said(koordlet, "401"), "it is refused")
        cluster.token_file.write_text(_ROTATED)
        cluster.accept(_ROTATED)
        await healthy(cluster, koordlet)
        [line] = self.said(koordlet, "401")
        assert "token is not accepted" in line
        cluster.kubelet.strangers = frozenset({_ROTATED})
        await until(lambda: self.said(koordlet, "403"), "it is forbidden")
        cluster.kubelet.strangers = frozenset()

    async def test_a_slow_kubelet_leaves_the_last_list_in_force(
        self, cluster: Cluster, koordlet: ClusterKoordlet
    ) -> None:
        cluster.kubelet.slow = 60.0

        async def old() -> bool:
            state = await koordlet.state_of("pods")
            said = f"no answer in {KUBELET_HAS:g} s" in state["problem"]
            return bool(said and state["age_seconds"] > KUBELET_HAS)

        await until(old, "the list grows old, and says why")
        assert len((await cluster.next_report())["podsMetric"]) == 4
        cluster.kubelet.slow = 0.0

    @staticmethod
    def said(koordlet: ClusterKoordlet, word: str) -> list[str]:
        lines = koordlet.reasons("cannot list pods, keeping the known ones")
        return [line for line in lines if word in line]


Problem = Callable[[Cluster], Awaitable[None]]


def failing(**fault: Any) -> Problem:
    async def happens(cluster: Cluster) -> None:
        words = f"Bearer {cluster.token_file.read_text()} makes no sense"
        cluster.api.fail(message=words, **fault)
        cluster.api.cut_watches()

    return happens


async def gone(cluster: Cluster) -> None:
    cluster.api.gone_as_status = True
    cluster.api.cut_watches()
    cluster.api.compact()


async def token_rotated(cluster: Cluster) -> None:
    token = f"{cluster.token_file.read_text()}x"
    cluster.accept(token)
    cluster.api.cut_watches()
    await cluster.api.wait_for("watch", cluster.api.count("watch") + 1)
    cluster.token_file.write_text(token)


async def restarted_from_an_old_backup(cluster: Cluster) -> None:
    await cluster.api.stop()
    cluster.api.compact()
    await asyncio.sleep(0.3)
    await cluster.api.start()


PROBLEMS: dict[str, Problem] = {
    "gone": gone,
    "too many requests": failing(times=3, status=429, retry_after=1),
    "broken": failing(times=8, status=500),
    "hanging": failing(times=3, hang=True),
    "token rotated": token_rotated,
    "old backup": restarted_from_an_old_backup,
}
"""Of single informers ``tests/kube/test_informer.py`` has more."""


class TestApiServer:
    @pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
    async def test_news_arrive_after(
        self, cluster: Cluster, koordlet: ClusterKoordlet, problem: Problem
    ) -> None:
        await problem(cluster)
        application = cluster.put_application()
        reserved = {"resources": {"memory": f"{application.rpartition('-')[2]}Gi"}}
        cluster.put_node(**{ANNOTATION_NODE_RESERVATION: json.dumps(reserved)})
        await until(lambda: koordlet.knows_application(application), "the NodeSLO is in force")

        def reported() -> bool:
            annotations = cluster.topology["metadata"]["annotations"]
            return bool(json.loads(annotations[ANNOTATION_NODE_RESERVATION]) == reserved)

        await until(reported, "the Node's annotation is followed")
        await cluster.next_report()
        cluster.api.faults.clear()
        cluster.api.gone_as_status = False


class TestLife:
    async def test_what_it_knew_is_in_force_while_the_api_is_away(
        self, cluster: Cluster, koordlet: ClusterKoordlet
    ) -> None:
        application = cluster.put_application()
        await until(lambda: koordlet.knows_application(application), "the NodeSLO is in force")
        points = await remembered(koordlet)
        # Nobody answers any more: that keeps nobody from ending.
        cluster.api.fail(times=100, hang=True)
        cluster.api.cut_watches()
        cluster.kubelet.slow = 600.0
        await cluster.api.wait_for("patch", cluster.api.count("patch") + 1)
        koordlet.signal(signal.SIGTERM)
        assert await asyncio.to_thread(koordlet.wait) == 0
        koordlet.assert_sound()
        written = {one.name for one in koordlet.state.rglob("*")}
        assert {one.pod.uid for one in cluster.node.records} < written
        assert {"cluster.json", "__node__"} < written
        await cluster.api.stop()
        cluster.api.faults.clear()
        cluster.kubelet.slow = 0.0
        koordlet.start()
        await until(lambda: koordlet.knows_application(application), "the last NodeSLO is in force")
        assert (await koordlet.state_of("NodeSLO"))["age_seconds"] is None
        assert await remembered(koordlet) >= points
        top = await until(lambda: koordlet.ask("/v1/top"), "the page")
        assert len(top["pods"]) == 4
        application = cluster.put_application()
        await cluster.api.start()
        await until(lambda: koordlet.knows_application(application), "the new one is in force")
        await cluster.next_report()

    async def test_no_secret_gets_out(self, cluster: Cluster, koordlet: ClusterKoordlet) -> None:
        pages = ["/v1/node", "/v1/top", "/healthz", "/readyz", "/metrics", "/events"]
        reported = {page: await koordlet.text(page) for page in pages}
        reported["/metrics of its own"] = await koordlet.text("/metrics", "metrics.sock")
        assert all(reported.values()), reported
        reported |= {
            str(one): one.read_bytes().decode("latin-1") for one in files(koordlet.directory)
        }
        assert koordlet.state.joinpath("cluster.json").exists()
        assert [
            name for name, text in reported.items() for secret in _SECRETS if secret in text
        ] == []


async def test_standalone_it_asks_nobody(apart: Cluster) -> None:
    async with running(apart, "alone", "--standalone", **apart.as_pod) as koordlet:
        await until(lambda: usage_of(koordlet), "it observes")
        assert koordlet.stop() == 0
        koordlet.assert_sound()
    assert (apart.api.asked, apart.kubelet.asked) == ([], [])


async def remembered(koordlet: ClusterKoordlet) -> int:
    """How many points there are of the node's CPU."""

    async def count() -> int:
        found = await koordlet.ask(
            "/v1/metrics/query", kind="node_cpu_usage", window="10m", aggregation="count"
        )
        return int(found["series"][0]["count"]) if found and found["series"] else 0

    return await until(count, "points")


async def usage_of(koordlet: ClusterKoordlet) -> bool:
    found = await koordlet.ask("/v1/node")
    return bool(found and found["usage"]["cpu"])


def files(folder: Path) -> list[Path]:
    return [one for one in folder.rglob("*") if one.is_file()]


class Manager:
    """A manager of which one leads."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.leads = False
        self.receiver = NodeMetricReceiver(lambda: self.leads, self._admit, received=self._received)
        self.status: dict[str, Any] = {}
        self.tokens: set[str] = set()
        self._server: grpc.aio.Server | None = None

    async def _admit(self, token: str, _: str) -> ReportClaim:
        self.tokens.add(token)
        return ReportClaim(NAME)

    def _received(self, _node: str, status: bytes, _at: float) -> None:
        self.status = json.loads(status)

    async def start(self, port: int, credentials: grpc.ServerCredentials) -> None:
        self._server = grpc.aio.server(options=(*SERVER_OPTIONS, ("grpc.so_reuseport", 0)))
        self.receiver.add_to(self._server)
        self._server.add_secure_port(f"{self.host}:{port}", credentials)
        await self._server.start()

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(None)

    @property
    def sequence(self) -> int:
        """Of the last report; 0 without one."""
        taken = self.receiver._newest.get(NAME)
        return taken.sequence if taken else 0

    async def hears(self, after: int) -> None:
        """Until a report newer than that one has come."""
        await until(lambda: self.sequence > after, f"{self.host} hears of the node")


def lead(leader: Manager | None, *managers: Manager) -> None:
    for one in managers:
        one.leads = one is leader


async def test_the_direct_link_follows_the_leader(apart: Cluster) -> None:
    made = make_certificates(apart.folder / "managers", f"DNS:{MANAGERS}")
    pair = (made.key.read_bytes(), made.certificate.read_bytes())
    credentials = grpc.ssl_server_credentials((pair,))
    first, second = Manager("127.0.0.1"), Manager("127.0.0.2")
    port = free_port()
    token = apart.folder / "token-for-managers"
    token.write_text(unsigned_token())
    apart.put_policy(reportIntervalSeconds=2)  # half of it is the link's
    lead(first, first, second)
    flags = [
        f"--node-metric-report-address={MANAGERS}:{port}",
        f"--node-metric-report-ca-file={made.authority}",
        f"--node-metric-report-token-file={token}",
        "--kubelet-sync-interval=60",  # it is asked as soon as it is known where it is
    ]
    hosts = f"{first.host},{second.host}"
    async with AsyncExitStack() as at_exit:
        for manager in (first, second):
            await manager.start(port, credentials)
            at_exit.push_async_callback(manager.stop)
        one = await at_exit.enter_async_context(
            running(apart, "direct", *flags, HURRIED_MANAGERS=hosts, **apart.as_pod)
        )
        await first.hears(after=1)
        # The object is left alone: that it is is what the link is for.
        objects = apart.api.count("patch", "nodemetrics")
        await first.hears(after=first.sequence)
        assert apart.api.count("patch", "nodemetrics") == objects
        assert len(first.status["podsMetric"]) == 4
        assert first.tokens == {unsigned_token()}

        last = first.sequence
        lead(second, first, second)
        await second.hears(after=0)
        assert second.sequence <= last + SOON

        await first.stop()
        await second.stop()
        await apart.next_report()
        assert "direct link does not work" in one.said
        await first.start(port, credentials)
        lead(first, first, second)
        await first.hears(after=0)
        assert await asyncio.to_thread(one.stop) == 0
        one.assert_sound()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's koordlet writes kernel files")
async def test_a_new_node_slo_is_written_into_cgroups(apart: Cluster) -> None:
    groups = Path(apart.node.layout.cgroup_root, "kubepods")
    knobs = {name: groups / name / "cpu.bvt_warp_ns" for name in ("", "burstable", "besteffort")}

    def written() -> dict[str, str]:
        return {name: knob.read_text().strip() for name, knob in knobs.items()}

    for knob in knobs.values():
        knob.write_text("0")
    flags = [*apart.on_host, "--hook-plugins=groupidentity"]
    async with running(apart, "writing", *flags, HURRIED_UNMANAGED="") as koordlet:
        await until(lambda: apart.status.get("podsMetric"), "it runs")
        assert written() == {"": "0", "burstable": "0", "besteffort": "0"}
        cpu_qos = {"enable": True, "groupIdentity": -1}
        policies = {"cpuPolicy": "groupIdentity"}
        apart.put_slo(resourceQOSStrategy={"policies": policies, "beClass": {"cpuQOS": cpu_qos}})
        await until(lambda: written()["besteffort"] != "0", "it is written")
        assert written() == {"": "0", "burstable": "0", "besteffort": "-1"}
        assert koordlet.stop() == 0
        koordlet.assert_sound()


def stamps(*folders: Path) -> dict[Path, int]:
    """The times at which files were last changed."""
    return {one: one.stat().st_mtime_ns for folder in folders for one in files(folder)}


async def test_a_dry_run_writes_nothing_anywhere(apart: Cluster) -> None:
    groups = Path(apart.node.layout.cgroup_root, "kubepods")
    for name in ("", "burstable", "besteffort"):
        (groups / name / "cpu.bvt_warp_ns").write_text("0")
    knob = groups / "besteffort/cpu.bvt_warp_ns"
    cpu_qos = {"enable": True, "groupIdentity": -1}
    policies = {"cpuPolicy": "groupIdentity"}
    apart.put_slo(resourceQOSStrategy={"policies": policies, "beClass": {"cpuQOS": cpu_qos}})
    root, scratch = apart.folder / "node", apart.folder / "scratch"
    scratch.mkdir()
    before = stamps(root)
    await asyncio.sleep(1)
    passing = {path for path, at in stamps(root).items() if before.get(path) != at}
    before = stamps(root)
    flags = [*apart.on_host, "--dry-run", "--hook-plugins=groupidentity,batchresource"]
    environ = {"HURRIED_UNMANAGED": "", "TMPDIR": str(scratch)}
    async with running(apart, "dry", *flags, **environ) as koordlet:
        await until(lambda: koordlet.events("would write"), "it decides")
        await until(lambda: usage_of(koordlet), "it observes")
        status = await koordlet.ask("/v1/status")
        assert (status["mode"], status["hooks"]["registration"]) == ("dry run", "")
        logged = {one["file"]: one["value"] for one in koordlet.events("would write")}
        assert logged[str(knob)] == "-1"
        assert '"new": -1' in await koordlet.text("/events"), "its books say it, too"
        own = {"status.sock", "metrics.sock", "dry.log"}  # its pages, and what it says
        assert {one.name for one in koordlet.directory.iterdir()} == own
        assert koordlet.stop() == 0
        koordlet.assert_sound()
        assert koordlet.events("DRY RUN")
    assert {path for path, at in stamps(root).items() if before.get(path) != at} <= passing
    assert (knob.read_text(), list(scratch.iterdir())) == ("0", [])
    assert {one.verb for one in apart.api.asked} <= {"get", "list", "watch"}


async def test_it_echoes_the_version_that_it_has_applied(apart: Cluster) -> None:
    def echoed(version: str) -> dict[str, Any]:
        found = ((apart.status.get("extensions") or {}).get("pykoord") or {}).get("rollout") or {}
        return found if found.get("version") == version else {}

    def configure(version: str, policy: Any) -> None:
        strategies = {"memory_offload": {"mode": "shadow", "policy": policy}}
        ours = {"rollout": {"entry": "offload", "version": version}, "strategies": strategies}
        apart.put_slo(extensions={"pykoord": ours})

    flags = [*apart.on_host, "--feature-gates=MemoryOffload=true"]
    async with running(apart, "echoing", *flags, HURRIED_UNMANAGED="") as koordlet:
        await until(lambda: apart.status.get("podsMetric"), "it runs")
        assert "extensions" not in apart.status, "without a rollout there is nothing to say"
        configure("v1", "psi")
        found = await until(lambda: echoed("v1"), "the first")
        assert "problem" not in found
        assert found.items() >= {"entry": "offload", "evictions": 0, "restarts": 0}.items()
        configure("v2", 3)
        found = await until(lambda: echoed("v2"), "the second")
        assert "memory_offload.policy is 3" in found["problem"]
        apart.put_slo()
        await until(lambda: "extensions" not in apart.status, "the rollout is over")
        assert koordlet.stop() == 0
        koordlet.assert_sound()
