"""The pods that run: by the kubelet's list, hook calls, NRI, a restart, and their cgroups."""

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from koord_hooks.stages import Stage
from koordlet.states_informer import pod_informer
from koordlet.states_informer.pod_informer import PodInformer
from koordlet.states_informer.pod_snapshot import PodSnapshot
from koordlet.states_informer.pod_source import PodListPendingError

from tests.support.node import NodeFixture
from tests.support.node.pods import JOB, WEB, PodSpec, pod_list
from tests.support.processes import PATIENCE

BOTH = pod_list([JOB, WEB])
FAILED, WORKS = "cannot list pods, keeping the known ones", "listing pods works again"


class Source:
    """Answers with ``answer``; raises it, or calls it, if it is such a thing."""

    name = "the list"

    def __init__(self) -> None:
        self.answer: object = BOTH
        self.closed = False

    async def pods(self) -> bytes:
        found = self.answer() if callable(self.answer) else self.answer
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, bytes)
        return found

    async def close(self) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def pods(node: NodeFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    node.start(JOB, WEB)
    monkeypatch.setattr(pod_informer, "time", SimpleNamespace(monotonic=lambda: node.steady))


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def alone(node: NodeFixture) -> PodInformer:
    """Without a list."""
    return PodInformer(node.layout, node.files)


@pytest.fixture
def listed(node: NodeFixture, source: Source) -> PodInformer:
    return PodInformer(node.layout, node.files, source=source)


def names(informer: PodInformer) -> set[str]:
    return {record.pod.name for record in informer.inventory.records()}


async def look(node: NodeFixture, informer: PodInformer) -> set[str]:
    node.steady += 11
    await informer.sync()
    return names(informer)


# ---- events

RUN, STOP_POD, REMOVE_POD = (
    Stage.PRE_RUN_POD_SANDBOX,
    Stage.POST_STOP_POD_SANDBOX,
    Stage.PRE_REMOVE_POD_SANDBOX,
)
START, STOP = Stage.POST_START_CONTAINER, Stage.POST_STOP_CONTAINER


@pytest.mark.parametrize(
    ("stages", "known"),
    [
        pytest.param([Stage.PRE_CREATE_CONTAINER], set(), id="not yet created"),
        pytest.param([Stage.PRE_START_CONTAINER], set(), id="not yet started"),
        pytest.param([RUN], {"job"}, id="a sandbox"),
        pytest.param([START], {"job"}, id="a container"),
        pytest.param([Stage.PRE_UPDATE_CONTAINER_RESOURCES], {"job"}, id="an update"),
        pytest.param([RUN, STOP_POD], set(), id="a sandbox that ended"),
        pytest.param([START, STOP, STOP_POD], set(), id="a pod that ended"),
        # The kubelet does both to a sandbox that it has long replaced.
        pytest.param([RUN, START, STOP_POD, REMOVE_POD], {"job"}, id="an earlier sandbox"),
    ],
)
def test_events(node, alone, stages, known):
    for stage in stages:
        of_pod = stage in (RUN, STOP_POD, REMOVE_POD)
        reported = alone.saw(stage, (JOB.pod if of_pod else JOB.container)(node.layout))
    assert names(alone) == known
    assert reported is bool(known or len(stages) > 1)


def test_a_container_without_an_id_is_ignored(node, alone):
    assert not alone.saw(START, replace(JOB.container(node.layout), id=""))
    assert names(alone) == set()


@pytest.mark.parametrize(("of", "known"), [("alone", {"job"}), ("listed", {"job", "web"})])
def test_nri_lists_all_and_beside_a_list_only_adds(node, request, of, known):
    informer = request.getfixturevalue(of)
    informer.saw(RUN, WEB.pod(node.layout))
    node.steady += 1
    informer.synchronize([JOB.pod(node.layout)], [JOB.container(node.layout)])
    assert names(informer) == known
    assert informer.complete is (of == "alone")


# ---- cgroups


def test_without_a_list_what_has_no_cgroup_for_a_minute_has_ended(node, alone):
    for spec in (JOB, WEB):
        alone.saw(START, spec.container(node.layout))
    alone.saw(START, replace(WEB.container(node.layout), id="web-crashed"))
    node.files.remove_group(JOB.group(node.layout))
    alone.drop_vanished()
    assert names(alone) == {"job", "web"}
    node.steady += 61
    alone.drop_vanished()
    [record] = alone.inventory.records()
    assert list(record.containers) == ["web-main"]


async def test_where_the_list_fails_too(node, listed, source):
    await look(node, listed)
    node.files.remove_group(JOB.group(node.layout))
    node.steady += 61
    listed.drop_vanished()
    assert names(listed) == {"job", "web"}, "the list says so"
    source.answer = OSError("away")
    await look(node, listed)
    listed.drop_vanished()
    assert names(listed) == {"web"}


def test_after_a_restart_those_with_a_cgroup_are_known(node, alone):
    snapshot = PodSnapshot(str(node.directory / "pods.json"), "b1", print)
    before = PodInformer(node.layout, node.files, remembered=snapshot)
    for spec in (JOB, WEB):
        before.saw(START, spec.container(node.layout))
    before.keep(before.inventory.records())
    node.files.remove_group(JOB.group(node.layout))
    assert names(PodInformer(node.layout, node.files, remembered=snapshot)) == {"web"}


# ---- lists that lack pods that run

STATIC = PodSpec("static", annotations={"kubernetes.io/config.source": "file"})
LACKS = "the list lacks pods that run: "


async def test_a_kubelet_that_lists_its_static_pods_alone_ends_no_others(
    node, listed, source, words, caplog
):
    caplog.set_level("INFO", "pykoord")
    source.answer = pod_list([STATIC, JOB, WEB])
    await look(node, listed)
    assert (listed.complete, listed.fresh, listed.problem) == (True, True, "")
    source.answer = pod_list([STATIC])
    for _ in range(30):
        assert await look(node, listed) == {"static", "job", "web"}
        listed.drop_vanished()
    assert (listed.complete, listed.fresh) == (True, False), "what runs is known, and evicts nobody"
    assert listed.problem == LACKS + "shop/job, shop/web"
    node.files.remove_group(JOB.group(node.layout))
    assert await look(node, listed) == {"static", "web"}, "this one has ended meanwhile"
    source.answer = pod_list([STATIC, WEB])
    assert await look(node, listed) == {"static", "web"}
    assert (listed.complete, listed.fresh, listed.problem) == (True, True, "")
    assert [event for event, _ in words(FAILED, WORKS)] == [FAILED, WORKS]


async def test_an_empty_list_counts_where_nothing_runs(node, listed, source):
    source.answer = b'{"items": null}'
    await look(node, listed)
    assert (listed.known, listed.fresh) == (False, False), "a kubelet that has just started"
    for spec in (JOB, WEB):
        node.files.remove_group(spec.group(node.layout))
    assert await look(node, listed) == set()
    assert (listed.known, listed.fresh, listed.problem) == (True, True, "")


async def test_nor_after_a_restart_of_koordlet_that_knows_no_others(node, listed, source):
    source.answer = pod_list([STATIC])
    for _ in range(30):
        assert await look(node, listed) == {"static"}
        assert (listed.known, listed.fresh) == (False, False), "whose CPUs are their own"
    groups = [spec.group(node.layout) for spec in (JOB, WEB)]
    assert listed.problem == LACKS + ", ".join(groups)
    source.answer = pod_list([STATIC, JOB, WEB])
    await look(node, listed)
    assert (listed.known, listed.fresh) == (True, True)


async def test_a_koordlet_that_restarts_meanwhile_remembers_the_others(node, source):
    snapshot = PodSnapshot(str(node.directory / "pods.json"), "b1", print)
    before = PodInformer(node.layout, node.files, source=source, remembered=snapshot)
    await before.sync()
    before.keep(before.inventory.records())
    after = PodInformer(node.layout, node.files, source=source, remembered=snapshot)
    assert not after.known
    source.answer = OSError("refused")
    assert await look(node, after) == {"job", "web"}
    assert (after.known, after.fresh) == (True, False), "nothing else runs"
    source.answer = pod_list([STATIC])
    assert await look(node, after) == {"static", "job", "web"}
    assert (after.known, after.fresh) == (True, False)
    assert before.inventory.get(JOB.uid) == after.inventory.get(JOB.uid)


async def test_a_pod_that_nobody_names_makes_a_list_incomplete_for_a_minute(node, listed, source):
    """The kubelet is adding the pods of its first list; or it is a leftover of another's."""
    source.answer = pod_list([WEB])
    await look(node, listed)
    assert (listed.known, listed.fresh) == (False, False)
    node.steady += 60
    await look(node, listed)
    assert (listed.known, listed.fresh, listed.problem) == (True, True, "")
    assert names(listed) == {"web"}


async def test_a_real_removal_counts_when_the_processes_have_ended(node, listed, source):
    await look(node, listed)
    source.answer = pod_list([WEB])
    assert await look(node, listed) == {"job", "web"}, "deleted by force, and still running"
    assert (listed.known, listed.fresh, listed.problem) == (True, True, "")
    node.files.end_processes(JOB.group(node.layout))
    assert await look(node, listed) == {"job", "web"}, "its group is there"
    node.steady += 60
    assert await look(node, listed) == {"web"}, "an empty group that nobody removes"


async def test_containers_run_on_while_a_status_does_not_name_them(node, listed, source):
    await look(node, listed)
    bare = json.loads(pod_list([JOB, WEB]))
    for item in bare["items"]:
        item["status"] = {}
    source.answer = json.dumps(bare).encode()
    await look(node, listed)
    assert all(record.containers for record in listed.inventory.records())


def test_nri_lists_sandboxes_that_have_ended_beside_those_that_replaced_them(node, alone):
    old, new = JOB.pod(node.layout, ip="1"), JOB.pod(node.layout, ip="2")
    container = replace(JOB.container(node.layout), pod=new)
    ended = replace(WEB.pod(node.layout), uid="gone", cgroup_parent="/kubepods/podgone")
    for pods in ([old, new, ended], [new, old, ended]):
        alone.synchronize(pods, [container])
        [record] = alone.inventory.records()
        assert (record.pod.name, record.pod.ip) == ("job", "2")


# ---- the list


async def test_the_list_says_who_runs_at_its_interval(node, listed, source):
    changes: list[int] = []
    listed.changed = lambda: changes.append(1)
    assert await look(node, listed) == {"job", "web"}
    source.answer = pod_list([WEB])
    node.files.remove_group(JOB.group(node.layout))
    await listed.sync()
    assert names(listed) == {"job", "web"}, "not due yet"
    assert await look(node, listed) == {"web"}
    assert len(changes) == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "the list is not a pod list: Input data was truncated"),
        (b"{}", "the list is not a pod list: it has no items"),
        (b'{"items": 7}', "the list is not a pod list: Expected `array | null`"),
        (BOTH[:-9], "the list is not a pod list"),
        (OSError("/pods: No such file"), "/pods: No such file"),
    ],
)
async def test_without_a_list_the_known_pods_stay_and_the_reason_is_logged_once(
    node, listed, source, words, answer, reason
):
    await look(node, listed)
    source.answer = answer
    for _ in range(3):
        assert await look(node, listed) == {"job", "web"}
    [(_, fields)] = words(FAILED)
    assert fields["reason"].startswith(reason)
    assert listed.problem == fields["reason"]


