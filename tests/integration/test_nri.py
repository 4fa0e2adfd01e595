"""Our NRI plugin at a real containerd: what it gets, and what its answers do to the kernel.

Two containerds, as NRI changed between them: 1.7 (NRI 0.6) and the newest there is.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import pytest
import uvloop
from koord_proto import nri_pb2 as nri
from koord_service.backoff import Backoff
from koordlet.runtime_hooks.nri.client import LateAnswer, NriClient
from koordlet.runtime_hooks.nri.protocol.adjustments import (
    adjustment,
    device,
    mount,
    update,
)
from koordlet.runtime_hooks.nri.protocol.convert import to_container, to_pod
from koordlet.runtime_hooks.nri.protocol.handler import NriHandler
from koordlet.runtime_hooks.nri.protocol.methods import METHODS

from tests.support.cgroups import container_pid, container_values, oom_score_adj
from tests.support.cri import (
    Cri,
    PodPlan,
    RunningPod,
    burstable_pod_config,
    pb,
    remove_pod,
    run_pod,
)
from tests.support.newer_containerd import Containerd, NotToBeHadError, programs
from tests.support.nri_limits import resources
from tests.support.processes import PATIENCE, until

pytestmark = pytest.mark.containerd

TIMEOUT = 5.0
"""Seconds that containerd waits for a plugin's answer; one of 1.7 does not say so."""


@pytest.fixture(scope="module", params=["trixie", "sid"])
def node(request: pytest.FixtureRequest) -> Iterator[Containerd]:
    try:
        where = programs(request.param)
    except NotToBeHadError as reason:
        pytest.skip(str(reason))
    with Containerd(programs=where, nri_timeout=TIMEOUT) as instance:
        yield instance
    assert instance.leftovers() == []


@pytest.fixture
def cri(node: Containerd) -> Iterator[Cri]:
    with node.cri() as client:
        yield client
    node.remove_all_pods()


class Watcher(NriHandler):
    """Notes every call; a test says what is answered to which."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.answers: dict[str, Callable[[Any], Any]] = {}

    def note(self, name: str, request: Any) -> Any:
        self.calls.append((name, request))
        return self.answers.get(name, lambda _: None)(request)

    def requests(self, name: str) -> list[Any]:
        return [request for called, request in self.calls if called == name]


def _noting(name: str) -> Callable[[Watcher, Any], Any]:
    return lambda self, request: self.note(name, request)


for _method in METHODS:
    setattr(Watcher, _method.handler, _noting(_method.handler))


class Plugin:
    """A client on a loop of its own, as in koordlet; ``with`` starts and ends it."""

    def __init__(self, node: Containerd, *, index: str = "10") -> None:
        self.handler = Watcher()
        self.late: list[LateAnswer] = []
        self.client = NriClient(
            self.handler,
            socket=str(node.nri_address),
            index=index,
            late=self.late.append,
            backoff=Backoff(0.1, 1.0),
            poll=0.1,
        )
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Plugin:
        self._thread.start()
        self.wait()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def wait(self, connections: int = 1) -> None:
        """Wait until it was synchronised so many times."""
        until(
            lambda: self.client.connected and self.client.counts.connections >= connections,
            "the plugin is registered",
        )

    def stop(self) -> None:
        """Go, as a process that ends: no word to the runtime."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join(PATIENCE)

    def update(self, *updates: nri.ContainerUpdate) -> list[nri.ContainerUpdate]:
        asked = self.client.update_containers(updates)
        return asyncio.run_coroutine_threadsafe(asked, self._loop).result(PATIENCE)

    def answer(self, name: str, answer: Callable[[Any], Any]) -> None:
        self.handler.answers[name] = answer

    def _run(self) -> None:
        self._task = self._loop.create_task(self.client.run())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._task)
        self._loop.close()


@pytest.fixture
def plugin(node: Containerd) -> Iterator[Plugin]:
    with Plugin(node) as instance:
        yield instance


