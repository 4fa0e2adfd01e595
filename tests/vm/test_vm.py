"""The node as it was found: a test for each property. What happens there is in scenario.py."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
from koord_model.qos import KubeQoS

from tests.vm import expectations, node, observing
from tests.vm.conftest import Outcome
from tests.vm.expectations import (
    BE,
    BURNERS,
    FREE,
    LIMITED,
    NODE_FIGURES,
    POD_FIGURES,
    PODS,
    SCORED,
    UNAVAILABLE,
    UNHOOKED_BE,
    Burner,
    PodCase,
    those,
)
from tests.vm.managed import WARNED

pytestmark = pytest.mark.vm

each_pod = pytest.mark.parametrize("case", PODS, ids=lambda case: case.name)

_UID = r"[0-9a-f]{8}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{4}_[0-9a-f]{12}"
_PARENTS = {
    KubeQoS.GUARANTEED: "/kubepods.slice/kubepods-pod",
    KubeQoS.BURSTABLE: "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod",
    KubeQoS.BEST_EFFORT: "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod",
}


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
    assert len(outcome("installation")) >= 3


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


def test_koordctl_finds_nothing_to_mend_in_the_node(outcome: Outcome) -> None:
    found = json.loads(outcome("doctor")["output"])
    assert [row for row in found if row["level"] == "problem"] == []
    assert {"cgroups", "koordlet", "koord-runtime-proxy"} <= {
        row["about"] for row in found if row["level"] == "ok"
    }


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
    assert [one["exit"] for one in restarts["restarts"]] == [0, 0]
    assert len(restarts["pods"]) >= 2


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


# The proxy is killed.


def test_killed_proxy_comes_back(outcome: Outcome) -> None:
    before, after = outcome("hang")["proxy"]["units"]
    assert after["ActiveState"] == "active"
    assert int(after["NRestarts"]) == int(before["NRestarts"]) + 1


def test_records_survive_the_kill(outcome: Outcome) -> None:
    before, after = outcome("hang")["proxy"]["records"]
    assert len(before) > len(PODS)
    assert after == before


def test_pod_is_hooked_once_both_are_back(outcome: Outcome) -> None:
    pod = outcome("every_plugin")["pod"]
    assert managed(pod), pod["record"]


def test_nobody_complains(outcome: Outcome) -> None:
    complaints = outcome("complaints")
    assert complaints["failed"] == ""
    assert [one for one in complaints["errors"].splitlines() if not re.search(WARNED, one)] == []


# What koordlet says of pods that burn CPU and hold memory.

each_burner = pytest.mark.parametrize("burner", BURNERS, ids=lambda burner: burner.pod.name)


@each_burner
@pytest.mark.parametrize(
    ("kind", "source"), [(kind, source) for kind, _, source in POD_FIGURES], ids=str
)
def test_pods_figure_is_the_kernels(
    outcome: Outcome, burner: Burner, kind: str, source: str
) -> None:
    agree(outcome("use"), burner.pod.name, kind, source)


@pytest.mark.parametrize(
    ("kind", "source"), [(kind, source) for kind, _, source in NODE_FIGURES], ids=str
)
def test_nodes_figure_is_the_kernels(outcome: Outcome, kind: str, source: str) -> None:
    agree(outcome("use"), "node", kind, source)


def agree(use: Mapping[str, Any], who: str, kind: str, source: str) -> None:
    """A figure of koordlet's is the kernel's, or neither has one."""
    reported, counted = use["koordlet"][who][kind], use["kernel"][who][source]
    assert expectations.agree(kind, reported, counted), (reported, counted)


def test_the_burners_burnt(outcome: Outcome) -> None:
    kernel = outcome("use")["kernel"]
    limited, free = kernel[LIMITED.pod.name], kernel[FREE.pod.name]
    # Less than its limit only where the machine had no more to give.
    assert 0.15 < limited["cpu.stat container"] < 0.33
    assert limited["cpu.stat container throttled"] > 0
    assert free["cpu.stat container"] > 0.5
    assert free["cpu.stat container throttled"] is None


@each_burner
@pytest.mark.parametrize("who", ["pod", "container"])
def test_pressure_is_the_kernels(outcome: Outcome, burner: Burner, who: str) -> None:
    pressed(outcome("use")["pressure"], f"{burner.pod.name} {who} ")


def test_nodes_pressure_is_the_kernels(outcome: Outcome) -> None:
    pressed(outcome("use")["pressure"], "node ")


def test_the_throttled_pod_is_under_pressure(outcome: Outcome) -> None:
    assert outcome("use")["pressure"]["koordlet"][f"{LIMITED.pod.name} pod cpu some"] > 10


def pressed(pressure: Mapping[str, Mapping[str, Any]], start: str) -> None:
    """koordlet says of each file what stood there a moment ago, in single precision."""
    reported = {
        name: value for name, value in pressure["koordlet"].items() if name.startswith(start)
    }
    files = {name: seen for name, seen in pressure["kernel"].items() if name.startswith(start)}
    assert len(files) == 6
    assert reported.keys() == files.keys()
    for name, seen in files.items():
        assert any(reported[name] == pytest.approx(one, rel=1e-6) for one in seen), (
            name,
            reported,
            seen,
        )


def test_machine_is_as_lscpu_says(outcome: Outcome) -> None:
    seen = outcome("machine")
    rows, koordlet = seen["lscpu"]["rows"], seen["koordlet"]
    assert seen["collector"] == seen["lscpu"]
    cores, sockets, nodes = (len({row[column] for row in rows}) for column in (1, 2, 3))
    machine = koordlet["machine"]
    assert (machine["cores"], machine["sockets"], machine["numa_nodes"]) == (cores, sockets, nodes)
    assert machine["model"] == seen["lscpu"]["model"]
    assert koordlet["capacity"] == {"cpu": len(rows), "memory": seen["memory"]}


def test_anybody_may_ask(outcome: Outcome) -> None:
    said = outcome("people")
    assert ["top" in one["command"] for one in said] == [True, False]
    assert [one for one in said if one["exit"]] == []


def test_top_shows_the_burners(outcome: Outcome) -> None:
    output = outcome("people")[0]["output"]
    for burner in BURNERS:
        assert re.search(rf"^default/{burner.pod.name}-\d+ ", output, re.MULTILINE), output


def test_unit_lets_koordlet_reach_what_it_is_allowed(outcome: Outcome) -> None:
    """Nobody listens there; packets to what is not allowed are dropped."""
    reach = outcome("reach")
    assert "timed out" in reach["before"]["output"]
    assert "refused" in reach["after"]["output"]


def test_what_was_measured_survives_the_watchdog(outcome: Outcome) -> None:
    """All but the last ten seconds."""
    hang = outcome("hang")
    assert min(hang["measured before"]) <= 11
    assert len(hang["measured before"]) >= 10
    assert hang["measured after"]


def test_collectors_say_once_what_they_cannot(outcome: Outcome) -> None:
    lines = [(line["pid"], line["message"]) for line in outcome("collectors")]
    assert len(lines) == len(set(lines))
    hang = outcome("hang")
    for unit in (hang["before"], hang["after"]):
        reported = [message for pid, message in lines if pid == unit["MainPID"]]
        unavailable = [message for message in reported if observing.JOURNALLED[0] in message]
        said = dict(re.findall(r"collector=(\w+) reason=(.+)", "\n".join(unavailable)))
        assert said.keys() == UNAVAILABLE.keys()
        assert {name: said[name] for name in said if UNAVAILABLE[name] not in said[name]} == {}
    assert [message for _, message in lines if observing.JOURNALLED[2] in message] == []


# Every plugin, and the way back.


def test_every_plugin_at_once(outcome: Outcome) -> None:
    seen = outcome("every_plugin")
    assert those(SCORED.container, seen["pod"]["container"]) == SCORED.container
    assert those(SCORED.pod, seen["pod"]["pod"]) == SCORED.pod
    assert seen["score"] == 777


def test_best_effort_pods_yield_to_all_others(outcome: Outcome) -> None:
    """Group identity -1 on a mainline kernel, where the administrator allows it."""
    assert outcome("every_plugin")["besteffort"] == {"cpu.idle": "1"}


def test_every_change_is_in_the_journal(outcome: Outcome) -> None:
    # Strategies and answers to hooks are in it too; the former change nothing without a NodeSLO.
    journal = outcome("way_back")["journal"]
    lines = [line for line in journal if not {"strategy", "hook"} & line.keys()]
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


# Interrupts.


def test_interrupts_are_spread_and_left_as_they_were_found(outcome: Outcome) -> None:
    tuned = outcome("interrupts")
    assert list(tuned["cards"].values()) == [2, 2]
    assert set(tuned["outcomes"]) == {"written "}
    affinities = {path: cpu for path, cpu in tuned["desired"].items() if "/irq/" in path}
    assert sorted(affinities.values()) == ["0", "0", "1", "1"]
    assert {path: tuned["meanwhile"][path] for path in affinities} == affinities
    assert [text for path, text in tuned["meanwhile"].items() if "rps" in path] == ["03", "03"]
    assert tuned["afterwards"] == tuned["before"] != tuned["meanwhile"]


def test_the_kernel_refuses_interrupts_that_it_manages(outcome: Outcome) -> None:
    assert outcome("interrupts")["managed"] == errno.EIO
