"""The ``koord-manager`` program: settings in, a run of the manager, an exit code."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections.abc import Mapping
from typing import NoReturn

import uvloop
from koord_kube.client import Limits
from koord_kube.connect import ConnectError, connect
from koord_service import logs
from koord_service.settings import parse_or_exit

from koord_manager.config import Settings
from koord_manager.manager import Manager

PROGRAM = "koord-manager"

_GO_NAMES = {
    "WEBHOOK_CERT_DIR": "WEBHOOK_CERT_DIR",
    "SECRET_NAME": "WEBHOOK_SECRET",
    "SERVICE_NAME": "WEBHOOK_SERVICE",
    "WEBHOOK_CONFIGURATION_FAILURE_POLICY_PODS": "WEBHOOK_CONFIGURATION_FAILURE_POLICY_PODS",
}
"""Environment variables of Koordinator's manifests, and the settings that they are."""


def main() -> None:
    """Serve until SIGTERM; exit 2 on settings that cannot be, 1 on other trouble."""
    settings = parse_or_exit(
        Settings,
        prog=PROGRAM,
        description="Koordinator's manager: what nodes offer, how their agents are set, and what "
        "becomes of pods that are created.",
        environ=environment(os.environ),
    )
    logs.configure(settings.log_format, settings.log_level)
    try:
        uvloop.run(_run(settings))
    except* OSError as group:
        _leave(1, _first(group))
    except* (ValueError, ConnectError) as group:
        _leave(2, _first(group))


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
        await Manager(settings, client, f"{name}_{secrets.token_hex(4)}").serve()


def _first(group: BaseExceptionGroup[BaseException]) -> str:
    first: BaseException = group
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return str(first)


def _leave(code: int, message: str) -> NoReturn:
    sys.stderr.write(f"{PROGRAM}: {' '.join(message.split())}\n")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
