"""An ElasticQuotaProfile: which nodes make which quota. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from koord_model import label_selector
from koord_model.elastic_quota import annotated_names
from koord_model.excerpt import excerpt
from koord_model.fields import Fields, plain_number
from koord_model.json_objects import Object, inside
from koord_model.keys import (
    ANNOTATION_RESOURCE_KEYS,
    CPU,
    LABEL_QUOTA_TREE,
    MEMORY,
)
from koord_model.label_selector import LabelSelector
from koord_model.names import OBJECT, is_object_name

_RESOURCES = (CPU, MEMORY)


@dataclass(frozen=True, slots=True)
class QuotaProfile:
    """Selection of nodes that make a quota; ``tree_id`` is also the quota's."""

    name: str
    namespace: str
    quota: str
    selector: LabelSelector
    labels: Mapping[str, str]
    ratio: float | None
    resources: tuple[str, ...]
    tree_id: str
    has_tree: bool


def read(document: Object, on_warning: Callable[[str], None]) -> QuotaProfile:
    """The profile in an API object; what of it cannot be used has its default, with a line.

    Raises:
        ValueError: it cannot be used at all; one line says why.
    """
    metadata = inside(document, "metadata")
    name, namespace = str(metadata.get("name", "")), str(metadata.get("namespace", ""))
    where = f"ElasticQuotaProfile {excerpt(f'{namespace}/{name}')}"
    spec, ignored = inside(document, "spec"), list[str]()
    quota = spec.get("quotaName")
    if not isinstance(quota, str) or not quota:
        raise ValueError(f"{where} spec.quotaName is missing; expected the name of a quota")
    if not is_object_name(quota):
        raise ValueError(f"{where} spec.quotaName is {excerpt(quota)}; expected {OBJECT}")
    selector = label_selector.parse(spec.get("nodeSelector"), f"{where} spec.nodeSelector")
    fields = Fields(spec, f"{where} spec", ignored)
    ratio = fields.take("resourceRatio", 1.0, _ratio, "a number above 0, up to 1", "1 is used")
    annotations = Fields(inside(metadata, "annotations"), f"{where} annotation", ignored)
    resources = annotated_names(annotations, ANNOTATION_RESOURCE_KEYS, _RESOURCES)
    tree = inside(metadata, "labels").get(LABEL_QUOTA_TREE)
    for line in ignored:
        on_warning(line)
    return QuotaProfile(
        name,
        namespace,
        quota,
        selector,
        dict(inside(spec, "quotaLabels")),
        ratio if fields.has("resourceRatio") else None,
        resources,
        tree or _fnv(f"{namespace}/{name}"),
        has_tree=bool(tree),
    )


def _ratio(given: object) -> float:
    ratio = plain_number(given)
    if not 0 < ratio <= 1:
        raise ValueError(given)
    return ratio


def _fnv(text: str) -> str:
    """FNV-1a of 64 bits, as Koordinator names trees."""
    found = 0xCBF29CE484222325
    for byte in text.encode():
        found = (found ^ byte) * 0x100000001B3 % (1 << 64)
    return str(found)
