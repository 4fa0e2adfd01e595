"""koordlet as a program on this machine: it observes, reconciles, or decides by strategies."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from koord_demo.programs import console_script
from koord_host.resource_executor.journal import ChangeEntry
from koord_model.qos import KubeQoS
from koordctl.koordlet_documents import WhyDocument

from koordctl import proxy_documents
from tests.support.journals import read
from tests.support.kubepods import LAYOUT
from tests.support.pod_cases import RULES
from tests.support.processes import PATIENCE, get, until
from tests.support.proxy import Koordlet

SHARED_GROUPS = tuple(LAYOUT.kube_qos_group(qos) for qos in KubeQoS)
"""Other tests' koordlets on this machine write these too."""

_QUIET = 100
"""Looks at the journal, some milliseconds apart."""


class StatusKoordlet(Koordlet):
    """One whose status pages are read."""

    def __init__(self, directory: Path, hooks: Path, *flags: str) -> None:
        super().__init__(directory, hooks, *flags)
        self.status = directory / "status.sock"

    def page(self, path: str, **parameters: object) -> Any:
        query = f"?{urlencode(parameters)}" if parameters else ""
        return json.loads(get(self.status, path + query))

    def koordctl_why(self, *words: str) -> str:
        """What ``koordctl why`` shows people."""
        return self.koordctl("why", *words, address="--address")

    def koordctl(self, *words: str, address: str = "--koordlet-address") -> str:
        """What ``koordctl`` shows people; ``address`` is its flag for koordlet's."""
        command = [console_script("koordctl"), *words, f"{address}=unix://{self.status}"]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=PATIENCE
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout


class NodeKoordlet(StatusKoordlet):
    """Has all plugins, the rules of the table, and short intervals; flags may say otherwise."""

    def __init__(self, directory: Path, *flags: str) -> None:
        rules = directory / "rules.yaml"
        rules.write_text(RULES)
        super().__init__(
            directory,
            directory / "hookserver.d",
            "--hook-plugins=all",
            f"--nodeslo-file={rules}",
            "--runtime-hooks-reconcile-interval=0.3",
            "--kubelet-sync-interval=0.3",
            "--resource-force-update-seconds=1",
            *flags,
        )
        self.state = directory / "koordlet"

    def journal(self) -> list[ChangeEntry]:
        """Every change of the node so far."""
        return list(read(str(self.state / "journal.jsonl")))

    def written_more_than_once(self) -> dict[tuple[str, str], int]:
        """Files of pods that have more than one line in the journal."""
        lines = [one for one in self.journal() if one.group not in SHARED_GROUPS]
        counts = Counter((one.group, one.knob) for one in lines)
        return {file: count for file, count in counts.items() if count > 1}

    def complaints(self, *known: str) -> list[str]:
        """Warnings and errors, but for those whose messages are known."""
        return [
            json.dumps(event)
            for event in self.events()
            if event["level"] in ("warning", "error")
            and event["message"] not in (*known, "nri not available yet, waiting")
            and event.get("group") not in SHARED_GROUPS
        ]

    def comes_to_rest(self) -> None:
        """Wait until nothing has been written for some rounds."""
        seen = [self.journal()]

        def quiet() -> bool:
            seen.append(self.journal())
            return len(seen) > _QUIET and seen[-1] == seen[-1 - _QUIET]

        until(quiet, "nothing is written any more")

    def why(self, pod: str) -> WhyDocument:
        """The page /v1/why of a pod."""
        return proxy_documents.read(get(self.status, f"/v1/why?pod={pod}").encode(), WhyDocument)

    def finish(self) -> None:
        """Stop it, and see that it found no defect in itself."""
        assert self.stop() == 0
        assert "Traceback" not in self.said


