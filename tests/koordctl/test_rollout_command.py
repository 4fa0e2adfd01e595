"""``koordctl rollout``: what is shown, and what it writes."""

from __future__ import annotations

import json
from typing import Any

from koord_kube.protocol.resources import CONFIG_MAPS

from tests.koordctl.conftest import Ctl
from tests.support.kube_api import KubeApi

NAMESPACE, NAME = "koordinator-system", "slo-controller-config"
NOW = {"strategies": {"memory_offload": {"mode": "on"}}}
BEFORE = {"strategies": {"memory_offload": {"mode": "shadow"}}}
PAUSE = {"version": "v2", "at": "2026-11-29T06:00:00Z", "by": "koord-manager", "why": "7 evictions"}
WHY = "paused by koord-manager at 2026-11-29T06:00:00Z: 7 evictions"
FOLLOWED: dict[str, Any] = {
    "history": [
        {"version": "v1", "at": "2026-11-28T06:00:00Z", "by": "argocd", "content": BEFORE},
        {"version": "v2", "at": "2026-11-29T05:00:00Z", "by": "kubectl-edit", "content": NOW},
    ],
    "nodes": {"wanted": 10, "echoed": 9, "failed": 1, "problem": "n1: mode is 3"},
    "canary": "10%",
    "paused": PAUSE,
    "report": {
        "verdict": "pays: 2 core-hours",
        "measures": {
            "psi": {
                "unit": "%",
                "pairs": 8,
                "hours": 4.5,
                "with": 5.5,
                "without": 5.0,
                "difference": 0.5,
                "interval95": [-0.1, 1.1],
            }
        },
    },
}


def put(api: KubeApi, entries: list[dict[str, Any]] | None = None, **state: Any) -> None:
    usual = [{"name": "offload", "canary": "10%", "nodeSelector": {"a": "b"}, **NOW}]
    text = json.dumps({"nodeStrategies": usual if entries is None else entries})
    config = {"metadata": {"name": NAME}, "data": {"pykoord-config": text, "system-config": "{}"}}
    api.put(CONFIG_MAPS, config, NAMESPACE)
    observed = json.dumps({"offload": {**FOLLOWED, **state}})
    meta = {"name": f"{NAME}-rollout"}
    api.put(CONFIG_MAPS, {"metadata": meta, "data": {"observed": observed}}, NAMESPACE)


def orders(api: KubeApi) -> dict[str, Any]:
    found = api.get(CONFIG_MAPS, f"{NAME}-rollout", NAMESPACE)["data"]["orders"]
    order: dict[str, Any] = json.loads(found)["offload"]
    return order


async def test_at_a_glance(api: KubeApi, ctl: Ctl) -> None:
    put(api)
    code, out, _ = await ctl("rollout", "status")
    assert code == 0
    assert out.splitlines() == [
        "ENTRY    VERSION  CANARY  NODES  APPLIED  FAILED  STATE",
        f"offload  v2       10%        10        9       1  {WHY}",
        "offload: 1 node cannot apply all of it, for example n1: mode is 3",
    ]
    _, out, _ = await ctl("rollout", "status", "offload", "--json")
    assert json.loads(out)["offload"]["nodes"]["echoed"] == 9
    _, out, _ = await ctl("rollout", "history", "offload")
    assert [line.split()[0] for line in out.splitlines()] == ["VERSION", "v2", "v1"]
    assert "argocd" in out
    _, out, _ = await ctl("rollout", "report", "offload")
    assert out.splitlines()[0] == "offload: pays: 2 core-hours"
    assert out.splitlines()[3].split()[:7] == ["psi", "5.5", "5", "0.5", "-0.1", "to", "1.1"]


async def test_pause_and_resume(api: KubeApi, ctl: Ctl) -> None:
    put(api)
    code, out, _ = await ctl("rollout", "resume", "offload")
    assert (code, out) == (0, 'Entry "offload" goes on; version v2 is not judged any more.\n')
    assert orders(api)["accepted"] == "v2"
    code, _, error = await ctl("rollout", "resume", "offload")
    assert (code, error) == (1, 'koordctl: entry "offload" is not paused\n')
    code, _, _ = await ctl("rollout", "pause", "offload", "--reason", "kernel")
    assert code == 0
    assert orders(api).items() >= {"paused": True, "why": "kernel"}.items()
    assert "kernel" in (await ctl("rollout", "status"))[1]
    put(api, [{"name": "offload", "paused": True, "nodeSelector": {}, **NOW}])
    code, _, error = await ctl("rollout", "resume", "offload")
    assert code == 1
    assert 'is paused in ConfigMap koordinator-system/slo-controller-config; remove "pa' in error


async def test_undo_gives_the_content_and_nothing_else(api: KubeApi, ctl: Ctl) -> None:
    other = {"name": "other", "nodeSelector": {"c": "d"}, **NOW}
    put(api, [{"name": "offload", "canary": "10%", "nodeSelector": {"a": "b"}, **NOW}, other])
    code, out, _ = await ctl("rollout", "undo", "offload")
    assert code == 0
    assert "has the content of version v1 again" in out
    data = api.get(CONFIG_MAPS, NAME, NAMESPACE)["data"]
    assert json.loads(data["pykoord-config"])["nodeStrategies"] == [
        {"name": "offload", "canary": "10%", "nodeSelector": {"a": "b"}, **BEFORE},
        other,
    ]
    assert data["system-config"] == "{}"
    code, _, error = await ctl("rollout", "undo", "offload", "--to", "v3")
    assert (code, error) == (
        1,
        'koordctl: entry "offload" has no version "v3"; there are v1, v2\n',
    )


async def test_mistakes_have_a_way_out(api: KubeApi, ctl: Ctl) -> None:
    put(api)
    code, _, error = await ctl("rollout", "pause", "ofload")
    assert code == 1
    assert error.endswith('has no entry "ofload"; did you mean offload?\n')
    put(api, history=FOLLOWED["history"][1:])
    code, _, error = await ctl("rollout", "undo", "offload")
    assert code == 1
    assert "take it out of pykoord-config" in error
    api.delete(CONFIG_MAPS, f"{NAME}-rollout", NAMESPACE)
    code, _, error = await ctl("rollout", "status")
    assert code == 1
    assert "koord-manager keeps it with --feature-gates=RolloutGuard=true" in error
