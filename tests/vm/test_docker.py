"""The node with docker as its runtime, as it was found. What happens there is in docking.py."""

from __future__ import annotations

import re

import pytest

from tests.vm import managed, node
from tests.vm.conftest import Outcome
from tests.vm.expectations import DOCKED, those

pytestmark = pytest.mark.vm

_PLACE = "/kubepods.slice/kubepods-besteffort.slice"


def test_docker_uses_systemds_driver_on_cgroup_v2(outcome: Outcome) -> None:
    info = outcome("docker_start")["info"]
    assert (info["CgroupDriver"], info["CgroupVersion"]) == ("systemd", "2")


def test_the_documents_commands_work(outcome: Outcome) -> None:
    commands = outcome("docker_start")["commands"]
    assert [one for one in commands if one["exit"]] == []


def test_container(outcome: Outcome) -> None:
    assert those(DOCKED.container, outcome("docker_pod")["container"]) == DOCKED.container


def test_pods_group(outcome: Outcome) -> None:
    assert those(DOCKED.pod, outcome("docker_pod")["pod"]) == DOCKED.pod


def test_hooks_got_the_whole_path(outcome: Outcome) -> None:
    """Of the pod's, and of the container's."""
    pod = outcome("docker_pod")
    assert pod["reported"] == [f"{_PLACE}/{pod['slice']}"] * 2


def test_docker_got_the_slices_name(outcome: Outcome) -> None:
    pod = outcome("docker_pod")
    assert pod["parents"] == [pod["slice"]] * 2


def test_docker_was_asked_to_swap_nothing(outcome: Outcome) -> None:
    """It counts memory and swap together; left alone, it would allow as much of either."""
    limit = int(DOCKED.container["memory.max"])
    assert outcome("docker_pod")["memory"] == [limit, limit]


def test_group_is_where_systemds_driver_puts_it(outcome: Outcome) -> None:
    pod = outcome("docker_pod")
    assert pod["path"] == f"{_PLACE}/{pod['slice']}/docker-{pod['id']}.scope"


def test_pod_had_all_its_hooks(outcome: Outcome) -> None:
    record = outcome("docker_pod")["record"]
    assert record["managed"], record
    assert record["pod_managed"], record


def test_people_see_the_pod(outcome: Outcome) -> None:
    pod = outcome("docker_pod")
    assert pod["people"]["exit"] == 0
    assert pod["name"] in pod["people"]["output"]


def test_the_proxy_finds_all_well(outcome: Outcome) -> None:
    health = outcome("docker_pod")["health"]
    assert (health["status"], health["backend"]) == ("ok", "ok"), health
    assert (health["pods"], health["containers"], health["unmanaged"]) == (1, 1, 0)


def test_koordlet_measures_the_container(outcome: Outcome) -> None:
    assert len(outcome("docker_measured")) == 1


def test_a_restart_keeps_the_records(outcome: Outcome) -> None:
    before, after = outcome("docker_restart")["records"]
    assert len(before) == 1
    assert after == before
    lines = outcome("docker_end")["journal"][node.PROXY]
    first, second = (line for line in lines if "records match the runtime" in line)
    assert "pods=0 " in first
    # Kept, not looked up again.
    assert "pods=1 containers=1 dropped=0 adopted=0" in " ".join(second.split())


def test_values_last_through_the_kubelets_view(outcome: Outcome) -> None:
    updated = outcome("docker_restart")["updated"]
    assert those(DOCKED.container, updated["container"]) == DOCKED.container
    assert those(DOCKED.pod, updated["pod"]) == DOCKED.pod


def test_a_deleted_pod_leaves_no_record(outcome: Outcome) -> None:
    assert outcome("docker_end")["records"] == {}


def test_nobody_is_bothered(outcome: Outcome) -> None:
    journal = outcome("docker_end")["journal"]
    reported = [line for lines in journal.values() for line in lines]
    reported = [line for line in reported if re.match(r"(WARN|ERROR)|Traceback", line)]
    assert [line for line in reported if not re.search(managed.WARNED, line)] == []
