"""The loop: who runs, what of it is known, when a round is due, what is said."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from koord_hooks.stages import Stage
from koord_host.knobs.layout import Driver, Layout
from koord_model import keys
from koord_model.pod import Container, Pod
from koord_model.qos import KubeQoS
from koord_model.resources import LinuxResources
from koordlet.agent.runtime_hooks import ManagedNode
from koordlet.runtime_hooks.reconciler import reconcile_loop as keeper_module
from koordlet.runtime_hooks.reconciler.reconcile_loop import NodeReconcileLoop
from koordlet.states_informer import pod_informer as pods_module
from koordlet.states_informer.kubelet_client import PodFile
from koordlet.states_informer.pod_informer import PodInformer
from koordlet.states_informer.pod_source import PodListPendingError

from tests.koordlet.conftest import Keep, Words
from tests.support.fake_node import FakeNode, PodSpec, StandInRuntime
from tests.support.fake_node.cri import pod_list
from tests.support.processes import PATIENCE

LAYOUT = Layout(2, Driver.CGROUPFS)
BATCH = {"containers": {"main": {"limits": {keys.BATCH_CPU: 500}}}}
JOB = PodSpec(
    "job",
    KubeQoS.BEST_EFFORT,
    "BE",
    annotations={keys.ANNOTATION_EXTENDED_RESOURCE_SPEC: BATCH},
)
WEB = PodSpec("web", KubeQoS.BURSTABLE, "LS", 2)
QUOTA = f"{JOB.group(LAYOUT)}/job-main/cpu.max"
NO_LIST = "cannot list pods, keeping the known ones"


def pod_of(spec: PodSpec, **more: object) -> Pod:
    told = Pod(spec.name, "shop", spec.uid, spec.all_labels, spec.texts, f"/{spec.group(LAYOUT)}")
    return replace(told, **more)  # type: ignore[arg-type]


def main_of(spec: PodSpec, **resources: int) -> Container:
    limits = LinuxResources(**resources)  # type: ignore[arg-type]
    return Container(pod_of(spec), "main", f"{spec.name}-main", resources=limits)


class Bench:
    """A node in memory on which pods run that nobody was asked about."""

    def __init__(self, *pods: PodSpec, node: FakeNode | None = None) -> None:
        self.node = node or FakeNode()
        self.runtime = StandInRuntime(self.node, LAYOUT)
        for pod in pods:
            self.start(pod)

    def start(self, pod: PodSpec) -> None:
        config = pod.sandbox_request(LAYOUT).config
        self.runtime.make_pod_group(config)
        self.runtime.run_sandbox(config)
        self.runtime.create(pod.container_request(LAYOUT))

    def read(self, path: str) -> str:
        return self.node.read(f"/sys/fs/cgroup/{path}").strip()


def names(reconcile_loop: NodeReconcileLoop) -> set[str]:
    return {record.pod.name for record in reconcile_loop.inventory.records()}


class TestWhatIsTold:
    async def test_a_container_that_started_is_levelled_and_one_that_ended_is_not(
        self, keep: Keep
    ) -> None:
        bench = Bench(JOB)
        reconcile_loop = keep(bench.node, "batchresource").reconcile_loop
        reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(JOB))
        await reconcile_loop.reconcile()
        assert bench.read(QUOTA) == "50000 100000"
        reconcile_loop.saw(Stage.POST_STOP_CONTAINER, main_of(JOB))
        reconcile_loop.saw(Stage.POST_STOP_POD_SANDBOX, pod_of(JOB))
        bench.node.remove_group(JOB.group(LAYOUT))
        done = await reconcile_loop.reconcile()
        assert [one for one in done.writes.results if one.alert] == []
        assert names(reconcile_loop) == set()

    @pytest.mark.parametrize("stage", [Stage.PRE_CREATE_CONTAINER, Stage.PRE_START_CONTAINER])
    async def test_what_is_not_there_yet_does_not_count(self, keep: Keep, stage: Stage) -> None:
        reconcile_loop = keep(Bench().node).reconcile_loop
        reconcile_loop.saw(stage, main_of(JOB))
        assert names(reconcile_loop) == set()

    async def test_a_container_without_id_is_not_taken_for_its_pod(self, keep: Keep) -> None:
        bench = Bench(JOB)
        reconcile_loop = keep(bench.node, "batchresource").reconcile_loop
        reconcile_loop.saw(Stage.POST_START_CONTAINER, replace(main_of(JOB), id=""))
        assert names(reconcile_loop) == set()

    async def test_a_resize_in_place_is_not_undone(self, keep: Keep, tmp_path: Path) -> None:
        rules = tmp_path / "rules.yaml"
        annotation = f'{keys.ANNOTATION_CPU_NORMALIZATION_RATIO}: "2"'
        rules.write_text(f"kind: Node\nmetadata: {{annotations: {{{annotation}}}}}\n")
        bench = Bench(WEB)
        reconcile_loop = keep(
            bench.node,
            "cpunormalization",
            nodeslo_file=str(rules),
            resource_force_update_seconds=0,
        ).reconcile_loop
        quota = f"{WEB.group(LAYOUT)}/web-main/cpu.max"
        reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(WEB, cpu_quota=200_000))
        await reconcile_loop.reconcile()
        assert bench.read(quota) == "100000 100000"
        # Half of 3 CPUs: the runtime sets what hooks made of the request.
        reconcile_loop.saw(Stage.PRE_UPDATE_CONTAINER_RESOURCES, main_of(WEB, cpu_quota=300_000))
        bench.node.write(f"/sys/fs/cgroup/{quota}", "150000 100000")
        await reconcile_loop.reconcile()
        assert bench.read(quota) == "150000 100000"

    async def test_an_earlier_sandbox_may_be_stopped_and_removed_again(self, keep: Keep) -> None:
        """The kubelet does both to a sandbox that it has long replaced."""
        reconcile_loop = keep(Bench(JOB).node).reconcile_loop
        reconcile_loop.saw(Stage.PRE_RUN_POD_SANDBOX, pod_of(JOB))
        reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(JOB))
        for stage in (Stage.POST_STOP_POD_SANDBOX, Stage.PRE_REMOVE_POD_SANDBOX):
            reconcile_loop.saw(stage, pod_of(JOB))
        assert names(reconcile_loop) == {"job"}

    async def test_nri_tells_of_all_there_is(self, keep: Keep) -> None:
        reconcile_loop = keep(Bench(JOB, WEB).node, "batchresource").reconcile_loop
        reconcile_loop.saw(Stage.PRE_RUN_POD_SANDBOX, pod_of(WEB))
        reconcile_loop.synchronize([pod_of(JOB)], [main_of(JOB)])
        assert names(reconcile_loop) == {"job"}

    async def test_beside_a_list_nri_only_adds(self, keep: Keep) -> None:
        reconcile_loop = keep(
            Bench(JOB, WEB).node, "batchresource", pod_list_source="/none"
        ).reconcile_loop
        reconcile_loop.saw(Stage.PRE_RUN_POD_SANDBOX, pod_of(WEB))
        reconcile_loop.synchronize([pod_of(JOB)], [main_of(JOB)])
        assert names(reconcile_loop) == {"job", "web"}


class Clock:
    """Steady seconds that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    perf_counter = monotonic


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(keeper_module, "time", made)
    monkeypatch.setattr(pods_module, "time", made)
    return made


