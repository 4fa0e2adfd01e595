"""koord-manager as processes in a whole cluster: what becomes of it when anything fails."""

from __future__ import annotations

import asyncio
import base64
import copy
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from koord_kube.protocol.resources import (
    COLOCATION_PROFILES,
    DEVICES,
    EVENTS,
    MUTATING_WEBHOOKS,
    NODE_METRICS,
    NODE_SLOS,
    NODE_TOPOLOGIES,
    NODES,
    PODS,
    RECOMMENDATIONS,
    SECRETS,
    VALIDATING_WEBHOOKS,
    Resource,
)
from koord_serving.tls.core.certificates import CA_KEY, NEXT_CERT
from kubernetes.aio.client.exceptions import ApiException

from tests.deploy.rights import components_for, missing, rights
from tests.support.emulated_manager import EmulatedManager
from tests.support.kube_api import BUILT_IN, USUAL, KubeApi
from tests.support.managed_cluster import (
    ManagedCluster,
    decoded,
    managed_cluster,
    ready,
)
from tests.support.manager_program import NAMESPACE, PATIENT, QUICK
from tests.support.processes import PATIENCE
from tests.support.waiting import until

_AMOUNT = {"name": "cpu", "capacity": "5", "allocatable": "5", "available": "5"}
_GPU = {
    "type": "gpu",
    "id": "GPU-1",
    "minor": 0,
    "health": True,
    "resources": {"koordinator.sh/gpu-core": "100"},
    "topology": {"socketID": 0, "nodeID": 0, "pcieID": "1", "busID": "2"},
}
_TARGET = {
    "type": "podSelector",
    "podSelector": {"matchLabels": {"app": "web"}},
    "workload": {"kind": "Deployment", "name": "w", "apiVersion": "apps/v1"},
}
_OTHERS: dict[Resource, Any] = {
    NODE_TOPOLOGIES: {
        "metadata": {"name": "n2", "annotations": {"node.koordinator.sh/cpu-topology": "{}"}},
        "topologyPolicies": ["None"],
        "zones": [{"name": "node-0", "type": "Node", "resources": [_AMOUNT]}],
    },
    DEVICES: {
        "metadata": {"name": "n2", "labels": {"node.koordinator.sh/gpu-model": "a"}},
        "spec": {"devices": [_GPU]},
    },
    RECOMMENDATIONS: {
        "metadata": {"name": "r", "namespace": "shop", "annotations": {"a": "b"}},
        "spec": {"target": _TARGET},
        "status": {"podStatus": {"containerStatuses": [{"containerName": "c"}]}},
    },
    COLOCATION_PROFILES: {
        "metadata": {"name": "odd", "labels": {"a": "b"}},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "probability": "50%",
            "labels": {"a": "b"},
            "koordinatorPriority": 5,
            "patch": {"spec": {"containers": [{"name": "c"}]}},
        },
    },
}

SECRET = "koordinator-webhook-certs"
ALWAYS = 10**9
FAIL = "--webhook-configuration-failure-policy-pods=Fail"
MUTATED = {"app": "batch", "koordinator.sh/qosClass": "BE"}
THREE = ("n1", "n2", "n3")


@pytest.fixture
async def cluster() -> AsyncIterator[ManagedCluster]:
    with tempfile.TemporaryDirectory(prefix="pykoord-mgr-") as name:
        async with managed_cluster(Path(name)) as made:
            yield made
            for one in made.managers:
                assert "Traceback" not in one.said
                asked = rights(made.asked_by(one))
                assert missing(asked, components=components_for(one.flags)) == []


@pytest.fixture
async def bare() -> AsyncIterator[ManagedCluster]:
    """One without our definitions."""
    with tempfile.TemporaryDirectory(prefix="pykoord-mgr-") as name:
        async with managed_cluster(Path(name), BUILT_IN) as made:
            yield made


async def stopped(manager: EmulatedManager) -> int:
    return await asyncio.to_thread(manager.stop)


async def killed(manager: EmulatedManager) -> None:
    await asyncio.to_thread(manager.kill)


def hang(cluster: ManagedCluster, manager: EmulatedManager, *plurals: str) -> None:
    """The API server answers a manager's requests about these no more."""
    for plural in plurals:
        cluster.api.fail(times=ALWAYS, hang=True, token=f"token-of-{manager.name}", plural=plural)


