"""The node as it was found: a test for each fact. What happens there is in scenario.py."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from koord_model.qos import KubeQoS

from tests.vm import node
from tests.vm.conftest import Outcome
from tests.vm.expectations import BE, PODS, SCORED, UNHOOKED_BE, PodCase

pytestmark = pytest.mark.vm

each_pod = pytest.mark.parametrize("case", PODS, ids=lambda case: case.name)

_UID = r"[0-9a-f]{8}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{12}"
_PARENTS = {
    KubeQoS.GUARANTEED: "/kubepods.slice/kubepods-pod",
    KubeQoS.BURSTABLE: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod",
    KubeQoS.BEST_EFFORT: "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod",
}


def those(expected: Mapping[str, str], read: Mapping[str, str]) -> dict[str, str | None]:
    """What was read of the files that are expected to hold something."""
    return {name: read.get(name) for name in expected}


def batch_values(seen: Mapping[str, Any]) -> dict[str, str | None]:
    return those(BE.container, seen["container"])


def managed(seen: Mapping[str, Any]) -> bool:
    return bool(seen["record"].get("managed") and seen["record"].get("pod_managed"))


# The node.


def test_systemd_is_init_and_cgroups_are_v2(outcome: Outcome) -> None:
    versions = outcome("versions")
    assert (versions["init"], versions["cgroup"]) == ("systemd", "cgroup2fs")
    assert {"cpu", "cpuset", "memory"} <= set(versions["controllers"].split())
    assert versions["psi"].startswith("some avg10=")


def test_the_readmes_commands_work(outcome: Outcome) -> None:
    assert len(outcome("installation")) >= 4


@pytest.mark.parametrize("name", [node.PROXY, node.PROXY_SOCKET, node.KOORDLET])
def test_units_run_and_will_after_a_reboot(outcome: Outcome, name: str) -> None:
    unit = outcome("units")[name]
    assert (unit["ActiveState"], unit["UnitFileState"]) == ("active", "enabled")
    assert unit.get("NRestarts", "0") == "0"


def test_koordctl_finds_all_well(outcome: Outcome) -> None:
    status = outcome("status")
    assert status["exit"] == 0, status["output"]
    for line in (r": ok$", r"^backend +ok$", r"^database +ok$", r"^koordlet .* closed"):
        assert re.search(line, status["output"], re.MULTILINE), status["output"]


# Pods.


@each_pod
def test_container(outcome: Outcome, case: PodCase) -> None:
    assert those(case.container, outcome("pods")[case.name]["container"]) == case.container


@each_pod
def test_pods_group(outcome: Outcome, case: PodCase) -> None:
    assert those(case.pod, outcome("pods")[case.name]["pod"]) == case.pod


@each_pod
def test_group_is_where_systemds_driver_puts_it(outcome: Outcome, case: PodCase) -> None:
    seen = outcome("pods")[case.name]
    place = rf"{_PARENTS[case.kube_qos]}{_UID}\.slice/cri-containerd-{seen['id']}\.scope"
    assert re.fullmatch(place, seen["path"])


@each_pod
def test_pod_had_all_its_hooks(outcome: Outcome, case: PodCase) -> None:
    seen = outcome("pods")[case.name]
    assert managed(seen), seen["record"]


@each_pod
@pytest.mark.parametrize("event", ["reloaded", "updated"])
def test_values_last(outcome: Outcome, case: PodCase, event: str) -> None:
    """Through ``systemctl daemon-reload``, and the kubelet's own view of the resources."""
    later = outcome("pods")[case.name][event]
    assert those(case.container, later["container"]) == case.container
    assert those(case.pod, later["pod"]) == case.pod


# Restarts of the proxy while pods start.


def test_restarts_lose_no_pod(outcome: Outcome) -> None:
    """Not one call was cut off: those that came meanwhile waited at the socket."""
    restarts = outcome("restarts")
    assert restarts["retries"] == []
    assert [one["exit"] for one in restarts["restarts"]] == [0, 0, 0]
    assert len(restarts["pods"]) >= 3


