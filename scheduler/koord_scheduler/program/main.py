"""The ``koord-scheduler`` program: settings in, a run of the scheduler, an exit code."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from koord_kube.client import Limits
from koord_kube.component_program import run_component
from koord_kube.connect import connect
from koord_service import logs
from koord_service.settings_check import SettingsReport
from koord_service.tracing import open_tracing

from koord_scheduler.arguments.problems import SchedulerConfigError
from koord_scheduler.config.document import parse_document
from koord_scheduler.config.scheduler_config import (
    SchedulerConfig,
    default_scheduler_config,
    scheduler_config,
)
from koord_scheduler.framework.recording import (
    FORMAT,
    RecordingHeader,
    decisive_configuration,
)
from koord_scheduler.io.recorder import Recorder
from koord_scheduler.program.added_plugins import added_plugins
from koord_scheduler.program.gates import gates_of
from koord_scheduler.program.program import SchedulerProgram
from koord_scheduler.program.settings import IGNORED, SchedulerSettings

PROGRAM = "koord-scheduler"

log = logs.get_log("scheduler")


def main() -> None:
    """Serve until SIGTERM; exit 2 on invalid settings, 1 on other errors."""
    description = "Gives pods their nodes, as kube-scheduler does."
    run_component(PROGRAM, description, SchedulerSettings, IGNORED, _run, log, _check)


def _check(settings: SchedulerSettings) -> SettingsReport:
    config, _ = read_config(settings.configuration)
    gates, unknown = gates_of(settings.feature_gates)
    in_force = [
        f"profile {name}: {', '.join(sorted({plugin.plugin.name for plugin in plugins}))}"
        for name, plugins in (
            (made.profile.scheduler_name, made.profile.plugins) for made in config.profiles
        )
    ]
    in_force.append(f"feature gates: {', '.join(name for name, on in gates.items() if on)}")
    return SettingsReport(
        in_force,
        [
            *(f"plugins that are not built, {line}" for line in unmet(config)),
            *config.without_effect,
            *(f"feature gate {gate}" for gate in unknown),
        ],
    )


async def _run(settings: SchedulerSettings) -> None:
    config, document = read_config(settings.configuration)
    for line in unmet(config):
        log.warning("not built yet", what=line)
    if config.without_effect:
        log.warning("settings without effect", what=", ".join(config.without_effect))
    if not settings.configuration and settings.leader_elect is not False:
        log.warning("no --config: in the place of kube-scheduler", **_place_of(settings))
    kubeconfig = settings.kubeconfig or config.kubeconfig
    async with await connect(kubeconfig, Limits(qps=0)) as client:
        identity = settings.new_identity()
        recorder = _recorder(settings, document, identity) if settings.record_to else None
        with open_tracing(PROGRAM, settings) as tracing:
            await SchedulerProgram(settings, config, client, identity, recorder, tracing).serve()


def _place_of(settings: SchedulerSettings) -> dict[str, str]:
    name = settings.leader_elect_resource_name or "kube-scheduler"
    namespace = settings.leader_elect_resource_namespace or "kube-system"
    return {
        "lease": f"{namespace}/{name}",
        "pods": "those without a schedulerName",
        "instead": "--config with a profile and a Lease of its own runs beside it",
    }


def _recorder(
    settings: SchedulerSettings, configuration: Mapping[str, Any], identity: str
) -> Recorder:
    header = RecordingHeader(
        FORMAT,
        time.time(),
        time.monotonic(),
        settings.tie_break_seed,
        decisive_configuration(configuration),
        feature_gates=settings.feature_gates,
    )
    return Recorder(Path(settings.record_to), identity, header)


def read_config(path: str) -> tuple[SchedulerConfig, Mapping[str, Any]]:
    """The configuration in a file, and its document; the default one has none.

    Raises:
        ValueError: it cannot be read, or not be honoured; one line.
    """
    if not path:
        return default_scheduler_config(), {}
    added = added_plugins()
    try:
        document = parse_document(Path(path).read_text())
        return scheduler_config(document, added), document
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--config: cannot read {path}: {error}") from None
    except SchedulerConfigError as error:
        raise ValueError(f"{path}: {error}") from None


def unmet(config: SchedulerConfig) -> Iterator[str]:
    """Describe plugins that are enabled and not there, a line for each profile."""
    for profile in config.profiles:
        if profile.not_built:
            yield f"{profile.profile.scheduler_name}: {', '.join(sorted(profile.not_built))}"


if __name__ == "__main__":
    main()
