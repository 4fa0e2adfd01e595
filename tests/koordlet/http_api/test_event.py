"""Changes, decisions and hook answers in Koordinator's words."""

from __future__ import annotations

import pytest
from koord_host.resource_executor.journal import (
    ChangeEntry,
    DecisionEntry,
    HookAnswerEntry,
    PluginAnswerEntry,
)
from koordlet.http_api.event import event_document

WEB = "shop/web"
SLICE = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice"
CGROUPS, HOOKS, TRAFFIC = "UpdateCgroups", "runtime-hooks", "netqos reconcile"


@pytest.mark.parametrize(
    ("pod", "group", "knob", "kind", "container", "reason"),
    [
        (WEB, "kubepods/burstable/podu-1", "cpu.shares", "pod", "", CGROUPS),
        (WEB, "kubepods/podu-1/c1", "cpu.idle", "pod", "c1", CGROUPS),
        (WEB, SLICE, "memory.min", "pod", "", CGROUPS),
        (WEB, f"{SLICE}/cri-containerd-c1.scope", "cpu.shares", "pod", "c1", CGROUPS),
        (WEB, "kubepods/podu-1/crio-c1", "cpu.shares", "pod", "c1", CGROUPS),
        (WEB, "kubepods/pod1", "blkio.throttle.read_bps_device", "pod", "", "UpdateBlkIO"),
        (WEB, "4711", "oom_score_adj", "pod", "", HOOKS),
        (WEB, "kubepods/podu-1/c1 4711@9", "oom_score_adj", "pod", "c1", HOOKS),
        ("", "kubepods/besteffort", "cpu.shares", "group", "", CGROUPS),
        ("", "", "cpuset.cpus", "node", "", CGROUPS),
        ("", "BE", "resctrl.L3:0", "group", "", "UpdateResctrl"),
        ("", "BE", "resctrl.tasks", "group", "", "ApplyCatL3GroupTasks"),
        ("", "vm.min_free_kbytes", "sysctl", "node", "", "UpdateSystemConfig"),
        ("", "/var/lib/agent.json", "file", "node", "", TRAFFIC),
        ("", "network", "root qdisc on eth0", "node", "", TRAFFIC),
        ("", "tasks", "core scheduling cookie of 12", "unknown", "", HOOKS),
        ("", "4711", "oom_score_adj", "unknown", "", HOOKS),
        ("", "kubepods", "knob.of.another.release", "unknown", "", HOOKS),
    ],
)
def test_a_change(pod: str, group: str, knob: str, kind: str, container: str, reason: str) -> None:
    name = {"pod": "web", "node": ""}.get(kind, group)
    shared = {
        "createdAt": "t",
        "type": kind,
        "namespace": "shop" if kind == "pod" else "",
        "name": name,
        "reason": reason,
        "message": f"{group}{': ' if group else ''}{knob} 1 → unknown (so)",
        "container": container,
    }
    own = {"owner": "hooks", "group": group, "knob": knob, "old": 1, "new": None, "why": "so"}
    found = event_document(ChangeEntry("t", "hooks", group, pod, knob, 1, None, "so"))
    assert found == {key: text for key, text in shared.items() if text} | own
    silent = event_document(ChangeEntry("t", "hooks", group, pod, knob, 1, "0-3", ""))
    assert silent["message"].endswith(f"{knob} 1 → 0-3")


@pytest.mark.parametrize(
    ("strategy", "about", "wanted"),
    [
        ("cpu_suppress", {}, ["node", None, None, "AdjustBEByNodeCPUUsage"]),
        ("cpu_burst", {"group": "kubepods/be"}, ["group", "kubepods/be", None, "CPUBurst"]),
        (
            "cpu_burst",
            {"pod": WEB, "group": "kubepods/podu-1/c1"},
            ["pod", "web", "c1", "CPUBurst"],
        ),
        ("cpu_burst", {"pod": WEB, "aspect": "quota app"}, ["pod", "web", None, "CFSQuotaBurst"]),
        ("memory_evict", {"pod": WEB, "aspect": "evicted"}, ["pod", "web", None, "evicted"]),
        ("memory_evict", {"aspect": "eviction memory"}, ["node", None, None, "memory_evict"]),
        ("resctrl", {"group": "BE"}, ["group", "BE", None, "UpdateResctrl"]),
        ("pressure_suppress", {}, ["node", None, None, "pressure_suppress"]),
    ],
)
def test_a_decision(strategy: str, about: dict[str, str], wanted: list[str | None]) -> None:
    given = (("capacity", 16, "cores"), ("used", None, ""))
    one = DecisionEntry("t", strategy, "on", "four CPUs", "capacity − used", given, **about)
    found = event_document(one)
    assert [found.get(name) for name in ("type", "name", "container", "reason")] == wanted
    assert found["message"] == "four CPUs (capacity − used with capacity 16 cores, used unknown)"
    assert found["given"] == [["capacity", 16, "cores"], ["used", None, ""]]
    assert (found["owner"], found["outcome"], found["mode"]) == (strategy, "four CPUs", "on")
    shadow = DecisionEntry("t", strategy, "shadow", "four CPUs")
    assert event_document(shadow)["message"] == "shadow: four CPUs"


@pytest.mark.parametrize("container", ["main", ""])
def test_the_answer_to_a_hook_call(container: str) -> None:
    plugins = (PluginAnswerEntry("batchresource", "500m", (("cpu_shares", 2, 512),)),)
    answer = HookAnswerEntry("t", "PreCreateContainer", "NRI", WEB, container, plugins, ("n",))
    assert event_document(answer) == {
        "createdAt": "t",
        "type": "pod",
        "namespace": "shop",
        "name": "web",
        "reason": HOOKS,
        "message": "cpu_shares 2 → 512 (batchresource: 500m); n",
        **({"container": container} if container else {}),
        "owner": "hooks",
        "hook": "PreCreateContainer",
        "transport": "NRI",
    }
