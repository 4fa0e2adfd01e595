"""The whole loop: usage, NodeMetric, batch resources, webhook, pod, hook, cgroup, suppression.

Manager, koordlet, runtime proxy and containerd are real, and so are pods, their load and their
cgroups (v1). Amounts are reckoned here anew from what koordlet reports; nothing is judged by how
long it takes, and where the machine is too busy to offer anything that is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from koord_kube.protocol.api import ApiError, Object
from koord_kube.protocol.resources import (
    API_SERVICES,
    COLOCATION_PROFILES,
    NODE_METRICS,
    NODE_SLOS,
    PODS,
    SERVED_NODE_METRICS,
)
from koord_model.keys import (
    ANNOTATION_BATCH_WHY,
    ANNOTATION_EXTENDED_RESOURCE_SPEC,
    BATCH_CPU,
    BATCH_MEMORY,
    LABEL_QOS,
)
from koord_model.quantity import milli

from tests.support import kubepods, stress_ng
from tests.support.batch_terms import Terms, explained, in_short, reckoned, used
from tests.support.certificates import HAVE_OPENSSL
from tests.support.colocated_node import (
    NAME,
    RESERVED,
    ColocatedNode,
    colocated_node,
)
from tests.support.colocation import COLOCATION, MARGIN, PERIOD, PROFILE, QUOTA, plain
from tests.support.containerd import Containerd, why_not
from tests.support.kubepods import Kubepods
from tests.support.pod_running import BoundPod, DoesNotFitError
from tests.support.processes import PATIENCE
from tests.support.waiting import until

_WHY_NOT = (
    kubepods.why_not()
    or why_not()
    or stress_ng.why_not()
    or (None if HAVE_OPENSSL else "not installed: openssl")
)

pytestmark = [
    pytest.mark.quiet,
    pytest.mark.containerd,
    pytest.mark.skipif(_WHY_NOT is not None, reason=_WHY_NOT or "-"),
]

SUPPRESSION = {
    "enable": True,
    "cpuSuppressThresholdPercent": 100 - MARGIN["cpu"],
    "cpuSuppressPolicy": "cfsQuota",
}
BESTEFFORT = "kubepods/besteffort"
MUCH = 300
"""Millicores: so much more a burner of one core uses on any machine."""
ROOM = 400
"""Millicores: what a machine has to offer for anything to be seen."""
PATIENT = 4
"""How often it is tried to see something."""
A_WHILE = 30.0
"""Seconds in which a machine that is not busy lets it be seen."""
_BETWEEN = 0.2
"""Seconds between two looks: they are part of the load that is looked at."""


@pytest.fixture
def groups() -> Iterator[Kubepods]:
    with Kubepods() as made:
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short path: it holds sockets. What containers run is not root's."""
    with tempfile.TemporaryDirectory(prefix="pykoord-it-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


Report = Callable[[], Awaitable[Object]]


def in_object(node: ColocatedNode) -> Report:
    """The status of the NodeMetric that the API server keeps."""

    async def look() -> Object:
        try:
            return dict(node.api.get(NODE_METRICS, NAME).get("status") or {})
        except KeyError:
            return {}

    return look


def from_manager(node: ColocatedNode) -> Report:
    """The status of the NodeMetric that the manager serves behind the API server."""

    async def look() -> Object:
        try:
            return dict((await node.client.get(SERVED_NODE_METRICS, NAME)).get("status") or {})
        except ApiError:
            return {}

    return look


async def reported(report: Report, fits: Callable[[dict[str, int]], bool]) -> None:
    """Wait for a report whose pods use what fits."""

    async def look() -> bool:
        await asyncio.sleep(_BETWEEN)
        return fits(used(await report()))

    await until(look, "pods are reported")


async def agreed(
    node: ColocatedNode,
    report: Report,
    fits: Callable[[Terms], bool] = lambda _: True,
    *,
    seconds: float = A_WHILE,
) -> dict[str, Terms]:
    """Wait until the Node offers what a report makes it, says why, and ``fits`` its CPU.

    Where the first never is so the test fails after all: no other load explains that.
    """
    seen: list[object] = []
    alike = 0

    async def look() -> dict[str, Terms] | None:
        nonlocal alike
        await asyncio.sleep(_BETWEEN)
        status, there = await report(), node.node
        if not status.get("podsMetric"):
            return None
        terms = reckoned(status, there, MARGIN, RESERVED)
        why = explained(await asyncio.to_thread(node.manager.page, "/v1/why", node=NAME))
        offered = there["status"]["allocatable"]
        reported = there["metadata"].get("annotations", {}).get(ANNOTATION_BATCH_WHY, "")
        seen[:] = [terms, why, offered, reported]
        same = (
            why == terms
            and int(offered.get(BATCH_CPU, -1)) == terms["cpu"].amount
            and int(offered.get(BATCH_MEMORY, -1)) == terms["memory"].amount
            and reported == in_short(terms)
        )
        alike += same
        return terms if same and fits(terms["cpu"]) else None

    what = "report, Node and reasons agree"
    try:
        return await until(look, what, seconds=seconds) or {}
    except AssertionError:
        if alike:
            raise
    try:
        return await until(look, what) or {}
    except AssertionError:
        if not alike:
            pytest.fail(f"report, reasons and Node never agree: {seen}")
        raise


async def has_room(node: ColocatedNode, report: Report) -> dict[str, Terms]:
    """Wait for enough to be offered; where others need the machine there is nothing to see."""
    for _ in range(PATIENT):
        with contextlib.suppress(AssertionError):
            return await agreed(node, report, lambda cpu: cpu.amount >= ROOM)
    terms = await agreed(node, report, seconds=PATIENCE)
    skip_where_busy(terms["cpu"].kept)
    raise AssertionError(terms)


def production(name: str, cpu: str) -> Object:
    """A service that nobody has marked for anything but its class."""
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": {LABEL_QOS: "LS"}},
        "spec": {
            "priorityClassName": "koord-prod",
            "containers": [{"name": "main", "image": "stress", "resources": resources}],
        },
    }


