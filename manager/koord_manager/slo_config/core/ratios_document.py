"""``cpu-normalization-config`` and ``resource-amplification-config``. No IO."""

from __future__ import annotations

from collections.abc import Mapping

from koord_kube.definitions.schema import Schema
from koord_model.fields import Fields

from koord_manager.slo_config.core.colocation import (
    CPUNormalization,
    ModelRatios,
    RealtimeOvercommit,
    ResourceAmplification,
)
from koord_manager.slo_config.core.schema import fields_of

MOST_NORMALIZED = 5.0
"""Koordinator's: no CPU is so much faster than another."""

MOST_AMPLIFIED = 100.0
"""Larger ones are typing errors."""

_MODEL_FIELDS = {
    "baseRatio": "base",
    "hyperThreadEnabledRatio": "hyper_threads",
    "turboEnabledRatio": "turbo",
    "hyperThreadTurboEnabledRatio": "both",
}

NORMALIZATION_SCHEMA: Schema = fields_of(
    ["enable", "defaultRatio"], ratioModel={"additionalProperties": fields_of(_MODEL_FIELDS)}
)
_REALTIME = {
    "cpuTargetPercent": ("cpu_target_percent", 1, 100),
    "memoryTargetPercent": ("memory_target_percent", 1, 100),
    "cpuLoadPercent": ("cpu_load_percent", 1, 100),
    "memoryLoadPercent": ("memory_load_percent", 1, 100),
    "stepPercent": ("step_percent", 1, 1000),
}
"""Our own fields in ``extensions.pykoord.realtime``, and their bounds."""

_FREE: Schema = {"x-kubernetes-preserve-unknown-fields": True}
AMPLIFICATION_SCHEMA: Schema = fields_of(
    ["enable"],
    resourceAmplificationRatio={"additionalProperties": {}},
    extensions=_FREE
    | fields_of([], pykoord=fields_of([], realtime=fields_of(["enable", *_REALTIME]))),
)


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
    usual: ResourceAmplification, document: Mapping[str, object], where: str, problems: list[str]
) -> ResourceAmplification:
    """The strategy in a document, laid over ``usual`` resource by resource."""
    fields = Fields(document, where, problems)
    ratios = fields.of("resourceAmplificationRatio")
    found = dict(usual.ratios)
    for name, _ in ratios.entries():
        ratio = _ratio(ratios, name, None, MOST_AMPLIFIED)
        if ratio is not None:
            found[name] = ratio
    return ResourceAmplification(
        enable=fields.flag("enable", usual.enable),
        ratios=tuple(sorted(found.items())),
        realtime=_realtime(fields, usual.realtime),
    )


def _realtime(fields: Fields, usual: RealtimeOvercommit) -> RealtimeOvercommit:
    ours = fields.of("extensions").of("pykoord").of("realtime")
    numbers = {
        attribute: ours.number(name, getattr(usual, attribute), low, high)
        for name, (attribute, low, high) in _REALTIME.items()
    }
    return RealtimeOvercommit(ours.flag("enable", usual.enable), **numbers)


def _model(fields: Fields) -> ModelRatios:
    found = {
        attribute: _ratio(fields, name, None, MOST_NORMALIZED)
        for name, attribute in _MODEL_FIELDS.items()
    }
    return ModelRatios(**found)


def _ratio(fields: Fields, name: str, usual: float | None, most: float) -> float | None:
    def accept(given: object) -> float:
        if isinstance(given, bool) or not isinstance(given, int | float) or not 1 <= given <= most:
            raise ValueError(given)
        return float(given)

    return fields.take(name, usual, accept, f"1 to {most:g}")
