"""koord-runtime-proxy and koordlet as real processes, and what they say of themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from koord_demo.programs import console_script
from koord_proxy.rules.breaker import FIRST_PAUSE, LONGEST_PAUSE
from prometheus_client.parser import text_string_to_metric_families

from tests.support.cri import Cri
from tests.support.hook_server import LENIENT, Behaviour, HookServer
from tests.support.processes import Program, get, until

GIVEN_UP = "hook server unavailable, skipping it until it answers"
"""What a proxy says when it opens a breaker."""


def trials(seconds: float, deadline: float) -> int:
    """How often at most a hung server, or one that is away, is tried again in so many seconds.

    ``deadline`` is what each trial takes. From one to the next the proxy pauses longer.
    """
    number, pause, at = 0, FIRST_PAUSE, FIRST_PAUSE
    while at <= seconds:
        number, pause = number + 1, min(2 * pause, LONGEST_PAUSE)
        at += deadline + pause
    return number


def connect(address: object, service: str = "runtime.v1") -> Cri:
    """A CRI client whose connection stands; where the machine is busy that takes a while."""
    client = Cri(address, service)
    client.wait_until_ready()
    return client


class Agent(Program):
    """A program that is started by entering a block, and ended by leaving it."""

    def start(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Proxy(Agent):
    """The proxy in front of a backend; all its files are in one directory (a short path)."""

    def __init__(self, directory: Path, backend: object, *flags: str, name: str = "proxy") -> None:
        super().__init__(name, directory)
        self.address = directory / f"{name}.sock"
        self.hooks = directory / "hookserver.d"
        self.state = directory / "state.db"
        self.status = directory / f"{name}-status.sock"
        self.flags = [
            f"--koord-runtimeproxy-endpoint={self.address}",
            f"--remote-runtime-service-endpoint={backend}",
            f"--hook-config-path={self.hooks}",
            f"--state-path={self.state}",
            f"--metrics-address=unix://{self.status}",
            "--log-format=json",
            *flags,
        ]

    def start(self, *, reconciled: bool = True) -> None:
        """Start, and wait until it serves; by default until its records are in line, too."""
        self.launch()
        self.wait_until(self._serving, "does not serve")
        if reconciled:
            self.wait_until(lambda: self.healthz()["reconciled"], "is not reconciled")

    def launch(self) -> None:
        """Start, and wait for nothing."""
        self.spawn([console_script("koord-runtime-proxy"), *self.flags])

    def restart_after_kill(self) -> None:
        """kill -9, and start again."""
        self.kill()
        self.start()

    def cri(self, service: str = "runtime.v1") -> Cri:
        """A new client, with a connection of its own, which stands."""
        return connect(self.address, service)

    def healthz(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(get(self.status, "/healthz"))
        return found

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(get(self.status, "/pods"))
        return found

    def containers(self) -> dict[str, dict[str, Any]]:
        """Containers at /pods, by id."""
        return {one["id"]: one for pod in self.pods() for one in pod["containers"]}

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels; 0 where there are none."""
        return sum(
            value
            for found, has, value in self._samples()
            if found == f"koord_runtime_proxy_{name}" and labels.items() <= has.items()
        )

    def outcomes(self, outcome: str, **labels: str) -> float:
        """How many hook calls had an outcome."""
        return self.metric("hook_outcomes_total", outcome=outcome, **labels)

    def breaker(self, server: str) -> str:
        """closed, half_open or open; empty where the server is not in use."""
        return self._of_server(server, "breaker")

    def policy(self, server: str) -> str:
        """Fail or Ignore; empty where the server is not in use."""
        return self._of_server(server, "policy")

    def use(self, hooks: HookServer, behave: Behaviour | None = None, **more: Any) -> Path:
        """Register a hook server, and wait until it is in use; its registration."""
        hooks.behave = behave or hooks.behave
        file = hooks.register(self.hooks, **more)
        self.wait_for_server(hooks.name)
        return file

    def wait_for_server(self, name: str) -> None:
        """Wait until a hook server's registration is in use."""
        self.wait_until(lambda: self.breaker(name), f"does not use {name}")

    def wait_for_breaker_not_open(self, name: str) -> None:
        """Wait until a hook server is asked again."""
        self.wait_until(lambda: self.breaker(name) in ("closed", "half_open"), f"{name} is away")

    def _of_server(self, server: str, what: str) -> str:
        servers = self.healthz()["hook_servers"]
        return next((str(one[what]) for one in servers if one["name"] == server), "")

    def _samples(self) -> Iterator[tuple[str, dict[str, str], float]]:
        for family in text_string_to_metric_families(get(self.status, "/metrics")):
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value

    def _serving(self) -> bool:
        try:
            get(self.status, "/healthz")
        except OSError:
            return False
        return self.address.exists()


class Koordlet(Agent):
    """koordlet, registered where a proxy looks, which waits long for its answers."""

    def __init__(self, directory: Path, hooks: Path, *flags: str) -> None:
        super().__init__("koordlet", directory)
        self.socket = directory / "koordlet.sock"
        self.registration = hooks / "koordlet.json"
        self.flags = [
            f"--runtime-hooks-addr={self.socket}",
            f"--runtime-hooks-host-endpoint={self.socket}",
            f"--runtime-hooks-config-path={hooks}",
            f"--runtime-hooks-nri-socket-path={directory / 'nri.sock'}",
            f"--state-dir={directory / 'koordlet'}",
            f"--var-lib-kubelet-dir={directory}",
            f"--hook-timeout={LENIENT:g}",
            f"--plugin-registration-dir={directory / 'plugins'}",
            f"--resource-plugins-socket={directory / 'resource-plugins' / 'kubelet.sock'}",
            # It would stop once another test's groups come, to be started again.
            "--cgroup-driver=cgroupfs",
            "--log-format=json",
            *flags,
        ]

    def find_a_static_kubelet(self) -> None:
        """Let it see a kubelet that assigns CPUs itself; it looks with the next pod."""
        state = '{"policyName":"static","defaultCpuSet":"","entries":{},"checksum":0}'
        (self.directory / "cpu_manager_state").write_text(state)

    def start(self) -> None:
        """Start, and wait until it serves."""
        before = len(self._serving())
        self.spawn([console_script("koordlet"), *self.flags])
        self.wait_until(lambda: len(self._serving()) > before, "does not serve")
        until(lambda: bool(self.events("read-only")) or self.registration.exists())

    def _serving(self) -> list[dict[str, Any]]:
        return [*self.events("serving"), *self.events("read-only")]
