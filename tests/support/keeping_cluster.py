"""A cluster whose reservations keep more than amounts of a node: CPUs of their own, or devices."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from koord_model.keys import ANNOTATION_RESERVATION_ALLOCATED, LABEL_RESERVATION_IGNORED
from koord_scheduler.framework.decisions import Placement, Refusal
from koord_scheduler.framework.profile import EnabledPlugin
from koord_scheduler.framework.self_check import ROUND_SECONDS, SelfCheck
from koord_scheduler.io.placement_annotations import placement_annotations

from tests.support.reservations import OF_WEB, ReservationCluster, allocated, reservation

Written = Mapping[str, str | None]
"""The annotations that say what a pod or a reservation has."""


class KeepingCluster(ReservationCluster):
    """Pods ask for so much of one resource; reservations, for more than one pod, as well."""

    labels: Mapping[str, str] = {}
    """Of all pods, and of the templates of reservations."""

    def __init__(self, *nodes: str, more: Sequence[EnabledPlugin]) -> None:
        super().__init__(*nodes, more=more)
        self.check = SelfCheck(self.scheduler.nodes, self.scheduler.placed)

    def requests(self, amount: int) -> dict[str, str]:
        raise NotImplementedError

    def reserve(
        self, name: str, amount: int, node: str = "", written: Written | None = None, **more: Any
    ) -> None:
        """A Reservation; with a ``node`` it was ``written`` what it has there."""
        given = {"allocateOnce": False, **more}
        document = reservation(name, "8", node, owners=[OF_WEB], pod_labels=self.labels, **given)
        requests = {"cpu": "8", **self.requests(amount)}
        [container] = document["spec"]["template"]["spec"]["containers"]
        container["resources"]["requests"] = requests
        if node:
            document["status"]["allocatable"] = requests
        document["metadata"]["annotations"] = dict(written or {})
        self.put("Reservation", name, document)

    def reserved(self, name: str, amount: int, **more: Any) -> Written:
        """What a reservation gets, once the API says that it has it."""
        self.reserve(name, amount, **more)
        decision = self.decide()
        assert isinstance(decision, Placement)
        written = placement_annotations(decision)
        self.reserve(name, amount, decision.node, written, **more)
        return written

    def ask(
        self,
        name: str,
        amount: int,
        node: str = "",
        written: Written | None = None,
        *,
        app: str = "web",
        reserved: str = "",
        ignores: bool = False,
        priority: int = 9500,
    ) -> None:
        """A pod; with a ``node`` it was ``written`` what it has there.

        With another ``priority`` it may take the place of others.
        """
        annotations = {key: one for key, one in (written or {}).items() if one is not None}
        if reserved:
            text = json.dumps({"name": reserved, "uid": f"u-{reserved}"})
            annotations[ANNOTATION_RESERVATION_ALLOCATED] = text
        ignoring = {LABEL_RESERVATION_IGNORED: "true"} if ignores else {}
        labels = {"app": app, **self.labels, **ignoring}
        metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "labels": labels}
        requests = {"cpu": "1", **self.requests(amount)}
        spec = {
            "containers": [{"name": "c", "resources": {"requests": requests}}],
            "nodeName": node,
            "priority": priority,
            "preemptionPolicy": "Never" if priority == 9500 else "PreemptLowerPriority",
        }
        document = {"metadata": {**metadata, "annotations": annotations}, "spec": spec}
        self.put("Pod", f"shop/{name}", document)

    def give(self, name: str, amount: int, **more: Any) -> Written | None:
        """What a pod gets; ``None`` if it waits."""
        self.ask(name, amount, **more)
        decision = self.decide()
        return placement_annotations(decision) if isinstance(decision, Placement) else None

    def why(self, name: str) -> str:
        """Why a pod waits."""
        return self.message(Refusal(self.scheduler.queue.pods[f"shop/{name}"], ""))

    def live(
        self, rng: Random, amounts: Sequence[int], specs: Sequence[Written] = ({},)
    ) -> Iterator[dict[str, tuple[str, Written]]]:
        """Pods and reservations come and go: after each turn, what pods have, with their nodes.

        Some pods have annotations of ``specs`` from the beginning.
        """
        placed: dict[str, tuple[str, Written]] = {}
        asked: dict[str, int] = {}
        known: dict[str, tuple[int, dict[str, Any]]] = {}
        for turn in range(25):
            match rng.choice(["pod", "pod", "pod", "end", "reservation", "gone"]):
                case "pod":
                    asked[f"p{turn}"] = rng.choice(amounts)
                    app = rng.choice(["web", "web", "db"])
                    self.ask(f"p{turn}", asked[f"p{turn}"], written=rng.choice(specs), app=app)
                case "end" if placed:
                    name = rng.choice(sorted(placed))
                    del placed[name]
                    self.kinds["Pod"].remove(f"shop/{name}")
                case "reservation" if len(known) < 3:
                    policy = rng.choice(["Aligned", "Restricted"])
                    more = {"allocatePolicy": policy, "allocateOnce": rng.random() < 0.4}
                    known[f"r{turn}"] = rng.choice(amounts), more
                    self.reserve(f"r{turn}", known[f"r{turn}"][0], **more)
                case "gone" if known:
                    name = rng.choice(sorted(known))
                    del known[name]
                    self.kinds["Reservation"].remove(name)
            for decision in self._decisions():
                namespace, _, name = decision.pod.key.partition("/")
                written, node = placement_annotations(decision), decision.node
                if rng.random() < 0.2:
                    self.scheduler.forget(decision.pod, 0.0)
                elif namespace == "Reservation":
                    amount, more = known[name]
                    self.reserve(name, amount, node, written, **more)
                else:
                    placed[name], used = (node, written), allocated(decision)
                    app = dict(decision.pod.waiting.usage.labels.labels)["app"]
                    self.ask(name, asked[name], node, written, app=app, reserved=used)
                    if used and known[used][1]["allocateOnce"]:  # as the controller says
                        amount, more = known.pop(used)
                        self.reserve(used, amount, node, phase="Succeeded", **more)
            self.scheduler.tick(1e9)
            self.scheduler.wake(1e9)
            for _ in range(ROUND_SECONDS // 60):
                assert self.check.check_some() == []
            yield placed

    def _decisions(self) -> Iterator[Placement]:
        while (decision := self.scheduler.decide(0.0)) is not None:
            if isinstance(decision, Refusal):
                assert not decision.defect
                continue
            assert isinstance(decision, Placement)
            yield decision
