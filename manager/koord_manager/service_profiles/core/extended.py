"""Extended indicators of a profile: settings beside its targets. No IO.

``CPUWeight`` is ours; Katalyst has the weights of services in its agent's configuration. Where two
have one name the first counts, as in Katalyst.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from koord_model.fields import Fields, shown
from koord_model.service_profile import MOST_CORES, cores

from koord_manager.service_profiles.core.indicators import only

_MOST = 64
_OFFLOADING, _WEIGHT = "TransparentMemoryOffloading", "CPUWeight"


@dataclass(frozen=True, slots=True)
class ExtendedIndicators:
    """``None`` is where nothing is said. Percentages are of pods that are left alone."""

    memory_offload: bool | None = None
    memory_percent: int | None = None
    weight_cores: float | None = None
    weight_percent: int | None = None


def read_extended(spec: Fields, unused: list[str]) -> ExtendedIndicators:
    """Read those of a profile's spec; ``unused`` gets lines on what nothing here acts on."""
    found = ExtendedIndicators()
    seen: set[str] = set()
    for extended in spec.objects("extendedIndicator", _MOST):
        only(extended, "name", "baselinePercent", "indicators")
        name = extended.text("name")
        if name in seen:
            extended.refuse("name", "a name that no other has", "left out")
        elif name == _OFFLOADING:
            found = _offloading(extended, found, unused)
        elif name == _WEIGHT:
            found = _weight(extended, found)
        else:
            there = f"there are {_OFFLOADING}, {_WEIGHT}"
            unused.append(f"spec extendedIndicator {shown(name)}: {there} (left out)")
        seen.add(name)
    return found


def _offloading(
    extended: Fields, found: ExtendedIndicators, unused: list[str]
) -> ExtendedIndicators:
    detail = extended.of("indicators").of("configDetail")
    unused.extend(
        f"spec extendedIndicator {_OFFLOADING} configDetail.{field}: the strategy "
        "memory_offload has settings of its own"
        for field, _ in detail.entries()
        if field != "enableTMO"
    )
    return replace(
        found,
        memory_offload=detail.flag("enableTMO", None),
        memory_percent=_percent(extended),
    )


def _weight(extended: Fields, found: ExtendedIndicators) -> ExtendedIndicators:
    indicators = extended.of("indicators")
    only(indicators, "cores")
    expected = f"a number above 0, {MOST_CORES:.0f} at most"
    amount = indicators.take("cores", None, cores, expected, "left out")
    return replace(found, weight_cores=amount, weight_percent=_percent(extended))


def _percent(extended: Fields) -> int | None:
    return extended.number("baselinePercent", None, 0, 100)