def plan(node: Containerd, **settings: Any) -> PodPlan:
    return burstable_pod_config(cgroup_root=node.cgroup_root, **settings)


def creating(**changes: Any) -> Callable[[Any], nri.CreateContainerResponse]:
    return lambda _: nri.CreateContainerResponse(adjust=adjustment(**changes))


LIFE = [
    "run_pod_sandbox",
    "create_container",
    "post_create_container",
    "start_container",
    "post_start_container",
    "update_container",
    "post_update_container",
    "stop_container",
    "stop_pod_sandbox",
    "remove_container",
    "remove_pod_sandbox",
]


def test_a_pods_life_is_reported(node, cri, plugin):
    pod = run_pod(cri, plan(node))
    cri.update_container_resources(pod.container_id, pb.LinuxContainerResources(cpu_shares=200))
    remove_pod(cri, pod)
    calls = plugin.handler.calls[1:]
    assert [name for name, _ in calls] == LIFE
    assert {request.pod.id for _, request in calls} == {pod.sandbox_id}
    containers = [request.container.id for name, request in calls if "container" in name]
    assert set(containers) == {pod.container_id}
    [asked] = plugin.handler.requests("update_container")
    assert asked.linux_resources.cpu.shares.value == 200


def test_pods_that_run_are_synchronized(node, cri):
    pod = run_pod(cri, plan(node, labels={"koordinator.sh/qosClass": "LS"}, envs={"A": "1"}))
    with Plugin(node) as plugin:
        [request] = plugin.handler.requests("synchronize")
    [sandbox] = request.pods
    [container] = request.containers
    assert container.state == nri.CONTAINER_RUNNING
    assert container.pod_sandbox_id == sandbox.id == pod.sandbox_id
    model = to_container(sandbox, container)
    given = pod.plan.sandbox
    assert (model.pod.uid, model.pod.name) == (given.metadata.uid, given.metadata.name)
    assert model.pod.cgroup_parent == given.linux.cgroup_parent
    assert model.pod.labels["koordinator.sh/qosClass"] == "LS"
    assert (model.id, model.name, model.env["A"]) == (pod.container_id, "main", "1")
    limits = pod.plan.container.linux.resources
    assert model.resources.cpu_shares == limits.cpu_shares
    assert model.resources.memory_limit == limits.memory_limit_in_bytes
    assert model.resources.oom_score_adj == limits.oom_score_adj


def test_a_pod_is_reported_as_it_was_asked_for(node, cri, plugin):
    pod = run_pod(cri, plan(node, annotations={"koordinator.sh/x": "y"}))
    [request] = plugin.handler.requests("run_pod_sandbox")
    reported = to_pod(request.pod)
    assert reported.cgroup_parent == pod.plan.sandbox.linux.cgroup_parent
    assert reported.annotations["koordinator.sh/x"] == "y"


def test_adjustment_reaches_the_kernel_and_the_container(node, cri, plugin, request):
    limits = resources(
        cpu_shares=512,
        cpu_quota=30_000,
        cpu_period=100_000,
        cpuset_cpus="0",
        memory_limit=96 << 20,
        memory_swap_limit=96 << 20,
    )
    directory = node.directory / "given"
    directory.mkdir(exist_ok=True)
    (directory / "file").write_text("from outside")
    plugin.answer(
        "create_container",
        creating(
            resources=limits,
            oom_score_adj=777,
            env={"GIVEN": "yes", "CHANGED": "new"},
            mounts=[mount("/given", str(directory))],
            devices=[device("/dev/given", 1, 3, mode=0o666)],
            annotations={"example.com/large": "x" * 20_000},
        ),
    )
    pod = run_pod(cri, plan(node, envs={"CHANGED": "old", "KEPT": "yes"}))
    values = container_values(cri, pod.container_id)
    assert (values.cpu_quota, values.memory_limit, values.cpuset) == (30_000, 96 << 20, "0")
    assert values.cpu_shares == 512 or values.cpu_weight is not None
    # NRI 0.6, in containerd 1.7, has no word for the score.
    score = 999 if "trixie" in request.node.name else 777
    assert oom_score_adj(container_pid(cri, pod.container_id)) == score
    variables = _run(cri, pod, "env").splitlines()
    assert {"GIVEN=yes", "CHANGED=new", "KEPT=yes"} <= set(variables)
    assert "CHANGED=old" not in variables
    assert _run(cri, pod, "cat /given/file") == "from outside"
    assert _run(cri, pod, "cat /dev/given") == ""


