"""The pods that may burst, as their cgroups and specifications have them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from koord_model.cpu_burst import BurstPolicy, CPUBurst
from koord_model.keys import ANNOTATION_CPU_BURST
from koord_model.qos import KubeQoS, QoSClass
from koordlet.qos_manager.core.strategy import PodView
from koordlet.qos_manager.strategies.cpu_burst.burst_pods import (
    PERIOD,
    QUOTA,
    BurstPod,
    _plausible,
    looked_at,
    may_burst,
)

from tests.support.views import STEADY, FakeCgroups, pod_view, view

NODE = CPUBurst(BurstPolicy.AUTO)
POD = pod_view(containers={"a": ({}, {"cpu": 1000}), "b": ({}, {"cpu": 500})})
A, B = (one.group for one in POD.containers)
CGROUPS = {(POD.group, QUOTA): 150_000, (A, QUOTA): 100_000, (B, QUOTA): 50_000}


def look(
    cgroups: FakeCgroups,
    pod: PodView = POD,
    node: CPUBurst = NODE,
    known: BurstPod | None = None,
    steady: float = STEADY,
) -> BurstPod:
    return looked_at(view(pods=(pod,), cgroups=cgroups, steady=steady), pod, node, known)


def values(pod: BurstPod) -> list[int]:
    return [one.quota for one in pod.quotas]


def test_which_pods_may_burst() -> None:
    classes = {one.value or "none": may_burst(pod_view(qos=one)) for one in QoSClass}
    exclusive = dict.fromkeys(("LSE", "LSR", "BE"), False)
    assert classes == dict.fromkeys(("LS", "SYSTEM", "none"), True) | exclusive
    assert may_burst(pod_view(kube=KubeQoS.GUARANTEED))
    assert may_burst(pod_view(listed=False))
    assert may_burst(pod_view(phase="Pending"))
    assert not may_burst(pod_view(phase="Succeeded"))
    assert not may_burst(pod_view(runtime_handler="kata-qemu"))


def test_quotas_are_what_hooks_want_or_what_was_found() -> None:
    found = look(FakeCgroups(CGROUPS | {(A, QUOTA): 200_000}, {(A, QUOTA): 80_000}))
    assert [(one.base, one.quota, one.limit) for one in found.quotas] == [
        (80_000, 200_000, 1000),
        (50_000, 50_000, 500),
    ]
    assert (found.base, found.period) == (150_000, 100_000)
    found = look(FakeCgroups(CGROUPS | {(A, PERIOD): 20_000, (POD.group, PERIOD): 50_000}))
    assert (found.period, [one.period for one in found.quotas]) == (50_000, [20_000, 100_000])


@pytest.mark.parametrize(
    ("policy", "now", "expected"),
    [
        (BurstPolicy.AUTO, {A: 900_000, B: 10_000}, [300_000, 50_000]),
        (BurstPolicy.AUTO, {A: -1}, [100_000, 50_000]),
        (BurstPolicy.CPU_BURST, {A: 900_000}, [100_000, 50_000]),
    ],
)
def test_after_a_restart_nothing_is_above_the_ceiling_or_below_the_base(
    policy: BurstPolicy, now: dict[str, int], expected: list[int]
) -> None:
    base = {(A, QUOTA): 100_000, (B, QUOTA): 50_000}
    cgroups = FakeCgroups(CGROUPS | {(group, QUOTA): one for group, one in now.items()}, base)
    assert values(look(cgroups, node=replace(NODE, policy=policy))) == expected


@pytest.mark.parametrize("quota", [-1, 0, None, "max"])
def test_what_has_no_quota_is_left_out(quota: int | str | None) -> None:
    found = look(FakeCgroups(CGROUPS | {(A, QUOTA): quota}))  # type: ignore[dict-item]
    assert [one.of.group for one in found.quotas] == [B]


def test_the_annotation_counts_more_than_the_node() -> None:
    pod = pod_view(annotations={ANNOTATION_CPU_BURST: '{"policy": "auto", "cpuBurstPercent": 0}'})
    found = look(FakeCgroups(), pod, CPUBurst())
    assert found.asked == NODE
    [note] = found.notes
    assert (note.pod, note.aspect) == ("ns/web", "annotation 0")
    assert "cpuBurstPercent" in note.outcome
    off = pod_view(annotations={ANNOTATION_CPU_BURST: '{"policy": "none"}'})
    cgroups = FakeCgroups({(off.containers[0].group, QUOTA): 100_000})
    found = look(cgroups, off)
    assert (found.quotas, found.due, cgroups.reads) == ((), float("inf"), 0)


def test_raised_quotas_stay_and_are_looked_at_in_turns() -> None:
    cgroups = FakeCgroups(CGROUPS)
    first = look(cgroups)
    assert STEADY + 5 <= first.due < STEADY + 10
    raised = first._replace(quotas=tuple(one._replace(quota=99_000) for one in first.quotas))
    assert values(look(cgroups, known=raised)) == [100_000, 99_000]


@pytest.mark.parametrize("base", [30_000, 200_000])
def test_what_the_kubelet_sets_is_the_base_before_its_list_says_so(base: int) -> None:
    first = look(FakeCgroups(CGROUPS))
    raised = first._replace(quotas=tuple(one._replace(quota=120_000) for one in first.quotas))
    resized = FakeCgroups(CGROUPS, {(A, QUOTA): base})
    found = look(resized, known=raised, steady=STEADY + 9)
    assert values(found) == [base, 50_000]
    assert {one.rest_until for one in found.quotas} == {STEADY + 39}
    again = look(resized, known=found, steady=STEADY + 12)
    assert values(again) == [base, 50_000]
    assert {one.rest_until for one in again.quotas} == {STEADY + 39}


def test_another_limit_begins_anew_and_gives_its_writer_time() -> None:
    first = look(FakeCgroups(CGROUPS))
    raised = first._replace(quotas=tuple(one._replace(quota=120_000) for one in first.quotas))
    resized = pod_view(containers={"a": ({}, {"cpu": 2000}), "b": ({}, {"cpu": 500})})
    found = look(FakeCgroups(CGROUPS), resized, known=raised, steady=STEADY + 9)
    assert values(found) == [100_000, 50_000]
    assert {one.rest_until for one in found.quotas} == {STEADY + 39}
    unlisted = pod_view(containers=("a", "b"), listed=False)
    again = look(FakeCgroups(CGROUPS), unlisted, known=found, steady=STEADY + 12)
    assert [one.limit for one in again.quotas] == [2000, 500]
    assert again.quotas[0].rest_until == STEADY + 39


@pytest.mark.parametrize(
    ("base", "limit", "ratio", "expected"),
    [
        (100_000, 1000, 1.0, 100_000),
        (300_000, 1000, 1.0, 100_000),  # raised by an earlier, forgotten run
        (50_000, 1000, 2.0, 50_000),  # hooks' quota on a faster CPU
        (200_000, 1000, 0.5, 200_000),  # and on a slower one
        (300_000, 0, 1.0, 300_000),  # no limit is known
        (1000, 3, 1.0, 1000),  # the kubelet's least
    ],
)
def test_a_base_is_never_more_than_the_limit_means(
    base: int, limit: int, ratio: float, expected: int
) -> None:
    assert _plausible(base, limit, 100_000, ratio) == expected