async def settled(number: Callable[[], int]) -> int:
    """A number, once it is the same for a while."""
    seen = [number()]
    while len(seen) < 40 or len(set(seen[-40:])) > 1:
        await asyncio.sleep(0.05)
        seen.append(number())
    return seen[-1]


def configured(cluster: ManagedCluster) -> bool:
    return bool(cluster.names(MUTATING_WEBHOOKS) and cluster.names(VALIDATING_WEBHOOKS))


class TestFromNothing:
    async def test_webhooks_that_work_and_an_object_of_each_kind_for_each_node(
        self, cluster: ManagedCluster
    ) -> None:
        manager = await cluster.started("m1")
        manager.serve_webhooks()
        await until(lambda: configured(cluster), "webhooks are reported of")
        assert b"PRIVATE KEY" in decoded(cluster.api.get(SECRETS, SECRET, NAMESPACE), CA_KEY)
        assert await cluster.create_pod() == MUTATED
        for name in THREE:
            cluster.put_node(name)
        for kind in (NODE_METRICS, NODE_SLOS):
            await until(lambda kind=kind: cluster.names(kind) == set(THREE))  # type: ignore[misc]
        cluster.api.delete(NODES, "n2")
        for kind in (NODE_METRICS, NODE_SLOS):
            await until(lambda kind=kind: cluster.names(kind) == {"n1", "n3"})  # type: ignore[misc]

    async def test_usage_becomes_what_nodes_offer(self, cluster: ManagedCluster) -> None:
        await cluster.started("m1")
        await cluster.busy_nodes(*THREE, cores=1)
        cluster.report("n2", 3)
        await cluster.offers(["n2"], 3000)
        await cluster.offers(["n1", "n3"], 5000)

    async def test_without_leader_election(self, cluster: ManagedCluster) -> None:
        await cluster.started("m1", *QUICK, "--enable-leader-election=false")
        await cluster.busy_nodes("n1", cores=1)
        assert not cluster.api.count("create", "leases")

    async def test_it_does_little_while_nothing_happens(self, cluster: ManagedCluster) -> None:
        manager = await cluster.started("m1")
        await cluster.busy_nodes(*THREE, cores=1)
        await until(lambda: configured(cluster) and cluster.names(NODE_SLOS) == set(THREE))

        def beside_its_lease() -> int:
            return sum(not one.path.endswith("/koordinator-manager") for one in cluster.api.asked)

        await settled(beside_its_lease)
        since, before = len(cluster.api.asked), cpu_seconds(manager.pid)
        await asyncio.sleep(5)
        asked = cluster.asked_by(manager, since)
        used = cpu_seconds(manager.pid) - before
        print(f"idle: {used / 5:.1%} of a core, {manager.resident():.0f} MB, {len(asked)} requests")
        assert {one.path.split("/")[-1] for one in asked} <= {"koordinator-manager"}, "its Lease"


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class TestWithoutDefinitions:
    async def test_they_may_be_installed_later(self, bare: ManagedCluster) -> None:
        manager = await bare.started("m1")
        manager.serve_webhooks()
        await until(lambda: configured(bare))
        bare.put_node("n1")
        assert await bare.create_pod() == {"app": "batch"}
        assert len(manager.events("problem")) < 10
        bare.install()
        bare.put_profile()
        await bare.busy_nodes("n1", cores=1)
        await until(lambda: bare.names(NODE_SLOS) == {"n1"})

        async def mutated() -> bool:
            return await bare.create_pod() == MUTATED

        await until(mutated, "the profile is known")