async def create(node: ColocatedNode, pod: Object) -> Object:
    return await node.client.create(PODS, pod, "default")


async def run_production(node: ColocatedNode, report: Report) -> BoundPod:
    """A service that is busy, and one that is not yet, which is returned; both are reported."""
    load = ("--cpu", "1", "--cpu-load", "40")
    await node.run(await create(node, production("web", "500m")), *load)
    search = await node.run(await create(node, production("search", "1")), "--cpu", "1")
    await asyncio.to_thread(search.freeze)

    await reported(report, lambda cpu: cpu.get("web", 0) >= 200 and cpu.get("search", 1000) < 50)
    return search


async def colocated(node: ColocatedNode) -> Object:
    """A plain pod as it is once the manager knows of the profile."""
    await node.client.create(COLOCATION_PROFILES, PROFILE)

    async def mutated() -> Object | None:
        pod = await create(node, plain("crunch"))
        if LABEL_QOS in pod["metadata"]["labels"]:
            return pod
        await asyncio.sleep(_BETWEEN)
        node.api.delete(PODS, "crunch", "default")
        return None

    return await until(mutated, "a plain pod becomes a batch pod") or {}


def is_a_batch_pod(pod: Object) -> None:
    labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
    assert labels == {"team": "analytics", "colocated": "yes", LABEL_QOS: "BE"}
    spec = pod["spec"]
    assert (spec["priorityClassName"], spec["priority"]) == ("koord-batch", 5500)
    [container] = spec["containers"]
    assert container["resources"] == {
        "requests": {BATCH_CPU: "300", BATCH_MEMORY: "64Mi"},
        "limits": {BATCH_CPU: "1500", BATCH_MEMORY: "128Mi"},
    }
    reported = json.loads(annotations[ANNOTATION_EXTENDED_RESOURCE_SPEC])
    assert reported == {"containers": {"main": container["resources"]}}


