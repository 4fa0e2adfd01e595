"""koordlet as it keeps this machine's pods by strategies, and why it does so.

Its rules are a NodeSLO in a file, which may change while it runs.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from koord_demo.programs import console_script

from tests.support.observing_koordlet import ObservingKoordlet
from tests.support.processes import PATIENCE, until


class DecidingKoordlet(ObservingKoordlet):
    """Looks at pods, rules and the kernel's files as often as it can."""

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
        """What a strategy has decided of an aspect; its numbers are in ``numbers``, by name."""
        for one in self.why(strategy=strategy)["decisions"]:
            if one["aspect"] == aspect:
                numbers = {given["name"]: given["value"] for given in one["given"]}
                return {**one, "numbers": numbers}
        return None

    def outcome(self, strategy: str, aspect: str = "") -> str:
        """Its outcome; "" where nothing is decided."""
        found = self.decision(strategy, aspect)
        return str(found["outcome"]) if found else ""

    def koordctl_why(self, *words: str) -> str:
        """What ``koordctl why`` shows people."""
        address = f"--address=unix://{self.status}"
        command = [console_script("koordctl"), "why", *words, address]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=PATIENCE
        )
        assert (done.returncode, done.stderr) == (0, ""), done
        return done.stdout

    def knows(self, count: int) -> None:
        """Wait until it knows so many pods."""
        until(lambda: len(self.top()) == count, f"koordlet knows {count} pods")