class TestTwoManagers:
    async def test_only_the_leader_writes_and_both_answer(self, cluster: ManagedCluster) -> None:
        leader = await cluster.started("m1")
        other = await cluster.started("m2", leads=False)
        await cluster.busy_nodes(*THREE, cores=1)
        await until(lambda: configured(cluster))
        for one in (other, leader):
            one.serve_webhooks()
            assert await cluster.create_pod() == MUTATED
        assert not other.leads
        assert cluster.writes_by(other) == []

    async def test_one_that_stops_hands_over_at_once(self, cluster: ManagedCluster) -> None:
        first = await cluster.started("m1", *PATIENT)
        second = await cluster.started("m2", *PATIENT, leads=False)
        await cluster.busy_nodes("n1", cores=1)
        first.signal(signal.SIGTERM)
        first.signal(signal.SIGTERM)  # nothing more becomes of a second one
        await until(lambda: cluster.holder == "m2", "the other has the Lease")
        [release] = [
            at
            for at, one in enumerate(cluster.api.asked)
            if one.verb == "update" and one.body["spec"].get("holderIdentity") == ""
        ]
        await cluster.busy_nodes("n2", cores=2)
        assert await asyncio.to_thread(first.wait) == 0
        assert cluster.writes_by(first, release + 1) == []
        assert cluster.writes_by(second, release + 1)

    async def test_one_that_is_killed_is_followed_and_pods_are_created_meanwhile(
        self, cluster: ManagedCluster
    ) -> None:
        first = await cluster.started("m1", *QUICK, FAIL)
        await until(lambda: configured(cluster))
        second = await cluster.started("m2", *PATIENT, FAIL, leads=False)
        second.serve_webhooks()
        await killed(first)
        created = 0
        while not second.leads:
            assert await cluster.create_pod() == MUTATED
            created += 1
        print(f"{created} pods while nobody led")
        await cluster.busy_nodes("n1", cores=1)

    async def test_a_leader_that_loses_the_api_in_the_middle_of_a_write(
        self, cluster: ManagedCluster
    ) -> None:
        first = await cluster.started("m1", *QUICK)
        second = await cluster.started("m2", leads=False)
        await cluster.busy_nodes(*THREE, cores=1)
        since = len(cluster.api.asked)
        hang(cluster, first, "nodes", "leases")
        cluster.report("n1", 3)

        def writes() -> bool:
            return any(one.verb == "patch" for one in cluster.writes_by(first, since))

        await until(writes, "a patch that hangs")
        await until(lambda: cluster.holder == "m2", "the other leads")
        since = len(cluster.api.asked)
        cluster.api.faults.clear()
        await cluster.offers(["n1"], 3000)
        cluster.report("n2", 2)
        await cluster.offers(["n2"], 4000)
        await until(lambda: any(one.verb == "get" for one in cluster.asked_by(first, since)))
        assert cluster.writes_by(first, since) == []
        assert cluster.writes_by(second, since)
        assert not first.leads

    async def test_a_leader_that_was_frozen_writes_nothing_when_it_thaws(
        self, cluster: ManagedCluster
    ) -> None:
        first = await cluster.started("m1", *QUICK)
        await cluster.started("m2", leads=False)
        await cluster.busy_nodes(*THREE, cores=1)
        first.signal(signal.SIGSTOP)
        for name in THREE:
            cluster.report(name, 3)
        await until(lambda: cluster.holder == "m2", "the other leads")
        since = len(cluster.api.asked)
        first.signal(signal.SIGCONT)
        await cluster.offers(THREE, 3000)
        await until(lambda: len(cluster.asked_by(first, since)) > 2, "it lives on")
        # A renewal that was due is refused: it names the version that was read.
        assert {one.path.split("/")[-2] for one in cluster.writes_by(first, since)} <= {"leases"}
        assert cluster.holder == "m2"

    async def test_it_stops_although_the_api_says_nothing(self, cluster: ManagedCluster) -> None:
        manager = await cluster.started("m1", *QUICK)
        await cluster.busy_nodes("n1", cores=1)
        hang(cluster, manager, "")
        assert await stopped(manager) == 0
        assert manager.events("stopped")

    @pytest.mark.parametrize("more", [(), ("--enable-node-metric-api", "--pod-ip=10.0.0.1")])
    async def test_one_that_leads_again_leaves_nothing_behind(
        self, cluster: ManagedCluster, more: tuple[str, ...]
    ) -> None:
        manager = await cluster.started("m1", *QUICK, *more)
        await cluster.busy_nodes("n1", cores=1)
        await until(lambda: configured(cluster))
        watches = await settled(cluster.api.open_watches)
        for amount in (4000, 3000, 2000):
            hang(cluster, manager, "leases")
            await until(lambda: not manager.leads, "it is over")
            await until(lambda: cluster.api.open_watches() < watches, "informers have ended")
            cluster.report("n1", 6 - amount / 1000)
            cluster.api.faults.clear()
            await until(lambda: manager.leads, "it leads again")
            await cluster.offers(["n1"], amount)
            await until(lambda: cluster.api.open_watches() == watches, "informers")
        terms = [one["term"] for one in manager.events("this manager leads")]
        # One more for each time that the machine stood still.
        assert len(terms) >= 4
        assert terms == sorted(set(terms))

    async def test_a_part_that_fails_gives_the_lease_back(self, cluster: ManagedCluster) -> None:
        """Its port for webhooks is somebody else's."""
        with closing(socket.create_server(("127.0.0.1", 0))) as taken:
            at = f"--webhook-address=127.0.0.1:{taken.getsockname()[1]}"
            first = cluster.manager("m1", *PATIENT, at)
            first.start()
            assert await asyncio.to_thread(first.wait) == 1
        [line] = [one for one in first.said.splitlines() if not one.startswith("{")]
        assert "address already in use" in line
        await cluster.started("m2", *PATIENT)