async def test_it_is_logged_when_the_list_works_again_and_when_it_fails_again(
    node, listed, source, words, caplog
):
    caplog.set_level("INFO", "pykoord")
    await look(node, listed)
    for source.answer in (b"", BOTH, b""):
        await look(node, listed)
    assert [event for event, _ in words(FAILED, WORKS)] == [FAILED, WORKS, FAILED]


async def test_a_list_that_is_pending_is_not_logged(node, listed, source, words):
    source.answer = PodListPendingError("the Node is not known yet")
    await look(node, listed)
    assert listed.problem == "the Node is not known yet"
    source.answer = BOTH
    assert await look(node, listed) == {"job", "web"}
    assert listed.problem == ""
    assert words(FAILED, WORKS) == []


@pytest.mark.parametrize(("interval", "seconds"), [(10.0, 60), (30.0, 90)])
async def test_a_list_is_old_after_a_minute_or_three_intervals(node, source, interval, seconds):
    listed = PodInformer(node.layout, node.files, source=source, interval=interval)
    assert (listed.known, listed.fresh) == (False, False)
    await listed.sync()
    source.answer = OSError("away")
    node.steady += seconds
    await listed.sync()
    assert (listed.known, listed.fresh) == (True, True)
    node.steady += 1
    assert (listed.known, listed.fresh) == (True, False)
    source.answer = BOTH
    node.steady += interval
    await listed.sync()
    assert listed.fresh


