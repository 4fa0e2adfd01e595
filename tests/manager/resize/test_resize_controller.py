"""The controller before a double of the API server, which has the rules of /resize."""

from __future__ import annotations

import json
from typing import Any

from koord_kube.protocol.resources import DEPLOYMENTS, PODS, RECOMMENDATIONS
from koord_manager.resize.controller import ResizeController
from koord_manager.resize.core import policy
from koord_manager.resize.core.floors import ANNOTATION_FLOORS
from koord_manager.resize.core.pods import ANNOTATION_RECORD
from koord_model.times import rfc3339

from tests.manager.conftest import PACE, Bench

BEFORE = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "2Gi"}}
AFTER = {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"memory": "1Gi"}}
UNDONE = {**BEFORE, "requests": {"cpu": "500m", "memory": "1Gi"}}


class Shop:
    """A Deployment of two pods, and a Recommendation that asks for half of all."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.now = bench, 1_795_168_800.0
        self.throttled = 0.0
        bench.api.installed |= {PODS, DEPLOYMENTS, RECOMMENDATIONS}
        self.deploy(available=2)
        for name in ("web-0", "web-1"):
            self.pod(name)

    def deploy(self, available: int) -> None:
        numbers = ("replicas", "updatedReplicas", "availableReplicas")
        status = {"observedGeneration": 9, **dict.fromkeys(numbers, available)}
        meta, spec = {"name": "web"}, {"replicas": 2}
        self.bench.api.put(DEPLOYMENTS, {"metadata": meta, "spec": spec, "status": status}, "shop")

    def pod(self, name: str, **state: Any) -> None:
        owner = {"kind": "ReplicaSet", "name": "web-5", "controller": True}
        labels = {"pod-template-hash": "5"}
        status = {"name": "c", "state": {"running": {}}, "resources": BEFORE}
        self.bench.api.put(
            PODS,
            {
                "metadata": {"name": name, "labels": labels, "ownerReferences": [owner]},
                "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": BEFORE}]},
                "status": {"phase": "Running", "containerStatuses": [{**status, **state}]},
            },
            "shop",
        )

    def kill(self, name: str) -> None:
        """Its container runs out of memory."""
        found = self.bench.api.get(PODS, name, "shop")
        ended = {"reason": "OOMKilled", "finishedAt": rfc3339(self.now)}
        found["status"]["containerStatuses"][0]["lastState"] = {"terminated": ended}
        self.bench.api.put(PODS, found, "shop")

    def recommend(self, **more: Any) -> None:
        annotations = {policy.ANNOTATION: json.dumps({"mode": "inPlace", **more})}
        target = {"type": "workload", "workload": {"kind": "Deployment", "name": "web"}}
        half = {"cpu": "500m", "memory": "512Mi"}
        pod = {"containerStatuses": [{"containerName": "c", "resources": half}]}
        status = {"podStatus": pod, "updateTime": rfc3339(self.now)}
        meta = {"name": "web", "annotations": annotations}
        given = {"metadata": meta, "spec": {"target": target}, "status": status}
        self.bench.api.put(RECOMMENDATIONS, given, "shop")

    def lead(self) -> ResizeController:
        made = ResizeController(
            self.bench.client,
            self.status,
            self.bench.recorder(),
            on_warning=self.bench.reported.append,
            interval=0.02,
            clock=lambda: self.now,
            pace=PACE,
        )
        self.task = self.bench.run(made.run())
        return made

    def status(self, _node: str) -> bytes:
        ours = {"pykoord": {"throttled": self.throttled}}
        pods = [{"namespace": "shop", "name": "web-0", "extensions": ours}]
        return json.dumps({"updateTime": rfc3339(self.now), "podsMetric": pods}).encode()

    def resources(self, name: str = "web-0") -> Any:
        return self.bench.api.get(PODS, name, "shop")["spec"]["containers"][0]["resources"]

    def record(self, name: str = "web-0") -> str:
        found = self.bench.api.get(PODS, name, "shop")["metadata"].get("annotations") or {}
        return str(found.get(ANNOTATION_RECORD, ""))

    def reasons(self) -> set[str]:
        return {reason for reason, _ in self.bench.events()}

    async def until_said(self, manager: ResizeController, words: str) -> None:
        await self.bench.until(lambda: words in json.dumps(manager.why("shop/web")))


async def test_shadow_first_then_one_pod_after_the_other(bench: Bench) -> None:
    shop = Shop(bench)
    shop.recommend()
    manager = shop.lead()
    await bench.until(lambda: "ResizeShadow" in shop.reasons())
    [line] = [message for reason, message in bench.events() if reason == "ResizeShadow"]
    assert line.startswith("would resize 2 pods, among them web-0: c: cpu 1 → 500m")
    assert shop.resources() == BEFORE
    shop.deploy(available=1)
    shop.recommend(shadow=False)
    await shop.until_said(manager, "Deployment web: 1 of 2 pods are updated")
    assert shop.resources() == BEFORE
    shop.deploy(available=2)
    await bench.until(lambda: shop.resources() == AFTER)
    await shop.until_said(manager, "other pods of its workload come first")
    assert shop.resources("web-1") == BEFORE
    shop.now += 601
    await bench.until(lambda: shop.resources("web-1") == AFTER)
    await bench.until(lambda: manager.states()["none"] == 2)
    assert manager.done == {"resize": 2}
    assert "Resized" in shop.reasons()


async def test_a_resize_that_did_harm_is_undone_and_not_tried_again(bench: Bench) -> None:
    shop = Shop(bench)
    shop.recommend(shadow=False)
    first = shop.lead()
    await bench.until(lambda: first.done["resize"] == 1)
    shop.now += 60
    shop.task.cancel()  # also a new leader knows
    shop.kill("web-0")
    manager = shop.lead()
    await bench.until(lambda: shop.resources() == UNDONE)
    await bench.until(lambda: manager.states()["none"] >= 1)
    found = bench.api.get(RECOMMENDATIONS, "web", "shop")["metadata"]["annotations"]
    assert json.loads(found[ANNOTATION_FLOORS])["c"]["least"] == {
        "memory": 1 << 30,
        "limits.memory": 2 << 30,
    }
    assert manager.done == {"undo": 1}
    assert "ResizeUndone" in shop.reasons()


async def test_throttling_undoes_a_resize_too(bench: Bench) -> None:
    shop = Shop(bench)
    limited = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "2Gi"}}
    found = bench.api.get(PODS, "web-0", "shop")
    found["spec"]["containers"][0]["resources"] = limited
    bench.api.put(PODS, found, "shop")
    shop.recommend(shadow=False)
    manager = shop.lead()
    await bench.until(lambda: manager.done["resize"] == 1)
    shop.now, shop.throttled = shop.now + 300, 0.5
    await bench.until(lambda: shop.resources()["limits"]["cpu"] == "1")
    assert shop.resources()["limits"]["memory"] == "1Gi"
    await bench.until(lambda: "ResizeUndone" in shop.reasons())
    lines = [message for reason, message in bench.events() if reason == "ResizeUndone"]
    assert any("throttled in 50 % of CPU periods, and was in 0 %" in line for line in lines)


async def test_a_leader_that_dies_between_the_record_and_the_resize(bench: Bench) -> None:
    shop = Shop(bench)
    shop.recommend(shadow=False)
    bench.api.fail(verb="update", plural="pods", hang=True)
    shop.lead()
    await bench.api.wait_for("update", 1, "pods")
    assert shop.record()
    assert shop.resources() == BEFORE
    shop.task.cancel()
    shop.lead()
    await bench.until(lambda: shop.resources() == AFTER)


async def test_what_the_api_server_refuses_waits_and_is_explained(bench: Bench) -> None:
    shop = Shop(bench)
    shop.recommend(shadow=False)
    bench.api.fail(verb="update", plural="pods", status=403, message="exceeded quota", times=9)
    manager = shop.lead()
    await shop.until_said(manager, "exceeded quota")
    await bench.until(lambda: manager.done["refused"] == 2)
    await bench.until(lambda: manager.states()["wait"] == 2)
    assert bench.api.count("update", "pods") == 2
    assert "ResizeRefused" in shop.reasons()


async def test_another_s_change_meanwhile_is_seen(bench: Bench) -> None:
    shop = Shop(bench)
    shop.recommend(shadow=False)
    bench.api.fail(verb="update", plural="pods", slow=0.05)
    manager = shop.lead()
    await bench.api.wait_for("update", 1, "pods")
    found = bench.api.get(PODS, "web-0", "shop")
    found["metadata"]["labels"]["changed"] = "yes"
    bench.api.put(PODS, found, "shop")
    await bench.until(lambda: manager.done["resize"] == 1)
    assert manager.loop.failures == 1
    assert bench.api.get(PODS, "web-0", "shop")["metadata"]["labels"]["changed"] == "yes"
