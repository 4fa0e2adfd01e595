"""koord-manager as a process of its own, beside an API server."""

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

NAMESPACE = "koordinator-system"
WEBHOOKS, LEADER = "koordinator-webhook-service", "koordinator-manager-leader"

QUICK = (
    "--lease-duration=5",
    "--renew-deadline=4",
    "--retry-period=0.5",
    "--noderesource-interval=0.5",
)
"""Leader election and passes as quick as a test would have them.

Where a stall of the machine is not to cost the Lease ``PATIENT`` is meant.
"""

PATIENT = (
    "--lease-duration=120",
    "--renew-deadline=60",
    "--retry-period=0.5",
    "--noderesource-interval=0.5",
)
"""Who waits for this Lease to run out waits longer than any test does."""


class ManagerProgram(Program):
    """One manager; its ports are its own, so that several run beside each other.

    It listens at ``host``. ``inside`` stands before its command, for a network of its own.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        kubeconfig: Path,
        *flags: str,
        host: str = "127.0.0.1",
        inside: Sequence[str] = (),
    ) -> None:
        super().__init__(name, folder)
        self.host = host
        self.webhook_port, self.api_port, self.report_port, self.port, self.health_port = (
            free_port() for _ in range(5)
        )
        self.kubeconfig = kubeconfig
        self.flags = flags
        self._inside = inside

    def start(self) -> None:
        """Start it."""
        self.spawn(
            [
                *self._inside,
                *(sys.executable, "-m", "koord_manager.program.main"),
                f"--kubeconfig={self.kubeconfig}",
                f"--metrics-addr={self.host}:{self.port}",
                f"--health-probe-addr={self.host}:{self.health_port}",
                f"--webhook-address={self.host}:{self.webhook_port}",
                f"--node-metric-api-address={self.host}:{self.api_port}",
                f"--node-metric-report-address={self.host}:{self.report_port}",
                f"--pod-ip={self.host}",
                f"--pod-name={self.name}",
                "--log-format=json",
                *self.flags,
            ]
        )

    @property
    def ready(self) -> bool:
        """Whether the kubelet would let it be asked."""
        try:
            with urlopen(f"http://{self.host}:{self.health_port}/readyz", timeout=30) as answer:
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

    def metrics(self) -> str:
        with urlopen(f"http://{self.host}:{self.port}/metrics", timeout=PATIENCE) as answer:
            return str(answer.read().decode())
