"""Arguments of Koordinator's Coscheduling, with its defaults. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_model import duration

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import Int64
from koord_scheduler.arguments.problems import problem
from koord_scheduler.gangs.gang_spec import GangDefaults, MatchPolicy


class CoschedulingArgs(PluginArgs, frozen=True):
    """Arguments of Coscheduling; ``controller_workers`` and what is skipped make no difference."""

    default_timeout: str = "10m0s"
    controller_workers: Int64 = 1
    skip_check_schedule_cycle: bool = False
    enable_preemption: bool = False
    aware_network_topology: bool = False
    default_match_policy: str = MatchPolicy.ONCE_SATISFIED

    def problems(self, path: str) -> Iterator[str]:
        try:
            duration.seconds(self.default_timeout)
        except ValueError:
            yield problem(f"{path}.defaultTimeout", self.default_timeout, "a duration like 10m0s")
        if self.controller_workers < 1:
            yield problem(f"{path}.controllerWorkers", self.controller_workers, "1 or more")
        policies = list(MatchPolicy)
        if self.default_match_policy not in policies:
            expected = f"one of {', '.join(policies)}"
            yield problem(f"{path}.defaultMatchPolicy", self.default_match_policy, expected)

    def defaults(self) -> GangDefaults:
        """Return the defaults for gangs without settings of their own."""
        seconds, policy = duration.seconds(self.default_timeout), self.default_match_policy
        return GangDefaults(seconds, MatchPolicy(policy), self.enable_preemption)
