"""Pods that the arguments of a plugin name. No IO."""

from __future__ import annotations

from collections.abc import Iterator

from koord_scheduler.arguments.fields import Strict
from koord_scheduler.arguments.problems import problem


class EvictableNamespaces(Strict, frozen=True):
    """Namespaces whose pods may move: those to ``include``, or all but those to ``exclude``."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def problems(self, path: str) -> Iterator[str]:
        """Return an error where both are given."""
        if self.include and self.exclude:
            yield problem(path, "include and exclude", "one of them")

    def refusal(self, namespace: str) -> str:
        """Return why pods of a namespace may not move, in a line; "" if they may."""
        if self.include and namespace not in self.include:
            return f"namespace {namespace} is not among those to include"
        if namespace in self.exclude:
            return f"namespace {namespace} is excluded"
        return ""
