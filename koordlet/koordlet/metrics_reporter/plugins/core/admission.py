"""Plugins whose fields are sent after the API server has refused an object with some. No IO.

It says what is wrong with an object, and not whose fault it is. So after a refusal plugins are let
in one by one, and one with whose fields the object is refused is left out until it says
something else. All others are exported all the while, and our own fields always.
"""

from __future__ import annotations

from collections.abc import Mapping

from koordlet.metrics_reporter.plugins.core.contents import Fields


class FieldAdmission:
    """The plugins that are accepted; ``withheld`` are those left out, with their fields."""

    def __init__(self) -> None:
        self.withheld: dict[str, Fields] = {}
        self._tried: Mapping[str, Fields] = {}
        self._accepted: Mapping[str, Fields] = {}
        """The fields that the API server took the last time."""
        self._one_by_one = False

    def select(self, reported: Mapping[str, Fields]) -> Mapping[str, Fields]:
        """The fields to send now, by plugin in the order of names."""
        self.withheld = {
            name: fields for name, fields in self.withheld.items() if reported.get(name) == fields
        }
        fit = {name: reported[name] for name in sorted(reported) if name not in self.withheld}
        waiting = self._untested(fit)
        self._one_by_one &= bool(waiting)
        for name in waiting[1:] if self._one_by_one else ():
            # What was accepted of it stays meanwhile.
            fit[name] = self._accepted.get(name, {})
        self._tried = fit
        return fit

    def accept(self) -> None:
        """The API server took what was selected."""
        self._accepted = self._tried

    def refuse(self) -> str | None:
        """It was refused: return the plugin that is withheld, "" if one is still to be found.

        ``None``: no plugin's fields were in it.
        """
        if not any(self._tried.values()):
            self.withheld.clear()  # it was none of theirs
            return None
        suspects = self._untested(self._tried)
        if len(suspects) == 1:
            self.withheld[suspects[0]] = self._tried[suspects[0]]
            return suspects[0]
        if not suspects:
            # They were fine before, and something else has changed.
            self._accepted = {}
        self._one_by_one = True
        return ""

    def _untested(self, fields: Mapping[str, Fields]) -> list[str]:
        return [name for name in fields if fields[name] != self._accepted.get(name, {})]
