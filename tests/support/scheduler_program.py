"""koord-scheduler as a process of its own, beside an API server."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.support.ports import free_port
from tests.support.processes import PATIENCE, Program

QUICK = (
    "--leader-elect-lease-duration=5",
    "--leader-elect-renew-deadline=4",
    "--leader-elect-retry-period=0.5",
)
"""Leader election as quick as a test would have it."""


class SchedulerProgram(Program):
    """One scheduler; its port is its own, so that several run beside each other.

    It listens at ``host``. ``inside`` stands before its command, for a network of its own;
    ``module`` is another one that runs it.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        kubeconfig: Path,
        *flags: str,
        host: str = "127.0.0.1",
        inside: Sequence[str] = (),
        module: str = "koord_scheduler",
    ) -> None:
        super().__init__(name, folder)
        self.host = host
        self.port = free_port()
        self.kubeconfig = kubeconfig
        self.flags = flags
        self._inside = inside
        self._module = module

    def start(self) -> None:
        """Start it."""
        self.spawn(
            [
                *self._inside,
                *(sys.executable, "-m", self._module),
                f"--kubeconfig={self.kubeconfig}",
                f"--bind-address={self.host}",
                f"--port={self.port}",
                f"--pod-name={self.name}",
                "--log-format=json",
                *self.flags,
            ]
        )

    @property
    def ready(self) -> bool:
        """Whether the kubelet would call it ready."""
        try:
            with urlopen(f"http://{self.host}:{self.port}/readyz", timeout=30) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    @property
    def leads(self) -> bool:
        return bool(self.page("/v1/status")["leads"])

    def page(self, path: str, **query: str) -> dict[str, Any]:
        """A page of its own as JSON."""
        url = f"http://{self.host}:{self.port}{path}?{urlencode(query)}"
        with urlopen(url, timeout=PATIENCE) as answer:
            return dict(json.load(answer))