def test_no_answer_changes_nothing(node, cri, plugin):
    pod = run_pod(cri, plan(node, cpu_milli=250, memory=64 << 20))
    values = container_values(cri, pod.container_id)
    assert values.memory_limit == 64 << 20
    assert values.cpu_shares == 256 or values.cpu_weight is not None


def test_unsolicited_update_reaches_the_kernel(node, cri, plugin):
    pod = run_pod(cri, plan(node))
    limits = resources(cpu_quota=20_000, cpu_period=100_000, memory_limit=80 << 20)
    assert plugin.update(update(pod.container_id, limits)) == []
    values = container_values(cri, pod.container_id)
    assert (values.cpu_quota, values.memory_limit) == (20_000, 80 << 20)


def test_update_of_a_container_that_is_gone_is_no_failure(node, cri, plugin):
    """That is how containerd has it; the others are updated all the same."""
    pod = run_pod(cri, plan(node))
    limits = resources(cpu_quota=20_000)
    assert plugin.update(update("gone", limits), update(pod.container_id, limits)) == []
    assert container_values(cri, pod.container_id).cpu_quota == 20_000


def test_the_kubelets_update_can_be_changed(node, cri, plugin):
    pod = run_pod(cri, plan(node))
    ours = update(pod.container_id, resources(cpu_quota=25_000))
    plugin.answer("update_container", lambda _: nri.UpdateContainerResponse(update=[ours]))
    theirs = pb.LinuxContainerResources(cpu_quota=50_000, memory_limit_in_bytes=70 << 20)
    cri.update_container_resources(pod.container_id, theirs)
    values = container_values(cri, pod.container_id)
    assert (values.cpu_quota, values.memory_limit) == (25_000, 70 << 20)


def test_a_containers_coming_and_going_can_change_others(node, cri, plugin):
    first = run_pod(cri, plan(node))
    less = update(first.container_id, resources(cpu_quota=10_000))
    more = update(first.container_id, resources(cpu_quota=40_000))
    plugin.answer("create_container", lambda _: nri.CreateContainerResponse(update=[less]))
    plugin.answer("stop_container", lambda _: nri.StopContainerResponse(update=[more]))
    second = run_pod(cri, plan(node))
    assert container_values(cri, first.container_id).cpu_quota == 10_000
    cri.stop_container(second.container_id)
    assert container_values(cri, first.container_id).cpu_quota == 40_000


def test_synchronisation_can_change_what_runs(node, cri):
    pod = run_pod(cri, plan(node))
    plugin = Plugin(node)
    ours = update(pod.container_id, resources(cpu_quota=15_000))
    plugin.answer("synchronize", lambda _: nri.SynchronizeResponse(update=[ours]))
    with plugin:
        until(
            lambda: container_values(cri, pod.container_id).cpu_quota == 15_000,
            "the update is applied",
        )


