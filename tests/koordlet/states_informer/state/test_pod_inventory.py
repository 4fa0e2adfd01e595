from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.demand import Demand
from koord_model.pod import Container, Pod, runs_in_vm
from koord_model.resources import LinuxResources
from koordlet.states_informer.state.pod_inventory import PodInventory, PodRecord, Presence

POD = Pod("web-1", "shop", "u1", cgroup_parent="kubepods/podu1")
MAIN = Container(POD, "main", "c1")


def test_a_pod_reported_is_there_until_it_ends() -> None:
    inventory = PodInventory()
    inventory.saw_pod(POD, 1.0)
    assert inventory.records() == (PodRecord(POD),)
    inventory.lost_pod("u1")
    assert inventory.records() == ()
    inventory.lost_pod("u1")


def test_a_container_brings_its_pod() -> None:
    inventory = PodInventory()
    inventory.saw_container(MAIN, 1.0)
    assert inventory.get("u1") == PodRecord(POD, {"c1": MAIN})
    inventory.lost_container("u1", "c1", 2.0)
    assert inventory.get("u1") == PodRecord(POD)


def test_a_container_gets_the_pod_that_is_known() -> None:
    inventory = PodInventory()
    full = replace(POD, runtime_handler="kata")
    inventory.saw_pod(full, 1.0)
    record = inventory.saw_container(MAIN, 2.0)
    assert record.containers["c1"].pod.runtime_handler == "kata"


def test_a_new_word_on_a_pod_keeps_its_containers() -> None:
    inventory = PodInventory()
    inventory.saw_container(MAIN, 1.0)
    news = replace(POD, labels={"a": "b"})
    assert inventory.saw_pod(news, 2.0).containers == {"c1": replace(MAIN, pod=news)}


def test_the_list_has_the_last_word_but_for_what_came_after_it_was_asked_for() -> None:
    inventory = PodInventory()
    inventory.saw_pod(POD, 1.0)
    late = replace(POD, uid="u2")
    inventory.saw_pod(late, 3.0)
    inventory.replace([PodRecord(replace(POD, uid="u3"))], asked_at=2.0)
    assert {record.pod.uid for record in inventory.records()} == {"u2", "u3"}
    inventory.replace([PodRecord(replace(POD, uid="u3"))], asked_at=4.0)
    assert {record.pod.uid for record in inventory.records()} == {"u3"}


@pytest.mark.parametrize(("quota", "whole"), [(200_000, None), (100_000, 100_000), (None, 100_000)])
def test_what_a_pod_has_is_not_known_from_a_resize_on_until_a_list(
    quota: int | None, whole: int | None
) -> None:
    inventory = PodInventory()
    given = LinuxResources(cpu_quota=100_000)
    listed = PodRecord(replace(POD, resources=given), {"c1": replace(MAIN, resources=given)})
    inventory.replace([listed], 1.0)
    updated = replace(MAIN, resources=LinuxResources(cpu_quota=quota))
    assert inventory.saw_container(updated, 2.0).pod.resources.cpu_quota == whole


def test_what_says_the_same_stays_the_same_object() -> None:
    inventory = PodInventory()
    inventory.replace([PodRecord(POD, {"c1": MAIN})], 1.0)
    [before] = inventory.records()
    inventory.replace([PodRecord(replace(POD), {"c1": replace(MAIN)})], 2.0)
    assert inventory.records()[0] is before
    assert inventory.saw_container(replace(MAIN), 3.0) is before


def test_the_age_is_that_of_the_latest_word() -> None:
    inventory = PodInventory()
    record = inventory.saw_pod(POD, 1.0)
    assert inventory.age(record, 4.0) == 3.0
    assert inventory.age(PodRecord(replace(POD, uid="other")), 4.0) == float("inf")


# ---- which statement counts


def listed(pod: Pod = POD, quota: int | None = None, **more: object) -> PodRecord:
    limits = LinuxResources(cpu_quota=quota)
    containers = {"c1": replace(MAIN, pod=pod, resources=limits)}
    pod = replace(pod, resources=limits)
    return replace(PodRecord(pod, containers, demand=Demand()), **more)  # type: ignore[arg-type]


def quotas(inventory: PodInventory) -> tuple[int | None, int | None]:
    [record] = inventory.records()
    [container] = record.containers.values()
    return record.pod.resources.cpu_quota, container.resources.cpu_quota


def test_the_runtime_knows_the_handler_and_the_cgroup_and_the_list_all_else() -> None:
    parent = "kubelet/kubepods/podu1"
    reported = replace(
        POD, labels={"old": ""}, cgroup_parent=parent, runtime_handler="kata-qemu", ip="1"
    )
    known = replace(POD, labels={"new": ""}, runtime_class="secure", ip="2")
    for first in (0, 1):
        inventory = PodInventory()
        for step in (first, 1 - first):
            if step:
                inventory.replace([PodRecord(known)], 2.0)
            else:
                inventory.saw_pod(reported, 1.0)
        [record] = inventory.records()
        assert record.pod == replace(
            known, cgroup_parent=parent, runtime_handler="kata-qemu", runtime_class="secure"
        )
        inventory.replace([PodRecord(known)], 3.0)
        assert inventory.records()[0] is record


