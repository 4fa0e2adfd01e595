"""The ``koord-manager`` program: settings in, a run of the manager, an exit code."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping

from koord_kube.client import Limits
from koord_kube.connect import connect
from koord_service import logs, memory
from koord_service.program_end import run_program
from koord_service.settings import parse_or_exit
from koord_service.settings_check import SettingsReport, check_and_exit
from koord_service.tracing import open_tracing

from koord_manager.program.config import Settings, enabled_controllers, idle_controllers
from koord_manager.program.gates import gates_of
from koord_manager.program.ignored_flags import IGNORED
from koord_manager.program.manager import Manager

PROGRAM = "koord-manager"

log = logs.get_log("manager")

_GO_NAMES = {
    "WEBHOOK_CERT_DIR": "WEBHOOK_CERT_DIR",
    "SECRET_NAME": "WEBHOOK_SECRET",
    "SERVICE_NAME": "WEBHOOK_SERVICE",
    "WEBHOOK_CONFIGURATION_FAILURE_POLICY_PODS": "WEBHOOK_CONFIGURATION_FAILURE_POLICY_PODS",
}
"""Environment variables of Koordinator's manifests, and the settings that they are."""


def main() -> None:
    """Serve until SIGTERM; exit 2 on invalid settings, 1 on other errors."""
    settings = parse_or_exit(
        Settings,
        prog=PROGRAM,
        description="Koordinator's manager: what nodes offer, how their agents are set, and what "
        "becomes of pods that are created.",
        environ=environment(os.environ),
        ignored=IGNORED,
        examples=("koord-manager --kubeconfig=admin.conf --check",),
    )
    if settings.check:
        check_and_exit(PROGRAM, lambda: check(settings))
    memory.limit_arenas()  # gRPC has threads, each of which would keep a heap of its own
    memory.collect_young_only()
    logs.configure(settings.log_format, settings.log_level)
    IGNORED.report(log)
    run_program(PROGRAM, _run(settings), log)


def check(settings: Settings) -> SettingsReport:
    """The gates and controllers that are in force, and what was given and changes nothing."""
    gates, unknown = gates_of(settings.feature_gates)
    return SettingsReport(
        [
            f"controllers: {', '.join(sorted(enabled_controllers(settings.controllers)))}",
            f"feature gates: {', '.join(name for name, on in gates.items() if on)}",
        ],
        [
            *idle_controllers(settings.controllers, gates),
            *(f"feature gate {gate}" for gate in unknown),
        ],
    )


def environment(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment, with Koordinator's names for settings understood where ours are absent."""
    prefix = PROGRAM.replace("-", "_").upper()
    known = {
        f"{prefix}_{ours}": environ[theirs]
        for theirs, ours in _GO_NAMES.items()
        if theirs in environ
    }
    if port := environ.get("WEBHOOK_PORT"):
        known[f"{prefix}_WEBHOOK_ADDRESS"] = f":{port}"
    return {**known, **environ}


async def _run(settings: Settings) -> None:
    # Writes wait for their turn at the fence; renewals of the Lease must not wait for others.
    async with await connect(settings.kubeconfig, Limits(qps=0)) as client:
        name = settings.pod_name or socket.gethostname()
        with open_tracing(PROGRAM, settings) as tracing:
            await Manager(settings, client, f"{name}_{secrets.token_hex(4)}", tracing).serve()


if __name__ == "__main__":
    main()
