"""What strategies did to the node, as it was found. What happens there is in managing.py."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from koord_model import cpuset

from tests.vm import managed
from tests.vm.conftest import Outcome
from tests.vm.managed import BASE, CEILING, QUARTER, SHARED

pytestmark = pytest.mark.vm

KUBEPODS = "kubepods.slice"
BESTEFFORT = f"{KUBEPODS}/kubepods-besteffort.slice"
BURSTABLE = f"{KUBEPODS}/kubepods-burstable.slice"
Groups = Mapping[str, Mapping[str, str]]


def below(found: Groups, group: str) -> dict[str, Mapping[str, str]]:
    """A group and all in it."""
    return {
        name: files
        for name, files in found.items()
        if name == group or name.startswith(f"{group}/")
    }


def pods_group(group: str) -> str:
    return group.rpartition("/")[0]


def fields(line: str) -> dict[str, str]:
    """A device's line: "254:0 rbps=1 wbps=max"."""
    return dict(word.split("=", 1) for word in line.split()[1:])


# Best-effort pods are held down.


def test_best_effort_pods_run_on_few_cpus(outcome: Outcome) -> None:
    """All of them: of pods that are listed or not, of containers and sandboxes."""
    groups = below(outcome("qos_on")["groups"], BESTEFFORT)
    [cpus] = {files["cpuset.cpus"] for files in groups.values()}
    assert len(groups) > 3
    assert len(cpuset.parse(cpus)) == 2
    assert cpuset.parse(cpus) <= cpuset.parse(SHARED)


def test_a_quota_takes_the_place_of_cpus(outcome: Outcome) -> None:
    before, after = (below(outcome("qos_quota")[when], BESTEFFORT) for when in ("before", "after"))
    assert before[BESTEFFORT]["cpu.max"] == QUARTER
    # CPU 0 is an LSE pod's, whatever the policy.
    assert {files["cpuset.cpus"] for files in before.values()} == {SHARED}
    assert after[BESTEFFORT]["cpu.max"] == QUARTER


def test_a_new_pod_runs_within_the_limits(outcome: Outcome) -> None:
    quota = outcome("qos_quota")
    assert quota["late"] in quota["after"]
    assert quota["after"][quota["late"]]["cpuset.cpus"] == SHARED


def test_what_systemd_undoes_of_classes_is_done_again(outcome: Outcome) -> None:
    """Long before anybody looks again by himself: that is after a minute."""
    quota = outcome("qos_quota")
    assert quota["wanted"]["besteffort cpu.max"] == QUARTER
    assert [one["old"] for one in quota["undone"]] == [-1], "systemd does so no more"
    assert quota["done_again"] == quota["wanted"]
    assert quota["seconds"] < managed.SOON


# CPU burst.


def test_a_throttled_containers_quota_grows(outcome: Outcome) -> None:
    raised = outcome("qos_burst_up")["raised"]
    assert raised["container cpu.max"] == f"{CEILING} 100000"
    assert int(raised["pod cpu.max"].split()[0]) >= CEILING
    assert 0 < int(raised["container cpu.max.burst"]) <= CEILING


def test_a_kubelet_may_write_its_limit_meanwhile(outcome: Outcome) -> None:
    """The kernel takes no quota below a burst that is set."""
    updated = outcome("qos_burst_up")["updated"]
    assert int(updated["container cpu.max"].split()[0]) >= BASE


def test_memory_of_an_updated_container_is_protected_again(outcome: Outcome) -> None:
    up = outcome("qos_burst_up")
    assert up["memory"] == managed.HELD_BACK
    assert up["seconds"] < managed.SOON


def test_quotas_come_down_step_by_step(outcome: Outcome) -> None:
    down = outcome("qos_burst_down")
    quotas, end = down["steps"], down["end"]
    # It may rise again in between, as long as the CPUs have room; but it never falls in one leap.
    assert all(after >= before * 8 // 10 - 1 for before, after in itertools.pairwise(quotas)), (
        quotas
    )
    assert quotas[-1] == BASE
    assert len(set(quotas)) > 2, quotas
    assert end["container cpu.max"] == end["pod cpu.max"] == f"{BASE} 100000"
    assert int(end["container cpu.max.burst"]) <= BASE


# Memory.


