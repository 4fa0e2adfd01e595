"""The ``koord-scheduler`` program: settings in, a run of the scheduler, an exit code."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from pathlib import Path

from koord_kube.client import Limits
from koord_kube.connect import connect
from koord_kube.program_start import run_program
from koord_service import logs, memory
from koord_service.settings import parse_or_exit

from koord_scheduler.config.problems import SchedulerConfigError
from koord_scheduler.config.scheduler_config import (
    SchedulerConfig,
    default_scheduler_config,
    read_scheduler_config,
)
from koord_scheduler.program.added_plugins import added_plugins
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
    config = read_config(settings.configuration)
    for line in unmet(config):
        log.warning("not built yet", what=line)
    kubeconfig = settings.kubeconfig or config.kubeconfig
    async with await connect(kubeconfig, Limits(qps=0)) as client:
        identity = f"{settings.pod_name or socket.gethostname()}_{secrets.token_hex(4)}"
        await SchedulerProgram(settings, config, client, identity).serve()


def read_config(path: str) -> SchedulerConfig:
    """The configuration in a file, or the default one.

    Raises:
        ValueError: it cannot be read, or not be honoured; one line.
    """
    if not path:
        return default_scheduler_config()
    added = added_plugins()
    try:
        return read_scheduler_config(Path(path).read_text(), added)
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--config: cannot read {path}: {error}") from None
    except SchedulerConfigError as error:
        raise ValueError(f"{path}: {error}") from None


def unmet(config: SchedulerConfig) -> Iterator[str]:
    """What is enabled and not there, a line for each profile."""
    for one in config.profiles:
        if one.not_built:
            yield f"{one.profile.scheduler_name}: {', '.join(sorted(one.not_built))}"


if __name__ == "__main__":
    main()