def test_a_class_whose_handler_nobody_names_may_be_a_virtual_machine() -> None:
    inventory = PodInventory()
    inventory.replace([PodRecord(replace(POD, runtime_class="secure"))], 1.0)
    assert runs_in_vm(inventory.records()[0].pod)
    inventory.saw_pod(replace(POD, runtime_handler="nvidia"), 2.0)
    assert not runs_in_vm(inventory.records()[0].pod)


def test_a_container_without_a_list_says_what_its_own_request_says() -> None:
    inventory = PodInventory()
    inventory.replace([listed(replace(POD, cgroup_parent="guess"))], 1.0)
    assert inventory.saw_container(MAIN, 2.0).pod.cgroup_parent == POD.cgroup_parent


def test_limits_are_the_latest_request_or_the_list_that_was_asked_for_after_it() -> None:
    inventory = PodInventory()
    inventory.replace([listed(quota=100)], 1.0)
    inventory.saw_container(replace(MAIN, resources=LinuxResources(cpu_quota=200)), 2.0)
    assert quotas(inventory) == (None, 200)
    inventory.replace([listed(quota=100)], 1.5)
    assert quotas(inventory) == (None, 200), "requested before the update"
    inventory.replace([listed(quota=300)], 3.0)
    assert quotas(inventory) == (300, 300)


def test_a_resize_that_is_not_accepted_changes_nothing() -> None:
    inventory = PodInventory()
    inventory.replace([listed(quota=500, resize_pending=True)], 1.0)
    assert quotas(inventory) == (None, None), "what it has is not known"
    inventory.replace([listed(quota=100)], 2.0)
    inventory.replace([listed(quota=500, resize_pending=True)], 3.0)
    assert quotas(inventory) == (100, 100)
    inventory.saw_container(replace(MAIN, resources=LinuxResources(cpu_quota=500)), 4.0)
    assert quotas(inventory) == (None, 500), "the kubelet has begun with it"
    inventory.replace([listed(quota=500, resize_pending=True)], 5.0)
    assert quotas(inventory) == (None, 500)


def test_what_is_recalled_counts_less_than_anything_said_later() -> None:
    inventory = PodInventory()
    inventory.recall([listed(replace(POD, runtime_handler="kata", labels={"a": "1"}), 100)], 1.0)
    inventory.replace([listed(replace(POD, labels={"a": "2"}), 200)], 2.0)
    [record] = inventory.records()
    assert (record.pod.runtime_handler, record.pod.labels) == ("kata", {"a": "2"})
    assert quotas(inventory) == (200, 200)


# ---- presence


@pytest.mark.parametrize(
    ("presence", "after", "stays"),
    [
        (Presence.BUSY, 100_000.0, True),
        (Presence.EMPTY, 60.0, True),
        (Presence.EMPTY, 61.0, False),
        (Presence.GONE, 0.0, False),
    ],
)
@pytest.mark.parametrize("of", ["pod", "container"])
def test_what_a_list_lacks_has_ended_if_its_cgroup_agrees(
    presence: Presence, after: float, stays: bool, of: str
) -> None:
    inventory = PodInventory(lambda *_: presence)
    inventory.replace([listed()], 1.0)
    without = [] if of == "pod" else [replace(listed(), containers={})]
    held = inventory.replace(without, 1.0 + after)
    left = inventory.records() if of == "pod" else inventory.records()[0].containers
    assert bool(left) is stays
    assert bool(held) is (stays and of == "pod")


def test_what_was_held_ends_with_its_processes() -> None:
    presence = Presence.BUSY
    inventory = PodInventory(lambda *_: presence)
    inventory.replace([listed()], 1.0)
    for at in (2.0, 1000.0):
        assert inventory.replace([], at) == inventory.records() != ()
    presence = Presence.GONE
    inventory.replace([], 1001.0)
    assert inventory.records() == ()


def test_a_container_that_ended_after_a_list_was_asked_for_is_not_in_it() -> None:
    inventory = PodInventory()
    inventory.replace([listed()], 1.0)
    inventory.lost_container("u1", "c1", 3.0)
    inventory.replace([listed()], 2.0)
    assert not inventory.records()[0].containers
    inventory.replace([listed()], 4.0)
    assert inventory.records()[0].containers


def test_of_a_pod_that_is_listed_twice_the_first_counts() -> None:
    inventory = PodInventory()
    inventory.replace([listed(), PodRecord(POD)], 1.0)
    assert inventory.records()[0].containers


UIDS = st.lists(st.sampled_from(["a", "b", "c"]), unique=True)


@given(st.lists(st.tuples(UIDS, UIDS, st.booleans()), max_size=12))
def test_a_pod_is_there_as_long_as_its_processes_or_a_list_says_so(
    steps: Sequence[tuple[list[str], list[str], bool]],
) -> None:
    busy: set[str] = set()
    inventory = PodInventory(
        lambda record, _: Presence.BUSY if record.pod.uid in busy else Presence.GONE
    )
    at, known = 0.0, set[str]()
    for running, names, event in steps:
        at, busy = at + 1, set(running)
        inventory.replace([PodRecord(replace(POD, uid=uid)) for uid in names], at)
        known = set(names) | known & busy
        if event and names:
            at += 1
            inventory.saw_pod(replace(POD, uid=names[0]), at)
        assert {record.pod.uid for record in inventory.records()} == known