def test_memory_is_protected_at_each_level(outcome: Outcome) -> None:
    on = outcome("qos_on")
    groups, container = on["groups"], on["bursting"]
    assert {name: groups[container][name] for name in managed.HELD_BACK} == managed.HELD_BACK
    pod = groups[pods_group(container)]
    assert {name: pod[name] for name in managed.PROTECTED} == managed.PROTECTED
    for above in (BURSTABLE, KUBEPODS):
        for name, value in managed.PROTECTED.items():
            assert int(groups[above][name]) >= int(value), (above, name)


def test_a_service_weighs_what_its_owner_says_and_best_effort_memory_is_guarded(
    outcome: Outcome,
) -> None:
    """Also after a kill; that both are taken back is looked at with all other files."""
    for step, when in (("qos_on", "groups"), ("qos_kill", "before"), ("qos_kill", "after")):
        groups = outcome(step)[when]
        assert groups[pods_group(outcome("qos_on")["bursting"])]["cpu.weight"] == managed.WEIGHT
        assert int(groups[BESTEFFORT]["memory.high"]) > 0


def test_cold_memory_is_given_back(outcome: Outcome) -> None:
    offload = outcome("qos_offload")
    assert offload["lines"]
    assert {one["owner"] for one in offload["lines"]} == {"memory_offload"}
    assert offload["after"] < offload["before"]
    said = [one["outcome"] for one in offload["why"]["decisions"]]
    assert any("reclaimed" in one for one in said), said


# Disks.


def test_best_effort_pods_io_is_limited(outcome: Outcome) -> None:
    on = outcome("qos_on")
    [line] = on["groups"][BESTEFFORT]["io.max"].splitlines()
    assert fields(line) == managed.LIMITED_IO
    assert re.search(r"^\d+:\d+ 40$", on["groups"][BESTEFFORT]["io.weight"], re.MULTILINE)
    assert {"enable": "1", "rlat": "4000"}.items() <= fields(on["io"]["io.cost.qos"]).items()


# The machine.


def test_the_machines_settings_are_set(outcome: Outcome) -> None:
    assert outcome("qos_on")["sysctl"] == str(managed.SCALE)


# koordlet is killed.


def test_what_is_still_wanted_stays_through_a_kill(outcome: Outcome) -> None:
    kill = outcome("qos_kill")
    before, after = (below(kill[when], BESTEFFORT) for when in ("before", "after"))
    for name, files in before.items():
        for file in ("cpu.max", "cpuset.cpus", "io.max"):
            assert after[name].get(file) == files.get(file), (name, file)
    moved = {(one["knob"], one["new"]) for one in kill["changes"] if one["owner"] == "cpu_suppress"}
    assert moved == set()


def test_what_is_not_wanted_any_more_is_put_back_after_a_kill(outcome: Outcome) -> None:
    after = outcome("qos_kill")["after"]
    for name, files in below(after, BURSTABLE).items():
        assert (files["memory.min"], files["memory.low"]) == ("0", "0"), name
        assert files["memory.high"] == "max", name


# Evictions, and pressure.


def test_a_pod_is_evicted_through_the_runtime(outcome: Outcome) -> None:
    evict = outcome("qos_evict")
    assert evict["others"] == [0, 0]
    people = evict["people"]
    assert people["exit"] == 0
    assert evict["victim"] in people["output"]
    assert "memory.available" in people["output"]


def test_pressure_of_the_node_is_measured(outcome: Outcome) -> None:
    series = outcome("qos_evict")["pressure"]["series"]
    assert {"cpu", "mem", "io"} == {one["labels"]["psi_resource"] for one in series}


# What works with koordlet: resource plugins, network cards, Katalyst's agent.


def test_a_resource_plugins_cpus_are_the_containers_alone(outcome: Outcome) -> None:
    """From its start, beside CPU suppression, and through a kill."""
    start, kill = outcome("qos_start"), outcome("qos_kill")
    assert (start["allocated"], kill["allocated"]) == (managed.ALLOCATED_CPUS,) * 2
    own = cpuset.parse(managed.ALLOCATED_CPUS)
    for step, when in (("qos_on", "groups"), ("qos_quota", "after"), ("qos_kill", "after")):
        groups = below(outcome(step)[when], BESTEFFORT)
        assert not own & frozenset().union(
            *(cpuset.parse(files["cpuset.cpus"]) for files in groups.values())
        )


def test_interrupts_leave_cpus_that_pods_own(outcome: Outcome) -> None:
    """Both cards', to as many CPUs: from koordlet's first second on, and after a kill."""
    moved = outcome("qos_on")["interrupts"]["moved"]
    assert len(moved) == 4
    assert len(set(moved.values())) == 4
    assert cpuset.parse(",".join(moved.values())) <= cpuset.parse(SHARED)
    assert outcome("qos_kill")["interrupts"] == moved
    moves = outcome("qos_stop")["moves"]
    assert moves
    assert [one for one in moves if str(one["new"]) == "0"] == []