def conflicts(api: KubeApi) -> None:
    api.fail(times=4, status=409, verb="patch")


def failures(api: KubeApi) -> None:
    for verb in ("patch", "list", "watch", "get", "update"):
        api.fail(times=2, status=429, retry_after=1, verb=verb)
        api.fail(times=2, status=500, verb=verb)
    api.cut_watches()


def gone(api: KubeApi) -> None:
    api.gone_as_status = True
    api.compact()
    api.cut_watches()


def all_of_it(api: KubeApi) -> None:
    for one in (conflicts, failures, gone):
        one(api)


class TestProblemWithTheApi:
    @pytest.mark.parametrize(
        "problem", [conflicts, failures, gone, KubeApi.expire_watches, all_of_it]
    )
    async def test_all_is_right_afterwards(
        self, cluster: ManagedCluster, problem: Callable[[KubeApi], None]
    ) -> None:
        manager = await cluster.started("m1")
        await cluster.busy_nodes(*THREE, cores=1)
        since = len(cluster.api.asked)
        problem(cluster.api)
        for name in THREE:
            cluster.put_node(name, **{"example.com/somebody": "else"})
            cluster.report(name, 3)
        cluster.put_node("n4")
        await cluster.offers(THREE, 3000)
        await until(lambda: "n4" in cluster.names(NODE_METRICS) & cluster.names(NODE_SLOS))
        for name in THREE:
            meta = cluster.api.get(NODES, name)["metadata"]
            assert meta["annotations"]["example.com/somebody"] == "else"
        await until(lambda: manager.leads)
        asked = cluster.asked_by(manager, since)
        asked = [one for one in asked if not one.path.endswith("/koordinator-manager")]
        print(f"{problem.__name__}: {len(asked)} requests, without those for its Lease")
        assert len(asked) < 300

    async def test_an_api_server_that_is_away_is_waited_for(self, cluster: ManagedCluster) -> None:
        manager = await cluster.started("m1", *QUICK)
        await cluster.busy_nodes(*THREE, cores=1)
        await cluster.api.stop()
        await until(lambda: not manager.leads, "it leads no more")
        before = cpu_seconds(manager.pid)
        await asyncio.sleep(3)
        used = cpu_seconds(manager.pid) - before
        print(f"without an API server: {used / 3:.1%} of a core")
        await cluster.api.start()
        for name in THREE:
            cluster.report(name, 2)
        await cluster.offers(THREE, 4000)
        lines = [one["what"] for one in manager.events("problem")]
        assert len(lines) == len(set(lines)), "each line once"
        assert len(lines) < 10

    async def test_it_may_come_after_the_manager_or_never(self, cluster: ManagedCluster) -> None:
        await cluster.api.stop()
        managers = [cluster.manager(name) for name in ("m1", "m2")]
        for one in managers:
            one.start()
        for one in managers:
            await until(lambda one=one: one.events("problem"), "it says so")  # type: ignore[misc]
        await asyncio.sleep(2)
        first, second = managers
        assert not first.ready
        assert len(first.events("problem")) < 3
        assert await stopped(second) == 0
        assert "not released" not in second.said, "it never had the Lease"
        await cluster.api.start()
        await ready(first)


_ODD: tuple[Any, ...] = (
    None,
    [],
    {},
    "",
    "1e999999",
    "-5",
    "NaN",
    0,
    -1,
    2**70,
    1.5,
    True,
    [None],
    {"": None},
    {"cpu": "many"},
    {"cpu": "1e400"},
    "{",
    "9999-99-99T99:99:99Z",
)


