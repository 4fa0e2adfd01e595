"""The ``koord-descheduler`` program: settings in, a run of it, an exit code."""

from __future__ import annotations

from pathlib import Path

from koord_kube.client import Limits
from koord_kube.component_program import run_component
from koord_kube.connect import connect
from koord_scheduler.arguments.problems import SchedulerConfigError
from koord_scheduler.config.scheduler_config import (
    SchedulerConfig,
    default_scheduler_config,
    read_scheduler_config,
)
from koord_service import logs
from koord_service.settings_check import SettingsReport

from koord_descheduler.config.descheduler_config import (
    DeschedulerConfig,
    default_descheduler_config,
    read_descheduler_config,
    written_config,
)
from koord_descheduler.program.added_plugins import added_plugins
from koord_descheduler.program.gates import gates_of
from koord_descheduler.program.program import DeschedulerProgram
from koord_descheduler.program.settings import IGNORED, DeschedulerSettings

PROGRAM = "koord-descheduler"

log = logs.get_log("descheduler")


def main() -> None:
    """Serve until SIGTERM; exit 2 on invalid settings, 1 on other errors."""
    description = "Moves pods to where they are better off, and says why."
    run_component(PROGRAM, description, DeschedulerSettings, IGNORED, _run, log, _check)


def _check(settings: DeschedulerSettings) -> SettingsReport:
    config = read_config(settings.configuration)
    read_scheduler(settings.scheduler_configuration)
    in_force = [
        f"profile {made.profile.name}: {', '.join(sorted(set().union(*made.names.values())))}"
        for made in config.profiles
    ]
    gates, unknown = gates_of(settings.feature_gates)
    in_force.append(f"feature gates: {', '.join(name for name, on in gates.items() if on)}")
    without_effect = [*config.without_effect, *(f"feature gate {gate}" for gate in unknown)]
    return SettingsReport(in_force, without_effect)


def _write(path: str, config: DeschedulerConfig) -> None:
    try:
        Path(path).write_text(written_config(config))
    except OSError as error:
        raise ValueError(f"--write-config-to: cannot write {path}: {error}") from None


async def _run(settings: DeschedulerSettings) -> None:
    config = read_config(settings.configuration)
    scheduler = read_scheduler(settings.scheduler_configuration)
    if settings.write_config_to:
        _write(settings.write_config_to, config)
        return
    for line in config.without_effect:
        log.warning("settings without effect", what=line)
    kubeconfig = settings.kubeconfig or config.kubeconfig
    async with await connect(kubeconfig, Limits(qps=0)) as client:
        identity = settings.new_identity()
        await DeschedulerProgram(settings, config, scheduler, client, identity).serve()


def read_config(path: str) -> DeschedulerConfig:
    """The configuration in a file, or the default one.

    Raises:
        ValueError: it cannot be read, or not be honoured; one line.
    """
    if not path:
        return default_descheduler_config()
    text = _text(path, "--config")
    try:
        return read_descheduler_config(text, added_plugins())
    except SchedulerConfigError as error:
        raise ValueError(f"{path}: {error}") from None


def read_scheduler(path: str) -> SchedulerConfig:
    """The scheduler's configuration in a file, or the default one.

    Raises:
        ValueError: as ``read_config``.
    """
    if not path:
        return default_scheduler_config()
    try:
        return read_scheduler_config(_text(path, "--scheduler-config"))
    except SchedulerConfigError as error:
        raise ValueError(f"{path}: {error}") from None


def _text(path: str, flag: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"{flag}: cannot read {path}: {error}") from None


if __name__ == "__main__":
    main()
