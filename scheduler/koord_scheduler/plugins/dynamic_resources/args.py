"""Arguments of DynamicResources. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_model import duration

from koord_scheduler.arguments.base_args import PluginArgs
from koord_scheduler.arguments.problems import problem


class DynamicResourcesArgs(PluginArgs, frozen=True):
    """Arguments of DynamicResources; durations are as Go writes them."""

    filter_timeout: str = "10s"
    binding_timeout: str = "10m0s"

    def problems(self, path: str) -> Iterator[str]:
        times = {"filterTimeout": self.filter_timeout, "bindingTimeout": self.binding_timeout}
        for name, text in times.items():
            try:
                duration.seconds(text)
            except ValueError:
                yield problem(f"{path}.{name}", text, "a duration like 10s or 1m30s")