def test_interrupts_come_back_at_a_stop(outcome: Outcome) -> None:
    """To what a koordlet found that was killed since."""
    seen = outcome("qos_stop")["interrupts"]
    assert seen["after"] == seen["found"] != outcome("qos_on")["interrupts"]["moved"]


def test_delays_of_containers_are_shown(outcome: Outcome) -> None:
    pages = outcome("qos_pages")
    talking, burning = (pages["top"][case.name] for case in (managed.ALLOCATED, managed.BURSTING))
    assert 0 < talking["tcp_rtt"] < 1000
    assert burning["tcp_rtt"] is None
    assert burning["sched_wait"] > 0


each_group = pytest.mark.parametrize("name", [managed.BURSTING.name, managed.CACHED.name])


@each_group
def test_malachites_page_counts_what_the_kernel_counts(outcome: Outcome, name: str) -> None:
    """Counters lie between the kernel's before and after."""
    seen = outcome("qos_pages")["groups"][name]
    before, after = seen["before"], seen["after"]
    parts = malachite_parts(seen["page"])
    cpu, memory, disk = parts["Cpu"], parts["Memory"], parts["BlkIO"]
    counted = [
        (cpu["cpu_stats"], "cpu.stat"),
        (memory["mem_local_events"], "memory.events.local"),
    ]
    for found, file in counted:
        low, high = (numbers(texts[file]) for texts in (before, after))
        assert found.keys() == low.keys()
        assert [key for key in found if not low[key] <= found[key] <= high[key]] == []
    for pressure, file in (
        (cpu["cpu_pressure"], "cpu.pressure"),
        (memory["mem_pressure"], "memory.pressure"),
        (disk["io_pressure"], "io.pressure"),
    ):
        low, high = (
            int(re.findall(r"some .*total=(\d+)", texts[file])[0]) for texts in (before, after)
        )
        assert low <= pressure["some"]["total"] <= high
        assert pressure.keys() >= {"some", "full"}
    assert disk["io_stat"].keys() == {line.split()[0] for line in after["io.stat"].splitlines()}
    assert cpu["cpu_usage_ratio"] == pytest.approx(seen["cores"], rel=0.2, abs=0.02)
    assert cpu["cpu_usage_ratio"] == pytest.approx(
        cpu["cpu_user_usage_ratio"] + cpu["cpu_sys_usage_ratio"], abs=0.01
    )


@each_group
def test_malachites_page_has_the_kernels_limits_and_memory(outcome: Outcome, name: str) -> None:
    seen = outcome("qos_pages")["groups"][name]
    before, after = seen["before"], seen["after"]
    parts = malachite_parts(seen["page"])
    cpu, memory = parts["Cpu"], parts["Memory"]
    limits = {f"memory.{file}": file for file in ("max", "high", "low", "min")}
    limits |= {"memory.swap.max": "swap_max"}
    for file, field in limits.items():
        assert between(memory[field], limit(before[file]), limit(after[file])), field
    quotas = [limit(texts["cpu.max"].split()[0]) for texts in (before, after)]
    assert between(cpu["max"], *quotas)
    assert str(cpu["max_period"]) == after["cpu.max"].split()[1]
    assert cpu["weight"] == int(after["cpu.weight"])
    assert cpu["weight_nice"] == int(after["cpu.weight.nice"])
    assert between(cpu["max_burst"], *(int(texts["cpu.max.burst"]) for texts in (before, after)))
    for kind in ("cpus", "mems"):
        listed = parts["CpuSet"][kind]["inner"]
        assert frozenset(listed) == cpuset.parse(after[f"cpuset.{kind}.effective"].strip())
    used = [int(texts["memory.current"]) for texts in (before, after)]
    assert near(memory["memory_usage_in_bytes"], *used)
    low, high = (numbers(texts["memory.stat"]) for texts in (before, after))
    stat = memory["mem_stats"]
    assert low.keys() <= stat.keys()
    assert [key for key in low if not near(stat[key], low[key], high[key])] == []
    numa = {
        line.split()[0]: line.split("N0=")[1] for line in after["memory.numa_stat"].splitlines()
    }
    assert memory["mem_numa_stats"]["N0"].keys() == numa.keys()
    assert near(memory["mem_numa_stats"]["N0"]["anon"], low["anon"], int(numa["anon"]))