class ObservingKoordlet(StatusKoordlet):
    """Writes nothing; reads the list of pods, a file, once in ten minutes, unless woken."""

    def __init__(self, directory: Path) -> None:
        self.pods_file = directory / "pods.json"
        super().__init__(
            directory,
            directory / "hookserver.d",
            "--read-only",
            "--standalone",
            f"--pod-list-source={self.pods_file}",
            "--kubelet-sync-interval=600",
        )

    def next_look(self) -> float:
        """Wait for the next look at pods; its time, in seconds since the epoch."""
        before = self._looked_at()
        until(lambda: self._looked_at() > before, "the next look")
        return self._looked_at()

    def top(self) -> dict[str, dict[str, Any]]:
        """Pods of /v1/top, by uid."""
        return {pod["uid"]: pod for pod in self.page("/v1/top")["pods"]}

    def knows(self, count: int) -> None:
        """Wait until it knows so many pods."""
        until(lambda: len(self.top()) == count, f"koordlet knows {count} pods")

    def measured(self, kind: str, since: float) -> dict[tuple[str, ...], dict[str, float]]:
        """Each series' aggregates over the steps after that of ``since``."""
        window = time.time() - (since // 1 + 0.5)
        page = self.page(
            "/v1/metrics/query", kind=kind, window=window, aggregation="avg,last,count,min,max"
        )
        return {tuple(one["labels"].values()): one["values"] for one in page["series"]}

    def curve(self, kind: str, window: str = "1m") -> dict[tuple[Any, ...], float]:
        """The points of all series of a kind in the last minute, by labels and time."""
        page = self.page("/v1/metrics/query", kind=kind, window=window, points=1, step=1)
        return {
            (*one["labels"].values(), at): value
            for one in page["series"]
            if one["points"]  # one that began in the step under way has none
            for at, value in zip(page["times"], one["points"], strict=True)
            if value is not None
        }

    def _looked_at(self) -> float:
        collectors = self.page("/v1/node")["collectors"]
        return next(float(c["looked_at"]) for c in collectors if c["name"] == "podresource")


class DecidingKoordlet(ObservingKoordlet):
    """Runs strategies, at short intervals; its NodeSLO is a file that may change."""

    def __init__(self, directory: Path, *flags: str) -> None:
        super().__init__(directory)
        self.rules = directory / "nodeslo.json"
        self.ask()
        self.flags += [
            "--read-only=false",
            f"--nodeslo-file={self.rules}",
            "--kubelet-sync-interval=0.5",
            "--runtime-hooks-reconcile-interval=0.5",
            *flags,
        ]

    def __exit__(self, *error: Any) -> None:
        if any(error):
            with contextlib.suppress(Exception):  # it may be gone: the test's error counts
                print(self.said, self.koordctl_why("strategies"), json.dumps(self.why(), indent=1))
        super().__exit__(*error)

    def ask(self, extensions: Mapping[str, object] | None = None, **sections: object) -> None:
        """Have a NodeSLO with these sections; ``extensions`` are modes and settings by strategy."""
        spec = dict(sections)
        if extensions:
            spec["extensions"] = {"pykoord": {"strategies": extensions}}
        aside = self.rules.with_suffix(".new")
        aside.write_text(json.dumps({"kind": "NodeSLO", "spec": spec}))
        aside.rename(self.rules)

    def why(self, **asked: object) -> dict[str, Any]:
        """The page /v1/why."""
        page: dict[str, Any] = self.page("/v1/why", **asked)
        return page

    def decision(self, strategy: str, aspect: str = "") -> dict[str, Any] | None:
        """A strategy's decision about an aspect; its numbers are in ``numbers``, by name."""
        for one in self.why(strategy=strategy)["decisions"]:
            if one["aspect"] == aspect:
                numbers = {given["name"]: given["value"] for given in one["given"]}
                return {**one, "numbers": numbers}
        return None

    def outcome(self, strategy: str, aspect: str = "") -> str:
        """Its outcome; "" where nothing is decided."""
        found = self.decision(strategy, aspect)
        return str(found["outcome"]) if found else ""
