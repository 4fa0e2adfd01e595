"""Annotations of Nodes and of NodeResourceTopologies, read leniently. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from koord_model import cpuset
from koord_model.fields import Fields, text
from koord_model.keys import ANNOTATION_AMPLIFICATION_RATIO

Ratios = Mapping[str, float]
"""By resource: how often what there is may be given away; 1 and less mean once."""


class ObjectAnnotations:
    """Annotations of ``owner``; what cannot be used costs a line in ``ignored``."""

    def __init__(self, owner: str, given: Mapping[str, str] | None, ignored: list[str]) -> None:
        self._owner = owner
        self._ignored = ignored
        self._fields = Fields(given or {}, f"{owner} annotation", ignored)

    def has(self, key: str) -> bool:
        """True if an annotation is there, whatever is in it."""
        return self._fields.has(key)

    def decoded(self, key: str) -> Fields:
        """The JSON object in an annotation; an empty one where there is none."""
        given = self._fields.take(key, None, _json, "JSON", "left out")
        return Fields(given, f"{self._owner} annotation {key}:", self._ignored)

    def listed(self, key: str) -> Iterable[Fields]:
        """The objects of the JSON list in an annotation."""
        given = self._fields.take(key, None, _json, "JSON", "left out")
        where = f"{self._owner} annotation {key}:"
        return Fields({"list": given}, where, self._ignored).objects("list", cpuset.MAX_CPU)

    def ratios(self) -> Ratios | None:
        """Return the amplification ratios of resources; ``None`` where there are none."""
        if not self.has(ANNOTATION_AMPLIFICATION_RATIO):
            return None
        given = self.decoded(ANNOTATION_AMPLIFICATION_RATIO)
        return {
            name: given.take(name, 1.0, _ratio, "a number", "not amplified")
            for name, _ in given.entries()
        }


def _ratio(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return float(given)


def _json(given: object) -> object:
    try:
        return msgspec.json.decode(text(given))
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(given) from error