async def has_its_cgroup(node: ColocatedNode, pod: BoundPod) -> None:
    """What batch resources mean to the kernel; to the kubelet the pod asks for nothing."""
    assert pod.group.startswith(f"{BESTEFFORT}/")
    expected = {
        "cpu.shares": 300 * 1024 // 1000,
        QUOTA: 1500 * PERIOD // 1000,
        "memory.limit_in_bytes": 128 << 20,
    }
    for group in (pod.container_group, pod.group):

        def seen(group: str = group) -> dict[str, int]:
            return node.read(group, *expected)

        with contextlib.suppress(AssertionError):
            await until(lambda seen=seen: seen() == expected)
        assert seen() == expected, group


async def scheduled(node: ColocatedNode, pod: Object, *stress: str) -> BoundPod:
    """Wait until the node has room for it, and run it there."""

    async def placed() -> BoundPod | None:
        with contextlib.suppress(DoesNotFitError):
            return await node.run(pod, *stress)
        await asyncio.sleep(_BETWEEN)
        return None

    found = await until(placed, "the node has room for a batch pod")
    assert found is not None
    return found


class Held(NamedTuple):
    """How best-effort pods are held down: millicores that others use, and the quota in µs."""

    others: int
    quota: int


async def held(
    node: ColocatedNode, fits: Callable[[Held], bool], *, seconds: float = A_WHILE
) -> Held:
    """Wait until koordlet has decided of a quota that fits, and the kernel has it."""
    seen: list[object] = []

    async def look() -> Held | None:
        await asyncio.sleep(_BETWEEN)
        numbers = await asyncio.to_thread(node.koordlet.decided, "cpu_suppress")
        quota = node.read(BESTEFFORT, QUOTA)[QUOTA]
        seen[:] = [quota, dict(numbers)]
        if not numbers.get("quota") == quota > 0:
            return None
        now = Held(round(numbers["non-BE pods"] * 1000), quota)
        return now if fits(now) else None

    try:
        found = await until(look, "best-effort pods are held down", seconds=seconds)
    except AssertionError:
        print(*seen)
        raise
    assert found is not None
    return found


async def test_the_whole_loop(containerd: Containerd, groups: Kubepods, folder: Path) -> None:
    async with colocated_node(folder, containerd, groups) as node:
        report = in_object(node)
        await node.configure(colocation_config=COLOCATION)
        await until(lambda: asked_to_report(node), "the manager makes a NodeMetric")
        await until(lambda: slo(node) == (False, "cpuset"), "the manager makes a NodeSLO")

        search = await run_production(node, report)
        calm = await has_room(node, report)
        print(f"\ncalm: {in_short(calm)}")
        assert calm["cpu"].high >= 200

        pod = await colocated(node)
        is_a_batch_pod(pod)
        with pytest.raises(DoesNotFitError, match=BATCH_CPU):
            await node.run(await create(node, plain("too-large", cpu="1500m")))
        crunch = await scheduled(node, pod, "--cpu", "2")
        await has_its_cgroup(node, crunch)
        await reported(report, lambda cpu: cpu.get("crunch", 0) > 0)

        await node.configure(resource_threshold_config={"clusterStrategy": SUPPRESSION})
        await until(lambda: slo(node) == (True, "cfsQuota"), "the NodeSLO follows")
        await held(node, lambda now: now.others > 0, seconds=PATIENCE)
        assert "non-BE pods" in await asyncio.to_thread(node.koordlet.koordctl_why, "suppress")
        await unless_hidden(lambda: up_and_down(node, report, search), report, search)
        await finishes(node)


