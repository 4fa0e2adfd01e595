"""The ``koord-scheduler`` program: settings in, a run of the scheduler, an exit code."""

from __future__ import annotations

import os
import secrets
import socket

from koord_kube.client import Limits
from koord_kube.connect import connect
from koord_kube.program_start import run_program
from koord_service import logs, memory
from koord_service.settings import parse_or_exit

from koord_scheduler.program.program import SchedulerProgram
from koord_scheduler.program.settings import IGNORED, SchedulerSettings

PROGRAM = "koord-scheduler"

log = logs.get_log("scheduler")


def main() -> None:
    """Serve until SIGTERM; exit 2 on invalid settings, 1 on other errors."""
    settings = parse_or_exit(
        SchedulerSettings,
        prog=PROGRAM,
        description="Gives pods their nodes, as kube-scheduler does.",
        environ=os.environ,
        ignored=IGNORED,
    )
    memory.collect_young_only()
    logs.configure(settings.log_format, settings.log_level)
    IGNORED.report(log)
    run_program(PROGRAM, _run(settings), log)


async def _run(settings: SchedulerSettings) -> None:
    async with await connect(settings.kubeconfig, Limits(qps=0)) as client:
        name = settings.pod_name or socket.gethostname()
        await SchedulerProgram(settings, client, f"{name}_{secrets.token_hex(4)}").serve()


if __name__ == "__main__":
    main()