def test_without_a_list_nothing_is_old(alone):
    assert (alone.known, alone.fresh) == (True, True)


async def test_a_pod_is_found_once_a_list_has_its_demand(node, alone, listed, monkeypatch):
    with pytest.raises(LookupError, match="no list of pods"):
        await alone.find(JOB.uid)
    monkeypatch.setattr(pod_informer, "_LEAST_SECONDS", 0.0)
    listed.saw(RUN, JOB.pod(node.layout))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(listed.run())
        first, second = await asyncio.gather(listed.find(JOB.uid), listed.find(WEB.uid))
        task.cancel()
    assert (first.pod.name, second.pod.name) == ("job", "web")
    assert first.demand is not None


async def test_a_pod_that_starts_while_the_list_is_fetched_stays(node, listed, source):
    def fetch() -> bytes:
        node.steady += 1
        listed.saw(RUN, JOB.pod(node.layout))
        return pod_list([WEB])

    source.answer = fetch
    assert await look(node, listed) == {"job", "web"}


@pytest.mark.parametrize("of", ["alone", "listed"])
async def test_the_loop_looks_for_both_and_survives_a_defect(node, request, source, words, of):
    informer: PodInformer = request.getfixturevalue(of)
    informer._interval = 0.001
    informer.saw(START, JOB.container(node.layout))
    node.files.remove_group(JOB.group(node.layout))
    answers = iter([KeyError("defect")])

    def fetch() -> object:
        node.steady += 1
        return next(answers, pod_list([WEB]))

    source.answer = fetch
    node.steady += 61
    informer.saw(START, WEB.container(node.layout))
    async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as group:
        task = group.create_task(informer.run())
        while names(informer) != {"web"}:
            await asyncio.sleep(0.01)
        task.cancel()
    assert source.closed is (of == "listed")
    said = [fields["reason"] for _, fields in words("list of pods failed")]
    assert said == (["KeyError: 'defect'"] if of == "listed" else [])