def test_restarts_lose_no_hook(outcome: Outcome) -> None:
    pods = outcome("restarts")["pods"]
    assert [batch_values(pod) for pod in pods] == [BE.container] * len(pods)
    assert [pod["record"] for pod in pods if not managed(pod)] == []


# koordlet hangs.


def test_watchdog_restarts_koordlet(outcome: Outcome) -> None:
    hang = outcome("hang")
    assert "Watchdog timeout" in hang["journal"]
    assert hang["after"]["ActiveState"] == "active"
    assert int(hang["after"]["NRestarts"]) == int(hang["before"]["NRestarts"]) + 1


def test_pod_starts_without_koordlet(outcome: Outcome) -> None:
    pod = outcome("hang")["meanwhile"]
    assert those(UNHOOKED_BE, pod["container"]) == UNHOOKED_BE
    assert not managed(pod)
    assert [missed["server"] for missed in pod["record"]["pod_missed"]] == ["koordlet"]


def test_pod_is_hooked_once_koordlet_is_back(outcome: Outcome) -> None:
    pod = outcome("hang")["afterwards"]
    assert batch_values(pod) == BE.container
    assert managed(pod), pod["record"]


# The proxy is killed.


def test_killed_proxy_comes_back(outcome: Outcome) -> None:
    before, after = outcome("kill")["units"]
    assert after["ActiveState"] == "active"
    assert int(after["NRestarts"]) == int(before["NRestarts"]) + 1


def test_records_survive_the_kill(outcome: Outcome) -> None:
    before, after = outcome("kill")["records"]
    assert len(before) > len(PODS)
    assert after == before


def test_pod_is_hooked_once_the_proxy_is_back(outcome: Outcome) -> None:
    pod = outcome("kill")["afterwards"]
    assert batch_values(pod) == BE.container
    assert managed(pod), pod["record"]


def test_nobody_complains(outcome: Outcome) -> None:
    assert outcome("complaints") == {"failed": "", "errors": ""}


# Every plugin, and the way back.


def test_every_plugin_at_once(outcome: Outcome) -> None:
    seen = outcome("every_plugin")
    assert seen["restarted"]["exit"] == 0, seen["restarted"]["output"]
    assert those(SCORED.container, seen["pod"]["container"]) == SCORED.container
    assert those(SCORED.pod, seen["pod"]["pod"]) == SCORED.pod
    assert seen["score"] == 777


def test_best_effort_pods_yield_to_all_others(outcome: Outcome) -> None:
    """Group identity -1 on a mainline kernel, where the administrator allows it."""
    assert outcome("every_plugin")["besteffort"] == {"cpu.idle": "1"}


def test_every_change_is_in_the_journal(outcome: Outcome) -> None:
    lines = outcome("way_back")["journal"]
    idle = [line for line in lines if line["knob"] == "cpu.idle" and line["new"] == 1]
    assert [line["group"] for line in idle] == ["kubepods.slice/kubepods-besteffort.slice"]
    for line in lines:
        assert {"time", "owner", "group", "pod", "knob", "old", "new", "why"} == line.keys()
        assert line["owner"] == "hooks"
        assert line["why"]


def test_restore_waits_for_koordlet_to_stop(outcome: Outcome) -> None:
    refused = outcome("way_back")["refused"]
    assert refused["exit"] == 1
    assert "koordlet" in refused["output"]


def test_what_was_found_is_put_back(outcome: Outcome) -> None:
    seen = outcome("way_back")
    assert seen["restored"]["exit"] == 0, seen["restored"]["output"]
    assert seen["besteffort"] == "0"


def test_the_fake_cgroupfs_keeps_this_kernels_rules(outcome: Outcome) -> None:
    rules = outcome("kernel_rules")
    assert rules["exit"] == 0, rules["output"]
