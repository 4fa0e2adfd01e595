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
        self._accepted: frozenset[str] | None = None
        """While plugins are let in one by one: those that are in."""

    def select(self, reported: Mapping[str, Fields]) -> Mapping[str, Fields]:
        """The fields to send now, by plugin in the order of names."""
        self.withheld = {
            name: fields for name, fields in self.withheld.items() if reported.get(name) == fields
        }
        fit = {name: reported[name] for name in sorted(reported) if name not in self.withheld}
        if self._accepted is not None:
            waiting = [name for name in fit if name not in self._accepted]
            if not waiting:
                self._accepted = None
            fit = {name: fields for name, fields in fit.items() if name not in waiting[1:]}
        self._tried = fit
        return fit

    def accept(self) -> None:
        """The API server took what was selected."""
        if self._accepted is not None:
            self._accepted = frozenset(self._tried)

    def refuse(self) -> str | None:
        """It was refused: return the plugin that is withheld, "" if one is still to be found.

        ``None``: no plugin's fields were in it.
        """
        if not self._tried:
            self.withheld.clear()  # it was none of theirs
            return None
        suspects = self._tried.keys() - (self._accepted or frozenset())
        if len(suspects) != 1:
            self._accepted = frozenset()
            return ""
        (name,) = suspects
        self.withheld[name] = self._tried[name]
        return name
