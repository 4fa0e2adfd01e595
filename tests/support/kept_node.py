"""koordlet as it keeps this machine's pods, and what it says and writes of that."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from koord_host.resource_executor.journal import ChangeEntry, read
from koord_model.qos import KubeQoS
from koordctl.koordlet_documents import WhyDocument

from koordctl import proxy_documents
from tests.support.kubepods import LAYOUT
from tests.support.pod_cases import RULES
from tests.support.processes import get, until
from tests.support.proxy import Koordlet

_OFTEN = (
    "--runtime-hooks-reconcile-interval=0.3",
    "--kubelet-sync-interval=0.3",
    "--resource-force-update-seconds=1",
)

_QUIET = 100
"""Looks at the journal, some milliseconds apart."""

SHARED_GROUPS = tuple(LAYOUT.kube_qos_group(qos) for qos in KubeQoS)
"""Other tests' koordlets on this machine write these too."""


class NodeKoordlet(Koordlet):
    """All plugins, the rules of the table, and rounds that follow soon; flags may say otherwise."""

    def __init__(self, directory: Path, *flags: str) -> None:
        rules = directory / "rules.yaml"
        rules.write_text(RULES)
        settings = ("--hook-plugins=all", f"--nodeslo-file={rules}", *_OFTEN)
        super().__init__(directory, directory / "hookserver.d", *settings, *flags)
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

        until(quiet, "the node is level")

    def why(self, pod: str) -> WhyDocument:
        """What it says of a pod when it is asked why."""
        body = get(self.directory / "status.sock", f"/v1/why?pod={pod}")
        return proxy_documents.read(body.encode(), WhyDocument)

    def finish(self) -> None:
        """Stop it, and see that it found no defect in itself."""
        assert self.stop() == 0
        assert "Traceback" not in self.said
