"""Common part of the arguments of all plugins. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_scheduler.arguments.fields import Strict


class PluginArgs(Strict, frozen=True):
    """Arguments of one plugin; a subclass has its fields."""

    api_version: str = ""
    kind: str = ""

    def problems(self, path: str) -> Iterator[str]:
        """Return the original's errors beyond types and bounds, in the arguments at ``path``."""
        return iter(())
