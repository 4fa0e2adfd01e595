"""The descheduler's flags: those of koord-descheduler that apply, by their names."""

from __future__ import annotations

from dataclasses import dataclass

from koord_kube.component_program import IGNORED as COMMON
from koord_kube.component_program import ComponentSettings
from koord_model import duration
from koord_service.go_flags import go_flags
from koord_service.settings import option

from koord_descheduler.program.gates import gates_of

IGNORED = COMMON | go_flags(values=("controllers", "master"))
"""Flags of Koordinator's descheduler without a meaning here."""


@dataclass(frozen=True)
class DeschedulerSettings(ComponentSettings):
    """Those of all components, and the descheduler's own."""

    configuration: str = option(
        "",
        "path of a DeschedulerConfiguration, or of upstream's DeschedulerPolicy (v1alpha2)",
        flag="--config",
        aliases=("--policy-config-file",),
    )
    scheduler_configuration: str = option(
        "",
        "path of the scheduler's KubeSchedulerConfiguration, by which places for pods are found;"
        " default: Kubernetes' default profile",
        flag="--scheduler-config",
    )
    write_config_to: str = option(
        "", "write the configuration with all defaults to this file, and exit"
    )
    descheduling_interval: str = option(
        "", "time between rounds like 5m, 0s for one alone; default: as the configuration has it"
    )
    feature_gates: tuple[str, ...] = option((), "feature gates, e.g. TideNodePool=true")
    dry_run: bool = option(False, "plan rounds and show them, evict nothing")
    cool_down: float = option(60.0, "for so long a pod stays where it was scheduled")
    move_memory: float = option(
        1800.0, "for so long no pod goes to a node that one of its owner was moved away from"
    )
    max_pods_per_target: int = option(
        5, "so many pods of a round may go to one node; 0: any number"
    )

    def __post_init__(self) -> None:
        """Check what no single type says.

        Raises:
            ValueError: one line naming the flag, its value and what was expected.
        """
        super().__post_init__()
        gates_of(self.feature_gates)
        try:
            duration.seconds(self.descheduling_interval or "0s")
        except ValueError:
            text = self.descheduling_interval
            raise ValueError(
                f'--descheduling-interval is "{text}"; expected a duration like 60s or 5m'
            ) from None
        for flag, value in (
            ("--cool-down", self.cool_down),
            ("--move-memory", self.move_memory),
            ("--max-pods-per-target", self.max_pods_per_target),
        ):
            if value < 0:
                raise ValueError(f"{flag} is {value:g}; expected 0 or more")
