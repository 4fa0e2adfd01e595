"""Targets of a profile: the upper bounds of its system indicators. No IO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from koord_model.fields import Fields, shown
from koord_model.service_targets import HIGHEST_TARGET, Indicator

INDICATORS: Mapping[str, Indicator] = {
    "cpu_sched_wait": Indicator.SCHED_WAIT,
    "cpu_usage_ratio": Indicator.USAGE,
    "cpi": Indicator.CPI,
    "psi": Indicator.PSI,
}
"""Katalyst's system indicators, and one of ours, by the names of profiles."""

_MOST = 64
_UPPER, _LOWER = "UpperBound", "LowerBound"


def only(fields: Fields, *names: str) -> None:
    """Refuse fields that have other names."""
    for name, _ in fields.entries():
        if name not in names:
            fields.refuse(name, f"one of {', '.join(names)} as its name", "left out")


def read_targets(spec: Fields, unused: list[str]) -> Iterator[tuple[Indicator, float]]:
    """The targets of a profile's spec; ``unused`` gets lines on what nothing here acts on."""
    seen: set[str] = set()
    for indicator in spec.objects("systemIndicator", _MOST):
        only(indicator, "name", "indicators")
        name = indicator.text("name")
        if name in seen:
            indicator.refuse("name", "a name that no other has", "left out")
            continue
        seen.add(name)
        if name not in INDICATORS:
            known = ", ".join(INDICATORS)
            unused.append(f"spec systemIndicator {shown(name)}: there are {known} (left out)")
            continue
        upper = _upper_bound(indicator)
        if upper is not None:
            yield INDICATORS[name], upper


def _upper_bound(indicator: Fields) -> float | None:
    found: dict[str, float] = {}
    for bound in indicator.objects("indicators", _MOST):
        only(bound, "indicatorLevel", "value")
        level = bound.text("indicatorLevel")
        if level not in (_UPPER, _LOWER):
            bound.refuse("indicatorLevel", f"{_UPPER} or {_LOWER}", "indicator left out")
            return None
        if level in found:
            bound.refuse("indicatorLevel", "each level once", "indicator left out")
            return None
        expected = f"a number above 0, {HIGHEST_TARGET:.0f} at most"
        value = bound.take("value", None, _bound, expected, "indicator left out")
        if value is None or (level == _UPPER and not value):
            if value is not None or not bound.has("value"):
                bound.refuse("value", expected, "indicator left out")
            return None
        found[level] = value
    if found.get(_LOWER, 0.0) > found.get(_UPPER, HIGHEST_TARGET):
        indicator.refuse("indicators", "a lower bound below the upper bound", "left out")
        return None
    if found and _UPPER not in found:
        indicator.refuse("indicators", f"an {_UPPER}, which is the target", "left out")
    return found.get(_UPPER)


def _bound(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    if not 0 <= given <= HIGHEST_TARGET:
        raise ValueError(given)
    return float(given)
