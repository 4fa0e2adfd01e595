from dataclasses import replace

import pytest
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources
from koordlet.states_informer.state.pod_inventory import PodInventory, PodRecord

POD = Pod("web-1", "shop", "u1", cgroup_parent="kubepods/podu1")
MAIN = Container(POD, "main", "c1")


def test_a_pod_told_of_is_there_until_it_ends() -> None:
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
    assert inventory.saw_pod(replace(POD, labels={"a": "b"}), 2.0).containers == {"c1": MAIN}


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
