"""Arguments of NodeQuarantine. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.fields import Positive
from koord_scheduler.arguments.problems import problem
from koord_scheduler.plugins.node_quarantine.settings import QuarantineSettings


class NodeQuarantineArgs(PluginArgs, frozen=True):
    """Rejections among the last bindings that are too many, and the pauses before trials."""

    rejections: Positive = 3
    of_bindings: Positive = 5
    first_pause_seconds: Positive = 30
    longest_pause_seconds: Positive = 1800

    def problems(self, path: str) -> Iterator[str]:
        if self.rejections > self.of_bindings:
            expected = f"at most ofBindings ({self.of_bindings})"
            yield problem(f"{path}.rejections", self.rejections, expected)
        if self.of_bindings > 100:
            yield problem(f"{path}.ofBindings", self.of_bindings, "at most 100")
        if self.first_pause_seconds > self.longest_pause_seconds:
            expected = f"at most longestPauseSeconds ({self.longest_pause_seconds})"
            yield problem(f"{path}.firstPauseSeconds", self.first_pause_seconds, expected)

    def settings(self) -> QuarantineSettings:
        """The same for the plugin."""
        pauses = float(self.first_pause_seconds), float(self.longest_pause_seconds)
        return QuarantineSettings(self.rejections, self.of_bindings, *pauses)
