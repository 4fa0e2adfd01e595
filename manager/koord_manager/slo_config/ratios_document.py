"""``cpu-normalization-config`` and ``resource-amplification-config``. No IO."""

from __future__ import annotations

from collections.abc import Mapping

from koord_model.fields import Fields

from koord_manager.slo_config.colocation import Amplification, CPUNormalization, ModelRatios

MOST_NORMALIZED = 5.0
"""Koordinator's: no CPU is so much faster than another."""

MOST_AMPLIFIED = 100.0
"""Larger ones are typing errors."""


def overlay_normalization(
    usual: CPUNormalization, document: Mapping[str, object], where: str, problems: list[str]
) -> CPUNormalization:
    """The strategy in a document, laid over ``usual`` model by model."""
    fields = Fields(document, where, problems)
    models = fields.of("ratioModel")
    given = {name: _model(models.of(name)) for name, _ in models.entries()}
    return CPUNormalization(
        enable=fields.flag("enable", usual.enable),
        default_ratio=_ratio(fields, "defaultRatio", usual.default_ratio, MOST_NORMALIZED),
        models=tuple(sorted((dict(usual.models) | given).items())),
    )


def overlay_amplification(
    usual: Amplification, document: Mapping[str, object], where: str, problems: list[str]
) -> Amplification:
    """The strategy in a document, laid over ``usual`` resource by resource."""
    fields = Fields(document, where, problems)
    ratios = fields.of("resourceAmplificationRatio")
    found = dict(usual.ratios)
    for name, _ in ratios.entries():
        ratio = _ratio(ratios, name, None, MOST_AMPLIFIED)
        if ratio is not None:
            found[name] = ratio
    return Amplification(
        enable=fields.flag("enable", usual.enable), ratios=tuple(sorted(found.items()))
    )


def _model(fields: Fields) -> ModelRatios:
    def ratio(name: str) -> float | None:
        return _ratio(fields, name, None, MOST_NORMALIZED)

    return ModelRatios(
        base=ratio("baseRatio"),
        hyper_threads=ratio("hyperThreadEnabledRatio"),
        turbo=ratio("turboEnabledRatio"),
        both=ratio("hyperThreadTurboEnabledRatio"),
    )


def _ratio(fields: Fields, name: str, usual: float | None, most: float) -> float | None:
    def accept(given: object) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float) or not 1 <= given <= most:
            raise ValueError(given)
        return float(given)

    return fields.take(name, usual, accept, f"1 to {most:g}")