@asynccontextmanager
async def running(loop: NodeReconcileLoop | PodInformer) -> AsyncIterator[None]:
    """One of the two loops, cancelled at the end."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(loop.run())
        yield
        task.cancel()


class TestWithoutAList:
    async def test_a_pod_whose_group_has_been_gone_for_a_while_has_ended(
        self, keep: Keep, clock: Clock
    ) -> None:
        bench = Bench(JOB, WEB)
        reconcile_loop = keep(bench.node).reconcile_loop
        for spec in (JOB, WEB):
            reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(spec))
        bench.node.remove_group(JOB.group(LAYOUT))
        reconcile_loop.pods.drop_vanished()
        assert names(reconcile_loop) == {"job", "web"}
        clock.now += 61
        reconcile_loop.pods.drop_vanished()
        assert names(reconcile_loop) == {"web"}

    async def test_a_container_that_ended_by_itself_is_dropped(
        self, keep: Keep, clock: Clock
    ) -> None:
        bench = Bench(JOB)
        reconcile_loop = keep(bench.node).reconcile_loop
        reconcile_loop.saw(Stage.POST_START_CONTAINER, replace(main_of(JOB), id="job-crashed"))
        reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(JOB))
        clock.now += 61
        reconcile_loop.pods.drop_vanished()
        [record] = reconcile_loop.inventory.records()
        assert list(record.containers) == ["job-main"]

    async def test_they_are_looked_for_by_the_loop(self, keep: Keep, clock: Clock) -> None:
        bench = Bench(JOB, WEB)
        reconcile_loop = keep(bench.node).reconcile_loop
        reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(JOB))
        bench.node.remove_group(JOB.group(LAYOUT))
        clock.now += 61
        reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(WEB))
        async with running(reconcile_loop.pods), asyncio.timeout(PATIENCE):
            while names(reconcile_loop) != {"web"}:
                await asyncio.sleep(0.01)


class TestOverARestart:
    async def test_pods_told_of_are_known_again_and_their_cpus_are_theirs(self, keep: Keep) -> None:
        own = {keys.ANNOTATION_RESOURCE_STATUS: {"cpuset": "0"}}
        lse = PodSpec("lse", KubeQoS.GUARANTEED, "LSE", annotations=own)
        bench = Bench(lse, WEB, JOB)
        before = keep(bench.node)
        for spec in (lse, WEB, JOB):
            before.reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(spec))
        await before.reconcile_loop.reconcile()
        shared = before.reconcile_loop.view.topology
        before.shut_down()
        bench.node.remove_group(JOB.group(LAYOUT))
        after = keep(bench.node).reconcile_loop
        assert names(after) == {"lse", "web"}
        assert shared is not None
        assert after.view.topology == shared

    async def test_a_list_knows_better(self, keep: Keep, tmp_path: Path) -> None:
        bench = Bench(WEB)
        before = keep(bench.node)
        before.reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(WEB))
        await before.reconcile_loop.reconcile()
        before.shut_down()
        assert (
            names(keep(bench.node, pod_list_source=str(tmp_path / "pods.json")).reconcile_loop)
            == set()
        )


class TestTheList:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        return tmp_path / "pods.json"

    @pytest.fixture
    def reconcile_loop(self, keep: Keep, source: Path) -> NodeReconcileLoop:
        source.write_bytes(pod_list([JOB, WEB]))
        bench = Bench(JOB, WEB)
        return keep(bench.node, "batchresource", pod_list_source=str(source)).reconcile_loop

    async def look(self, reconcile_loop: NodeReconcileLoop, clock: Clock) -> set[str]:
        clock.now += 11
        await reconcile_loop.pods.sync()
        return names(reconcile_loop)

    async def test_it_says_who_runs(
        self, reconcile_loop: NodeReconcileLoop, clock: Clock, source: Path
    ) -> None:
        assert await self.look(reconcile_loop, clock) == {"job", "web"}
        source.write_bytes(pod_list([WEB]))
        assert await self.look(reconcile_loop, clock) == {"web"}

    async def test_it_is_not_asked_for_more_often_than_set(
        self, reconcile_loop: NodeReconcileLoop, clock: Clock, source: Path
    ) -> None:
        assert await self.look(reconcile_loop, clock) == {"job", "web"}
        source.unlink()
        await reconcile_loop.pods.sync()
        assert names(reconcile_loop) == {"job", "web"}

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            (b"", "is no pod list: Input data was truncated"),
            (b'{"items": []}', "lists no pods"),
            (b'{"items": 7}', "is no pod list: Expected `array | null`"),
            (pod_list([WEB])[:-9], "is no pod list"),
            (None, "No such file or directory"),
        ],
    )
    async def test_without_one_those_known_stay_and_the_reason_is_told_once(
        self,
        reconcile_loop: NodeReconcileLoop,
        clock: Clock,
        source: Path,
        words: Callable[..., Words],
        text: bytes | None,
        reason: str,
    ) -> None:
        await self.look(reconcile_loop, clock)
        source.unlink() if text is None else source.write_bytes(text)
        for _ in range(3):
            assert await self.look(reconcile_loop, clock) == {"job", "web"}
        [(_, fields)] = words(NO_LIST)
        assert reason in fields["reason"]
        assert str(source) in fields["reason"]

    async def test_one_that_is_a_minute_old_is_an_old_one(
        self, reconcile_loop: NodeReconcileLoop, clock: Clock, source: Path
    ) -> None:
        assert not reconcile_loop.pods.fresh
        await self.look(reconcile_loop, clock)
        source.unlink()
        clock.now += 49
        await self.look(reconcile_loop, clock)
        assert (reconcile_loop.pods.known, reconcile_loop.pods.fresh) == (True, True)
        clock.now += 1
        assert (reconcile_loop.pods.known, reconcile_loop.pods.fresh) == (True, False)
        source.write_bytes(pod_list([WEB]))
        await self.look(reconcile_loop, clock)
        assert reconcile_loop.pods.fresh

    async def test_where_there_is_none_nothing_is_old(self, keep: Keep) -> None:
        assert keep(Bench(WEB).node).reconcile_loop.pods.fresh

    async def test_without_one_what_has_no_group_any_more_has_ended(
        self, keep: Keep, clock: Clock, source: Path
    ) -> None:
        source.write_bytes(pod_list([JOB, WEB]))
        bench = Bench(JOB, WEB)
        reconcile_loop = keep(bench.node, pod_list_source=str(source)).reconcile_loop
        await self.look(reconcile_loop, clock)
        bench.node.remove_group(JOB.group(LAYOUT))
        reconcile_loop.pods.drop_vanished()
        assert names(reconcile_loop) == {"job", "web"}, "the list says so"
        source.unlink()
        await self.look(reconcile_loop, clock)
        reconcile_loop.pods.drop_vanished()
        assert names(reconcile_loop) == {"web"}

    async def test_before_it_is_there_no_cpus_are_shared(
        self, keep: Keep, clock: Clock, source: Path
    ) -> None:
        """CPUs of pods that nobody has told of yet are not to be given to others."""
        source.write_bytes(b"")
        bench = Bench(WEB)
        reconcile_loop = keep(
            bench.node, "cpusetallocator", pod_list_source=str(source)
        ).reconcile_loop
        reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(WEB))
        found = bench.read(f"{WEB.group(LAYOUT)}/web-main/cpuset.cpus")
        for text, shared in ((b"", False), (pod_list([WEB]), True)):
            source.write_bytes(text)
            await self.look(reconcile_loop, clock)
            await reconcile_loop.reconcile()
            topology = reconcile_loop.view.topology
            assert topology is not None
            assert bool(topology.shared_pools) is shared
            changed = bench.read(f"{WEB.group(LAYOUT)}/web-main/cpuset.cpus") != found
            assert changed is shared

    async def test_it_is_told_when_it_is_back_and_when_it_fails_again(
        self,
        reconcile_loop: NodeReconcileLoop,
        clock: Clock,
        source: Path,
        words: Callable[..., Words],
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level("INFO", "pykoord")
        await self.look(reconcile_loop, clock)
        for text in (b"", pod_list([WEB]), b""):
            source.write_bytes(text)
            await self.look(reconcile_loop, clock)
        again = "listing pods works again"
        assert [event for event, _ in words(NO_LIST, again)] == [NO_LIST, again, NO_LIST]

    async def test_a_list_that_cannot_be_there_yet_is_no_trouble_to_tell_of(
        self,
        reconcile_loop: NodeReconcileLoop,
        clock: Clock,
        words: Callable[..., Words],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        async def fetch(_: object) -> bytes:
            raise PodListPendingError("the Node is not known yet")

        with monkeypatch.context() as patch:
            patch.setattr(PodFile, "pods", fetch)
            await self.look(reconcile_loop, clock)
        assert reconcile_loop.pods.trouble == "the Node is not known yet"
        assert await self.look(reconcile_loop, clock) == {"job", "web"}
        assert reconcile_loop.pods.trouble == ""
        assert words(NO_LIST, "listing pods works again") == []

    async def test_who_starts_while_it_is_fetched_stays(
        self,
        reconcile_loop: NodeReconcileLoop,
        clock: Clock,
        source: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        async def fetch(_: object) -> bytes:
            clock.now += 1
            reconcile_loop.saw(Stage.PRE_RUN_POD_SANDBOX, pod_of(JOB))
            return pod_list([WEB])

        monkeypatch.setattr(PodFile, "pods", fetch)
        assert await self.look(reconcile_loop, clock) == {"job", "web"}

    async def test_resctrl_groups_are_collected_once_all_pods_are_known(
        self, keep: Keep, clock: Clock, source: Path
    ) -> None:
        source.write_bytes(b"")
        bench = Bench(WEB)
        bench.node.make_directory("/sys/fs/resctrl/koordlet-of-an-earlier-run")
        reconcile_loop = keep(bench.node, "resctrl", pod_list_source=str(source)).reconcile_loop
        reconcile_loop.saw(Stage.PRE_RUN_POD_SANDBOX, pod_of(WEB))
        await self.look(reconcile_loop, clock)
        await reconcile_loop.reconcile()
        assert bench.node.exists("/sys/fs/resctrl/koordlet-of-an-earlier-run")
        source.write_bytes(pod_list([WEB]))
        await self.look(reconcile_loop, clock)
        await reconcile_loop.reconcile()
        assert not bench.node.exists("/sys/fs/resctrl/koordlet-of-an-earlier-run")


@contextmanager
def rounds(node: ManagedNode) -> Iterator[asyncio.Queue[None]]:
    """Something in the queue for every round that ended."""
    ended: asyncio.Queue[None] = asyncio.Queue()
    tell = node.reconcile_loop._on_result

    def told(done: object) -> None:
        tell(done)  # type: ignore[arg-type]
        ended.put_nowait(None)

    node.reconcile_loop._on_result = told
    yield ended


class TestTheLoop:
    async def test_what_is_told_starts_a_round_at_once(self, keep: Keep) -> None:
        bench = Bench(JOB)
        node = keep(bench.node, "batchresource")
        with rounds(node) as ended:
            async with running(node.reconcile_loop):
                await ended.get()
                node.reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(JOB))
                await ended.get()
        assert bench.read(QUOTA) == "50000 100000"

    async def test_a_defect_ends_neither_the_loop_nor_koordlet(
        self, keep: Keep, monkeypatch: pytest.MonkeyPatch, words: Callable[..., Words]
    ) -> None:
        node = keep(Bench(JOB).node)
        node.reconcile_loop._interval = 0.001
        level, defects = node.reconcile_loop._reconciler.reconcile_all, [KeyError("defect")]

        def defective(*given: object, **named: object) -> object:
            if defects:
                raise defects.pop()
            return level(*given, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(node.reconcile_loop._reconciler, "reconcile_all", defective)
        with rounds(node) as ended:
            async with running(node.reconcile_loop):
                await ended.get()
        assert words("round failed") == [("round failed", {"reason": "KeyError: 'defect'"})]

    async def test_a_defect_does_not_end_the_list_either(
        self, keep: Keep, monkeypatch: pytest.MonkeyPatch, words: Callable[..., Words]
    ) -> None:
        reconcile_loop = keep(
            Bench(JOB).node, pod_list_source="/none", kubelet_sync_interval=0.001
        ).reconcile_loop
        defects = [KeyError("defect")]

        async def fetch(_: object) -> bytes:
            if defects:
                raise defects.pop()
            return pod_list([JOB])

        monkeypatch.setattr(PodFile, "pods", fetch)
        async with running(reconcile_loop.pods), asyncio.timeout(PATIENCE):
            while names(reconcile_loop) != {"job"}:
                await asyncio.sleep(0.01)
        [(_, said)] = words("list of pods failed")
        assert said == {"reason": "KeyError: 'defect'"}

    async def test_otherwise_there_is_one_at_an_interval(self, keep: Keep) -> None:
        node = keep(Bench(JOB).node)
        node.reconcile_loop._interval = 0.001
        with rounds(node) as ended:
            async with running(node.reconcile_loop):
                for _ in range(3):
                    await ended.get()

    async def test_an_update_is_looked_at_again_when_the_runtime_is_through(
        self, keep: Keep, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(keeper_module, "_UPDATE_SECONDS", 0.0)
        bench = Bench(JOB)
        node = keep(bench.node, "batchresource")
        node.reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(JOB))
        with rounds(node) as ended:
            async with running(node.reconcile_loop):
                await ended.get()
                bench.node.write(f"/sys/fs/cgroup/{QUOTA}", "max 100000")
                node.reconcile_loop.saw(Stage.PRE_UPDATE_CONTAINER_RESOURCES, main_of(JOB))
                await ended.get()
        assert bench.read(QUOTA) == "50000 100000"

    async def test_the_last_thing_is_done_by_the_writer(self, keep: Keep) -> None:
        done: list[str] = []
        reconcile_loop = keep(Bench().node).reconcile_loop
        await reconcile_loop.finish(lambda: done.append("let go"))
        assert done == ["let go"]


async def test_what_is_wrong_is_told_once_not_each_round(
    keep: Keep, tmp_path: Path, words: Callable[..., Words]
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text("a: [")
    broken = replace(JOB, annotations={keys.ANNOTATION_EXTENDED_RESOURCE_SPEC: "{"})
    bench = Bench(broken)
    bench.node.cgroups.refusals[f"/sys/fs/cgroup/{WEB.group(LAYOUT)}/cpu.idle"] = 1
    bench.start(WEB)
    reconcile_loop = keep(
        bench.node, "all", nodeslo_file=str(rules), resource_force_update_seconds=0
    ).reconcile_loop
    for spec in (broken, WEB):
        reconcile_loop.saw(Stage.POST_START_CONTAINER, main_of(spec))
    for _ in range(3):
        await reconcile_loop.reconcile()
    told = [json.dumps(one) for one in words("rules", "field ignored", "not written")]
    assert len(told) == len(set(told)) == 2