async def up_and_down(node: ColocatedNode, report: Report, search: BoundPod) -> None:
    """Production needs more, and less again: batch pods are offered and left less, and more."""
    calm = await has_room(node, report)
    wide = await held(
        node,
        lambda now: (
            now.others <= calm["cpu"].high + MUCH // 2 and now.quota > MUCH * PERIOD // 1000
        ),
    )
    busy = await rises(node, report, search, calm)
    narrow = await held(
        node, lambda now: now.others >= wide.others + MUCH and now.quota < wide.quota
    )
    print(f"calm: {in_short(calm)}\nbusy: {in_short(busy)}\n{wide}, {narrow} when busy")
    await asyncio.to_thread(search.freeze)
    again = await agreed(
        node,
        report,
        lambda cpu: cpu.high <= busy["cpu"].high - MUCH and cpu.amount > busy["cpu"].amount,
    )
    print(f"calm again: {in_short(again)}")


async def rises(
    node: ColocatedNode, report: Report, search: BoundPod, calm: dict[str, Terms]
) -> dict[str, Terms]:
    """Let production need more; what the node offers is less by that, as ``agreed`` sees to."""
    await asyncio.to_thread(search.thaw)
    return await agreed(
        node,
        report,
        lambda cpu: cpu.high >= calm["cpu"].high + MUCH and cpu.amount < calm["cpu"].amount,
    )


async def unless_hidden(
    attempt: Callable[[], Awaitable[None]], report: Report, search: BoundPod
) -> None:
    """Others' load that changes by as much at the same time hides what is looked for."""
    for _ in range(PATIENT - 1):
        with contextlib.suppress(AssertionError):
            return await attempt()
        await asyncio.to_thread(search.freeze)
    try:
        await attempt()
    except AssertionError:
        skip_where_busy(milli((await report())["nodeMetric"]["systemUsage"]["resources"]["cpu"]))
        raise


def skip_where_busy(system: int) -> None:
    """Skip where so many millicores of the system's are too many to see anything."""
    if system > ROOM:
        pytest.skip(f"{system / 1000} cores are busy with something else")


def asked_to_report(node: ColocatedNode) -> bool:
    """Whether the NodeMetric asks of koordlet what the configuration says."""
    try:
        policy = node.api.get(NODE_METRICS, NAME)["spec"]["metricCollectPolicy"]
    except KeyError:
        return False
    return (policy["reportIntervalSeconds"], policy["aggregateDurationSeconds"]) == (2, 4)


def slo(node: ColocatedNode) -> tuple[bool, str] | None:
    """Of the NodeSLO whether, and how, best-effort pods are to be held down."""
    try:
        spec = node.api.get(NODE_SLOS, NAME)["spec"]["resourceUsedThresholdWithBE"]
    except KeyError:
        return None
    return spec["enable"], spec["cpuSuppressPolicy"]


async def finishes(node: ColocatedNode) -> None:
    """End the programs, and see that none found a defect in itself."""
    for program in (node.koordlet, node.manager):
        assert await asyncio.to_thread(program.stop) == 0
        said = program.said
        assert "Traceback" not in said, said[-3000:]
        assert [one for one in program.events() if one["level"] == "error"] == []


async def test_reports_go_straight_to_the_manager(
    containerd: Containerd, groups: Kubepods, folder: Path
) -> None:
    async with colocated_node(folder, containerd, groups, direct=True) as node:
        report = from_manager(node)
        await node.configure(colocation_config=COLOCATION)
        await until(lambda: asked_to_report(node), "the manager makes a NodeMetric")
        search = await run_production(node, report)

        async def less() -> None:
            calm = await has_room(node, report)
            busy = await rises(node, report, search, calm)
            print(f"\ncalm: {in_short(calm)}\nbusy: {in_short(busy)}")

        await unless_hidden(less, report, search)
        found = [one for key, one in node.api.objects.items() if key.resource == API_SERVICES]
        assert [one["spec"]["group"] for one in found] == [SERVED_NODE_METRICS.group]
        assert not node.api.get(NODE_METRICS, NAME).get("status")
        await finishes(node)