def oddities(given: Any, at: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The document with each of its parts in turn replaced by what it cannot be."""
    if at not in ((), ("metadata",), ("metadata", "name"), ("metadata", "namespace")):
        yield from _ODD
    inside = given.items() if isinstance(given, dict) else ()
    inside = enumerate(given) if isinstance(given, list) else inside
    for key, value in inside:
        for odd in oddities(value, (*at, key)):
            made = copy.copy(given)
            made[key] = odd
            yield made


class TestOddObjects:
    """An API server keeps to its schemas; those of another version may be wider than ours."""

    @pytest.mark.parametrize("node", [False, True])
    async def test_they_cost_only_themselves(self, bare: ManagedCluster, node: bool) -> None:
        cluster = bare
        # Kinds without a schema.
        cluster.api.installed |= USUAL | {RECOMMENDATIONS, COLOCATION_PROFILES}
        manager = await cluster.started("m1", *PATIENT, "--recommendation-interval=0.2")
        manager.serve_webhooks()
        cluster.put_profile()
        await cluster.busy_nodes("n1", "n2", cores=1)
        for kind, given in _OTHERS.items():
            cluster.api.put(kind, given, given["metadata"].get("namespace", ""))
        await until(lambda: "status" in cluster.api.get(RECOMMENDATIONS, "r", "shop"))
        kinds = [NODES] if node else [NODE_METRICS, PODS, *_OTHERS]
        for kind in kinds:
            name, namespace = ("web-n2", "shop") if kind == PODS else ("n2", "")
            given = _OTHERS.get(kind) or cluster.api.get(kind, name, namespace)
            namespace = given["metadata"].get("namespace", "")
            for odd in oddities(given):
                cluster.api.put(kind, odd, namespace)
                await asyncio.sleep(0.002)
            await asyncio.sleep(1)
            assert manager.leads, kind
        cluster.report("n1", 3)
        await cluster.offers(["n1"], 3000)
        assert not [line for line in manager.said.splitlines() if "defect" in line]
        assert not [line for line in manager.said.splitlines() if "Error: " in line]
        print(len(manager.said.splitlines()), "lines")


class TestConfiguration:
    async def test_a_bad_key_leaves_the_last_good_one_in_force(
        self, cluster: ManagedCluster
    ) -> None:
        manager = await cluster.started("m1")
        await cluster.busy_nodes("n1", cores=1)
        good = '{"enable": true, "cpuReclaimThresholdPercent": 80}'
        cluster.put_config(colocation_config=good)
        await cluster.offers(["n1"], 7000)
        cluster.put_config(colocation_config='{"enable": true, "cpuReclaimThresholdPercent": "x"}')

        def reported() -> list[Any]:
            return [
                (one["type"], one["reason"])
                for key, one in cluster.api.objects.items()
                if key.resource == EVENTS and one["involvedObject"]["kind"] == "ConfigMap"
            ]

        await until(reported, "an Event")
        assert reported() == [("Warning", "SLOConfigInvalid")]
        assert "cpuReclaimThresholdPercent" in str(manager.page("/v1/status")["problems"])
        for value in ("slo_config_problems 1.0", "leader 1.0", "nodes 1.0"):
            assert f"koord_manager_{value}" in manager.metrics()
        cluster.report("n1", 2)
        await cluster.offers(["n1"], 6000)
        cluster.put_config(colocation_config=good.replace("80", "50"))
        await cluster.offers(["n1"], 3000)
        await until(lambda: ("Normal", "SLOConfigValid") in reported())
        assert manager.page("/v1/status")["problems"] == []


class _Creating:
    """Users that create pods without a pause."""

    def __init__(self, cluster: ManagedCluster, users: int) -> None:
        self._cluster = cluster
        self._users = users
        self.created = 0
        self.failed: list[str] = []

    @asynccontextmanager
    async def under_way(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            users = [group.create_task(self._create()) for _ in range(self._users)]
            await self.some_more()
            yield
            await self.some_more()
            for one in users:
                one.cancel()
        assert self.failed == []
        print(f"{self.created} pods created")

    async def some_more(self, number: int = 50) -> None:
        wanted = self.created + number
        await until(lambda: self.created >= wanted or self.failed, "pods are created")

    async def _create(self) -> None:
        while True:
            try:
                found = await self._cluster.create_pod()
            except ApiException as error:
                self.failed.append(f"{error.status} {error.body}")
                return
            if found != MUTATED:
                self.failed.append(f"not mutated: {found}")
            self.created += 1
            await asyncio.sleep(0.02)  # the machine is shared


class TestWhilePodsAreCreated:
    @asynccontextmanager
    async def creating(self, cluster: ManagedCluster, users: int = 8) -> AsyncIterator[_Creating]:
        async with cluster.webhooks_follow_readiness():
            await until(lambda: configured(cluster))
            made = _Creating(cluster, users)
            async with made.under_way():
                yield made

    async def test_managers_are_restarted_one_by_one(self, cluster: ManagedCluster) -> None:
        managers = [
            await cluster.started("m1", *QUICK, FAIL),
            await cluster.started("m2", *QUICK, FAIL, leads=False),
        ]
        async with self.creating(cluster) as creating:
            for one in managers:
                assert await stopped(one) == 0
                one.start()
                await ready(one)
                await creating.some_more()

    @pytest.mark.parametrize("key", [CA_KEY, ""])
    async def test_certificates_are_lost(self, cluster: ManagedCluster, key: str) -> None:
        await cluster.started("m1", *QUICK, FAIL)
        await cluster.started("m2", *QUICK, FAIL, leads=False)
        secret = cluster.api.get(SECRETS, SECRET, NAMESPACE)

        def announced() -> bool:
            now = cluster.found(SECRETS, SECRET, NAMESPACE)
            return now is not None and NEXT_CERT in now["data"]

        def trusted() -> bool:
            """By all API servers, the one that signs and the next."""
            bundles = {
                one["clientConfig"]["caBundle"]
                for key, kept in cluster.api.objects.items()
                if key.resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
                for one in kept["webhooks"]
            }
            return {base64.b64decode(one).count(b"BEGIN") for one in bundles} == {2}

        async with self.creating(cluster) as creating:
            if key:
                cluster.api.put(
                    SECRETS,
                    {**secret, "data": {k: v for k, v in secret["data"].items() if k != key}},
                    NAMESPACE,
                )
            else:
                cluster.api.delete(SECRETS, SECRET, NAMESPACE)
            await until(announced, "another authority")
            await until(trusted, "it is trusted")
            await creating.some_more()


class TestPages:
    @pytest.mark.parametrize("plural", ["namespaces", "configmaps"])
    async def test_not_ready_before_all_is_known(
        self, cluster: ManagedCluster, plural: str
    ) -> None:
        slow = cluster.api.fail(times=ALWAYS, hang=True, verb="watch", plural=plural)
        manager = cluster.manager("m1")
        manager.start()
        await until(lambda: "this manager leads" in manager.said)
        assert not manager.ready

        async def waits_for_it_alone() -> bool:
            why = str((await asyncio.to_thread(manager.page, "/v1/status"))["not_ready"])
            return why.startswith(plural) and why.endswith("not read yet")

        await until(waits_for_it_alone, f"all but {plural} is known")
        slow.times = 0
        # Whoever waits for an answer would do so for a minute.
        await cluster.api.stop()
        await cluster.api.start()
        await ready(manager)


class TestSettings:
    @pytest.mark.parametrize(
        ("flags", "said"),
        [
            (["--retry-period=20"], "retry period of 20"),
            (["--webhook-address=here"], "here"),
            (["--kubeconfig=/nowhere"], "/nowhere"),
            (["--no-such-flag"], "no-such-flag"),
            ([], "KUBERNETES_SERVICE_HOST"),
        ],
    )
    async def test_one_line_and_exit_2(
        self, cluster: ManagedCluster, flags: list[str], said: str
    ) -> None:
        command = [sys.executable, "-m", "koord_manager.program.main", *flags]
        if flags and "kubeconfig" not in flags[0]:
            command.append(f"--kubeconfig={cluster.manager('m1').kubeconfig}")
        environ = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES")}
        found = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, env=environ, timeout=PATIENCE
        )
        assert found.returncode == 2, found.stderr
        assert said in found.stderr
        assert len(found.stderr.strip().splitlines()) == 1
