"""The rules that a quota follows by itself. No IO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from koord_model.demand import Amounts
from koord_model.elastic_quota import ElasticQuota, annotated_amounts, annotated_names
from koord_model.excerpt import excerpt
from koord_model.fields import Fields
from koord_model.keys import (
    ANNOTATION_MAX_STRICT_CHECK_RESOURCE_KEYS,
    ANNOTATION_QUOTA_ADMISSION,
    ANNOTATION_QUOTA_NAMESPACES,
    ANNOTATION_SHARED_WEIGHT,
)
from koord_model.names import NAMESPACE, is_namespace
from koord_model.quantity import quantity_text

ANNOTATIONS = frozenset(
    {
        ANNOTATION_SHARED_WEIGHT,
        ANNOTATION_MAX_STRICT_CHECK_RESOURCE_KEYS,
        ANNOTATION_QUOTA_NAMESPACES,
        ANNOTATION_QUOTA_ADMISSION,
    }
)
"""Those that people write."""


def problems(
    quota: ElasticQuota, annotations: Mapping[str, object], changed: AbstractSet[str]
) -> list[str]:
    """Return the errors of its bounds, and of the annotations, of which some have changed."""
    found = annotation_problems(quota, annotations, changed)
    found += _negative("spec.max", quota.max)
    found += _negative("spec.min", quota.min)
    found += _above_max("spec.min", quota.min, quota.max)
    strict = quota.max_strict_check_resources
    used = {name: quota.used[name] for name in strict if name in quota.used}
    found += _above_max("status.used", used, quota.max)
    return found


def annotation_problems(
    quota: ElasticQuota, annotations: Mapping[str, object], changed: AbstractSet[str]
) -> list[str]:
    """Return the errors of its annotations; ``max`` may lose what an unchanged one still names."""
    found: list[str] = []
    given = Fields(annotations, "annotation", found)
    weight = annotated_amounts(given, ANNOTATION_SHARED_WEIGHT) or {}
    strict = annotated_names(given, ANNOTATION_MAX_STRICT_CHECK_RESOURCE_KEYS)
    admission = annotated_amounts(given, ANNOTATION_QUOTA_ADMISSION) or {}
    annotated_names(given, ANNOTATION_QUOTA_NAMESPACES)
    for key, amounts in (
        (ANNOTATION_SHARED_WEIGHT, weight),
        (ANNOTATION_QUOTA_ADMISSION, admission),
    ):
        found += _negative(f"annotation {key}", amounts)
    if ANNOTATION_MAX_STRICT_CHECK_RESOURCE_KEYS in changed:
        found += _unbounded(ANNOTATION_MAX_STRICT_CHECK_RESOURCE_KEYS, strict, quota.max)
    return [line.removesuffix(" (ignored)") for line in found]


def weight_warnings(quota: ElasticQuota, annotations: Mapping[str, object]) -> Iterator[str]:
    """A line for each resource that has a weight but no bound: Koordinator takes them."""
    weight = annotated_amounts(Fields(annotations, "", []), ANNOTATION_SHARED_WEIGHT) or {}
    for line in _unbounded(ANNOTATION_SHARED_WEIGHT, weight, quota.max):
        yield f"{line} (ignored)"


def _unbounded(key: str, names: Iterable[str], most: Amounts) -> Iterator[str]:
    for name in names:
        if name not in most:
            expected = f"resources of spec.max: {', '.join(sorted(most)) or 'none'}"
            yield f"annotation {key} has {excerpt(name)}; expected {expected}"


def namespace_problems(annotations: Mapping[str, object]) -> list[str]:
    """Return the errors of its listed namespaces' names."""
    key = ANNOTATION_QUOTA_NAMESPACES
    return [
        f"annotation {key} lists {excerpt(name)}; expected {NAMESPACE}"
        for name in annotated_names(Fields(annotations, "annotation", []), key)
        if not is_namespace(name)
    ]


def _negative(where: str, amounts: Amounts) -> Iterator[str]:
    for name, amount in amounts.items():
        if amount < 0:
            yield f"{where}.{name} is {quantity_text(name, amount)}; expected 0 or more"


def _above_max(where: str, amounts: Amounts, most: Amounts) -> Iterator[str]:
    for name, amount in amounts.items():
        if name not in most:
            yield f"{where}.{name} is {quantity_text(name, amount)}; expected it in spec.max too"
        elif amount > most[name]:
            bound = quantity_text(name, most[name])
            asked = quantity_text(name, amount)
            yield f"{where}.{name} is {asked}; expected spec.max, {bound}, or less"
