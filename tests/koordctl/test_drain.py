"""``koordctl drain``: DrainNodes are made, confirmed and aborted, and shown."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from koord_kube.protocol.resources import DRAIN_NODES
from koordctl.drain import lines
from koordctl.output.tables import plain

from tests.koordctl.conftest import Ctl
from tests.support.kube_api import KubeApi

PODS: list[dict[str, Any]] = [
    {
        "namespace": "shop",
        "name": "db-0",
        "state": "Blocked",
        "wave": 0,
        "why": "it has PersistentVolumeClaims: data",
    },
    {"namespace": "shop", "name": "web-1", "state": "Ready", "wave": 1, "targetNode": "node-8"},
]


def put(api: KubeApi, phase: str, name: str = "d", **spec: Any) -> None:
    counts = {"total": 2, "ready": 1, "blocked": 1, "waiting": 0, "migrating": 0, "drained": 3}
    status = {"phase": phase, "message": "m", "counts": counts, "pods": PODS, "unlistedPods": 4}
    spec = {"nodeName": "node-7", "confirmState": "WaitForConfirm", "reason": "kernel", **spec}
    api.put(DRAIN_NODES, {"metadata": {"name": name}, "spec": spec, "status": status})


def asked(api: KubeApi, name: str = "d") -> dict[str, Any]:
    found: dict[str, Any] = api.get(DRAIN_NODES, name)["spec"]
    return found


async def test_a_drain_is_shown_with_each_pod(api: KubeApi, ctl: Ctl) -> None:
    put(api, "Aborted", "old")
    put(api, "Blocked")
    code, out, _ = await ctl("drain", "node-7")
    assert code == 0
    assert out.splitlines() == [
        "Node node-7 (DrainNode d): Blocked, WaitForConfirm: m",
        "  reason: kernel",
        "  2 pods left: 1 ready, 0 migrating, 0 waiting, 1 blocked; 3 moved",
        "",
        "POD         STATE    WAVE  TARGET  WHY",
        "shop/db-0   Blocked  0     –       it has PersistentVolumeClaims: data",
        "shop/web-1  Ready    1     node-8  –",
        "… and 4 more",
    ]
    _, out, _ = await ctl("drain", "node-7", "--json")
    assert '"phase": "Blocked"' in out


@pytest.mark.parametrize("phase", ["Waiting", "Blocked"])
async def test_a_plan_is_waited_for_and_a_blocked_one_is_none(
    api: KubeApi, ctl: Ctl, phase: str
) -> None:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(ctl("drain", "node-7", "--plan", "--reason", "kernel"))
        await api.wait_for("create", plural="drainnodes")
        (name,) = [key.name for key in api.objects if key.resource == DRAIN_NODES]
        made = asked(api, name)
        assert made | {"nodeName": "node-7", "reason": "kernel"} == made
        assert "dryRun" not in made
        put(api, phase, name)
    code, out, error = task.result()
    assert f"{phase}, WaitForConfirm" in out
    if phase == "Waiting":
        assert (code, error) == (0, "")
    else:
        assert (code, "there is no plan for node node-7: m" in error) == (1, True)


async def test_a_plan_that_nobody_makes(api: KubeApi, ctl: Ctl) -> None:
    words = ("--plan", "--dry-run", "--evict-directly", "--timeout=0.1")
    code, _, error = await ctl("drain", "node-7", *words)
    assert code == 1
    (name,) = [key.name for key in api.objects if key.resource == DRAIN_NODES]
    assert asked(api, name)["dryRun"]
    assert asked(api, name)["migrationPolicy"] == {"jobMode": "EvictDirectly"}
    assert "there is no plan for node node-7: koord-descheduler has not seen it" in error


async def test_one_that_is_there_is_planned_on(api: KubeApi, ctl: Ctl) -> None:
    put(api, "Waiting", dryRun=True)
    assert (await ctl("drain", "node-7", "--plan"))[0] == 0
    assert asked(api)["dryRun"] is False
    assert api.count("create", "drainnodes") == 0


async def test_a_proved_plan_is_confirmed_or_aborted(api: KubeApi, ctl: Ctl) -> None:
    put(api, "Waiting")
    code, out, _ = await ctl("drain", "node-7", "--confirm")
    assert (code, asked(api)["confirmState"]) == (0, "Confirmed")
    assert "Waiting, Confirmed" in out
    await ctl("drain", "node-7", "--abort")
    assert asked(api)["confirmState"] == "Aborted"


@pytest.mark.parametrize(
    ("phase", "spec", "words", "line"),
    [
        ("Blocked", {}, ["--confirm"], "only a plan that is Waiting can be confirmed"),
        ("Waiting", {"dryRun": True}, ["--confirm"], "the plan is a dry run"),
        ("Waiting", {"nodeName": "other"}, ["--abort"], "nothing drains node node-7; --plan does"),
        ("Waiting", {"nodeName": "other"}, [], "nothing drains node node-7; --plan does"),
        ("Waiting", {}, ["--reason=x"], "--dry-run, --evict-directly and --reason are for --plan"),
    ],
)
async def test_what_is_not_there(
    api: KubeApi, ctl: Ctl, phase: str, spec: dict[str, Any], words: list[str], line: str
) -> None:
    put(api, phase, **spec)
    code, _, error = await ctl("drain", "node-7", *words)
    assert (code, len(error.splitlines())) == (2 if "--reason=x" in words else 1, 1)
    assert line in error
    assert asked(api)["confirmState"] == "WaitForConfirm"


def test_what_others_wrote_is_shown_on_one_line() -> None:
    evil = "a\x1b[2J\nb"
    given = {"metadata": {"name": evil}, "spec": {"nodeName": evil, "reason": evil}}
    status = {"phase": evil, "message": evil, "pods": [{"name": evil, "why": evil}]}
    for line in plain(lines(given | {"status": status})):
        assert line.isprintable()