def test_containers_older_than_containerd_are_asked_to_the_end(node, cri, plugin):
    """Of their pods containerd tells nothing more; a newer one's are not kept from anything."""
    pod = run_pod(cri, plan(node))
    node.restart()
    plugin.wait(2)
    cri.wait_until_ready()
    remove_pod(cri, pod)
    assert plugin.handler.requests("stop_container")[-1].container.id == pod.container_id
    assert plugin.handler.requests("remove_container")[-1].pod.id == pod.sandbox_id


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_registered_again_after_containerd_restarts(node, cri, plugin, end):
    pod = run_pod(cri, plan(node))
    for connections in (2, 3):
        getattr(node, end)()
        until(lambda: not plugin.client.connected, "the plugin notices")
        node.start()
        plugin.wait(connections)
        synchronized = plugin.handler.requests("synchronize")[-1]
        assert [one.id for one in synchronized.pods] == [pod.sandbox_id]
        assert [one.id for one in synchronized.containers] == [pod.container_id]
    plugin.answer("create_container", creating(env={"GIVEN": "again"}))
    again = run_pod(cri, plan(node))
    assert "GIVEN=again" in _run(cri, again, "env")
    limits = resources(cpu_quota=20_000)
    assert plugin.update(update(pod.container_id, limits)) == []
    assert container_values(cri, pod.container_id).cpu_quota == 20_000


def test_a_plugin_that_restarts_is_synchronized_with_what_it_missed(node, cri):
    seen = []
    for _ in range(3):
        with Plugin(node) as plugin:
            [request] = plugin.handler.requests("synchronize")
            seen.append(len(request.containers))
        run_pod(cri, plan(node))
    assert seen == [0, 1, 2]


def test_a_slow_answer_costs_no_pod_and_no_registration(node, cri, plugin):
    go_on = threading.Event()
    limits = resources(cpu_quota=30_000)

    async def slowly(_: Any) -> nri.CreateContainerResponse:
        while not go_on.is_set():
            await asyncio.sleep(0.01)
        return nri.CreateContainerResponse(adjust=adjustment(resources=limits))

    plugin.answer("create_container", slowly)
    pod = run_pod(cri, plan(node))
    assert container_values(cri, pod.container_id).cpu_quota == -1
    go_on.set()
    until(lambda: plugin.late, "the late answer is reported")
    [late] = plugin.late
    wanted = late.response.adjust.linux.resources
    assert plugin.update(update(late.request.container.id, wanted)) == []
    assert container_values(cri, pod.container_id).cpu_quota == 30_000
    assert plugin.client.counts.connections == 1


def test_a_failing_answer_costs_no_pod_and_no_registration(node, cri, plugin):
    def fail(_: Any) -> None:
        raise RuntimeError("no idea")

    for name in LIFE:
        plugin.answer(name, fail)
    remove_pod(cri, run_pod(cri, plan(node)))
    assert plugin.client.counts.failed == len(LIFE) - 2
    assert plugin.client.counts.connections == 1


def test_a_plugin_that_dies_while_it_is_asked_costs_no_pod(node, cri, plugin):
    asked = threading.Event()

    async def for_ever(_: Any) -> None:
        asked.set()
        await asyncio.sleep(3600)

    plugin.answer("create_container", for_ever)
    ending = threading.Thread(target=lambda: (asked.wait(PATIENCE), plugin.stop()))
    ending.start()
    pod = run_pod(cri, plan(node))
    ending.join()
    assert _run(cri, pod, "echo alive") == "alive\n"


def test_one_identity_is_registered_once(node, cri, plugin):
    second = Plugin(node)
    second._thread.start()
    pod = run_pod(cri, plan(node))
    assert not second.client.connected
    assert second.handler.calls == []
    plugin.stop()
    second.wait()
    [request] = second.handler.requests("synchronize")
    assert [one.id for one in request.pods] == [pod.sandbox_id]
    second.stop()


def test_two_plugins_are_both_heard(node, cri, plugin):
    with Plugin(node, index="90") as later:
        plugin.answer("create_container", creating(env={"FIRST": "1"}))
        later.answer("create_container", creating(env={"SECOND": "2"}))
        pod = run_pod(cri, plan(node))
    assert {"FIRST=1", "SECOND=2"} <= set(_run(cri, pod, "env").splitlines())
    [request] = later.handler.requests("create_container")
    # Each gets what those before it changed.
    assert "FIRST=1" in request.container.env


def _run(cri: Cri, pod: RunningPod, command: str) -> str:
    said = cri.exec_sync(pod.container_id, "sh", "-c", command)
    assert said.exit_code == 0, said.stderr
    return said.stdout.decode()