def test_malachites_pages_of_the_machine(outcome: Outcome) -> None:
    pages = outcome("qos_pages")
    system, meminfo = pages["system"], numbers(pages["memory"].replace(":", ""))
    assert system["memory"]["system"]["mem_total"] == meminfo["MemTotal"]
    assert len(system["compute"]["cpu"]) == len(cpuset.parse(managed.CPUS))
    assert 0 < system["compute"]["global_cpu"]["cpu_usage"] <= 100
    assert {"vda"} <= {disk["device_name"] for disk in system["io"]["disk_io"]}
    assert len(system["network"]["networkcard"]) == 3


def malachite_parts(page: Mapping[str, Any]) -> dict[str, Any]:
    """The documents of cgroup v2, by the client's names of them."""
    assert page["cgroup_type"] == "V2"
    groups = page["sub_system_groups"]
    places = {"Cpu": "Cpuacct", "Memory": "Memory", "CpuSet": "Cpuset", "BlkIO": "Blkio"}
    return {name: groups[place][name]["V2"] for name, place in places.items()}


def numbers(text: str) -> dict[str, int]:
    return {words[0]: int(words[1]) for words in map(str.split, text.splitlines())}


def limit(text: str) -> int:
    return 2**64 - 1 if text.strip() == "max" else int(text)


def between(found: int, *kernel: int) -> bool:
    return min(kernel) <= found <= max(kernel)


def near(found: int, *kernel: int) -> bool:
    """True if it is between the kernel's numbers, which are counted in batches, or by them."""
    slack = 64 * 4096 + max(kernel) // 20
    return min(kernel) - slack <= found <= max(kernel) + slack


# All of it is taken back.


def differences(found: Groups, after: Groups) -> Iterator[tuple[str, str, str, str]]:
    """What is otherwise than it was found."""
    for group, files in found.items():
        for name, text in files.items():
            now = after.get(group, files).get(name, "")
            # A group with tasks cannot have no CPUs of its own again: it has all of them.
            same = now == text or (name == "cpuset.cpus" and (text, now) == ("", managed.CPUS))
            if not same and not (name == "io.weight" and now.splitlines()[0] == text):
                yield group, name, text, now


def test_switched_off_all_is_as_it_was_found(outcome: Outcome) -> None:
    seen = outcome("qos_off")
    assert list(differences(seen["found"], seen["after"])) == []
    machine_is_as_found(seen)


def test_stopped_all_is_as_it_was_found(outcome: Outcome) -> None:
    """With --restore-on-stop: what hooks wrote too, so of pods only what no hook writes counts."""
    seen = outcome("qos_stop")
    hooked = {"cpu.max", "cpu.weight", "cpuset.cpus"}
    assert [
        one
        for one in differences(seen["found"], seen["after"])
        if one[0] in (KUBEPODS, BESTEFFORT, BURSTABLE) or one[1] not in hooked
    ] == []
    machine_is_as_found(seen)


def machine_is_as_found(seen: Mapping[str, Any]) -> None:
    assert fields(seen["io"] or "254:0").get("enable", "0") == "0"
    assert seen["sysctl"] == "10"


# People.


def test_anybody_may_ask_why(outcome: Outcome) -> None:
    suppress, cgroup = people = outcome("qos_on")["people"]
    assert [one for one in people if one["exit"]] == []
    assert "best-effort pods run on 2 CPUs" in suppress["output"]
    assert "capacity × threshold" in suppress["output"]
    assert "memory_qos" in cgroup["output"]
    assert re.search(r"^cpuset.cpus +\S+ +cpu_suppress ", cgroup["output"], re.MULTILINE)


def test_decisions_are_in_the_journal(outcome: Outcome) -> None:
    stop = outcome("qos_stop")
    decided = {one["strategy"] for one in stop["decisions"]}
    assert {"cpu_suppress", "cpu_burst", "memory_qos", "memory_offload", "blkio"} <= decided
    assert {"cpu_weight", "memory_guard", "pressure_suppress"} <= decided
    assert {"cpu_suppress", "cpu_burst", "memory_qos", "blkio", "cpu_weight"} <= set(stop["owners"])


def test_nobody_is_bothered(outcome: Outcome) -> None:
    """Warnings are of what somebody should look at; there is nothing of the kind here."""
    lines = outcome("qos_log")["lines"]
    reported = [line for line in lines if re.match(r"(WARN|ERROR)", line)]
    assert [line for line in reported if not re.search(managed.WARNED, line)] == []
