"""An ElasticQuota as others wrote it, and which quota a pod belongs to.

A field or annotation that cannot be used counts as absent, as in Koordinator, with a line that
says so.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from koord_model.annotations import decode
from koord_model.demand import Amounts, amount
from koord_model.fields import Fields, quantity, text
from koord_model.keys import (
    ANNOTATION_ALLOCATED,
    ANNOTATION_CHILD_REQUEST,
    ANNOTATION_GUARANTEED,
    ANNOTATION_MAX_STRICT_CHECK_RESOURCE_KEYS,
    ANNOTATION_QUOTA_ADMISSION,
    ANNOTATION_QUOTA_NAMESPACES,
    ANNOTATION_QUOTA_RUNTIME,
    ANNOTATION_SHARED_WEIGHT,
    ANNOTATION_TOTAL_RESOURCE,
    ANNOTATION_UNSCHEDULABLE_RESOURCE,
    LABEL_ALLOW_FORCE_UPDATE,
    LABEL_ALLOW_LENT_RESOURCE,
    LABEL_QUOTA_IGNORE_DEFAULT_TREE,
    LABEL_QUOTA_IS_PARENT,
    LABEL_QUOTA_IS_ROOT,
    LABEL_QUOTA_NAME,
    LABEL_QUOTA_PARENT,
    LABEL_QUOTA_TREE,
)
from koord_model.names import is_namespace

ROOT_QUOTA = "koordinator-root-quota"
SYSTEM_QUOTA = "koordinator-system-quota"
DEFAULT_QUOTA = "koordinator-default-quota"
RESERVED_QUOTAS = frozenset({ROOT_QUOTA, SYSTEM_QUOTA, DEFAULT_QUOTA})

_NAMES: msgspec.json.Decoder[list[str] | None] = msgspec.json.Decoder(list[str] | None)
_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder()


@dataclass(frozen=True, slots=True)
class ElasticQuota:
    """One quota of a tree; amounts are CPU in millicores, everything else whole.

    Pods of ``namespaces`` belong to it without a label. ``shared_weight`` is its part of what
    others leave, ``max`` where it is not set. ``admission`` is empty where ``max`` limits pods
    that are created; ``total_resource`` is a tree's, ``None`` where it is not set. Of the
    resources ``max_strict_check_resources``, ``max`` may not go below ``used``. ``runtime`` is what
    it may use at present, as the scheduler wrote it.
    """

    name: str
    namespace: str = ""
    uid: str = ""
    max: Amounts = field(default_factory=dict)
    min: Amounts = field(default_factory=dict)
    used: Amounts = field(default_factory=dict)
    parent: str = ROOT_QUOTA
    is_parent: bool = False
    tree_id: str = ""
    is_tree_root: bool = False
    ignores_default_tree: bool = False
    allows_lent_resource: bool = True
    allows_force_update: bool = False
    is_terminating: bool = False
    namespaces: tuple[str, ...] = ()
    max_strict_check_resources: tuple[str, ...] = ()
    shared_weight: Amounts = field(default_factory=dict)
    guaranteed: Amounts = field(default_factory=dict)
    allocated: Amounts = field(default_factory=dict)
    child_request: Amounts = field(default_factory=dict)
    admission: Amounts = field(default_factory=dict)
    unschedulable_resource: Amounts = field(default_factory=dict)
    total_resource: Amounts | None = None
    runtime: Amounts = field(default_factory=dict)

    def lent(self, resource: str) -> int:
        """Return the part of its min that others may use, since its pods do not ask for it.

        Nothing is written of a quota that no pod has asked yet: it lends all of its min.
        """
        least = self.min.get(resource, 0)
        idle = self.allows_lent_resource and not (self.runtime or self.used)
        return max(0, least - self.runtime.get(resource, 0 if idle else least))

    def borrowed(self, resource: str) -> int:
        """Return its pods' usage beyond its min."""
        return max(0, self.used.get(resource, 0) - self.min.get(resource, 0))


def parse(document: Mapping[str, object]) -> tuple[ElasticQuota, tuple[str, ...]]:
    """The quota in an API object, with a line on each thing in it that is ignored."""
    ignored: list[str] = []
    metadata = Fields(document.get("metadata"), "ElasticQuota", ignored)
    name, namespace = metadata.text("name"), metadata.text("namespace")
    where = f"ElasticQuota {namespace}/{name}"
    whole = Fields(document, where, ignored)
    labels = whole.of("metadata").of("labels")
    annotations = whole.of("metadata").of("annotations")
    most = _resources(whole.of("spec").of("max"))

    def listed(key: str) -> Amounts:
        return annotated_amounts(annotations, key) or {}

    def is_set(key: str, value: str = "true") -> bool:
        return labels.text(key) == value

    weight = listed(ANNOTATION_SHARED_WEIGHT)
    quota = ElasticQuota(
        name=name,
        namespace=namespace,
        uid=metadata.text("uid"),
        max=most,
        min=_resources(whole.of("spec").of("min")),
        used=_resources(whole.of("status").of("used")),
        parent=labels.text(LABEL_QUOTA_PARENT) or ("" if name == ROOT_QUOTA else ROOT_QUOTA),
        is_parent=is_set(LABEL_QUOTA_IS_PARENT),
        tree_id=labels.text(LABEL_QUOTA_TREE),
        is_tree_root=is_set(LABEL_QUOTA_IS_ROOT),
        ignores_default_tree=is_set(LABEL_QUOTA_IGNORE_DEFAULT_TREE),
        allows_lent_resource=not is_set(LABEL_ALLOW_LENT_RESOURCE, "false"),
        allows_force_update=is_set(LABEL_ALLOW_FORCE_UPDATE),
        is_terminating=metadata.has("deletionTimestamp"),
        namespaces=_namespaces(annotations),
        max_strict_check_resources=annotated_names(
            annotations, ANNOTATION_MAX_STRICT_CHECK_RESOURCE_KEYS
        ),
        shared_weight=weight if any(weight.values()) else most,
        guaranteed=listed(ANNOTATION_GUARANTEED),
        allocated=listed(ANNOTATION_ALLOCATED),
        child_request=listed(ANNOTATION_CHILD_REQUEST),
        admission=listed(ANNOTATION_QUOTA_ADMISSION),
        unschedulable_resource=listed(ANNOTATION_UNSCHEDULABLE_RESOURCE),
        total_resource=annotated_amounts(annotations, ANNOTATION_TOTAL_RESOURCE),
        runtime=listed(ANNOTATION_QUOTA_RUNTIME),
    )
    return quota, tuple(ignored)


def annotated_amounts(annotations: Fields, key: str) -> Amounts | None:
    """The amounts of an annotation that is a JSON object of quantities; ``None`` without one."""
    return annotations.take(key, None, amounts_in, "a JSON object of quantities", "ignored")


def amounts_in(given: object) -> Amounts | None:
    """The amounts in the text of such an annotation; ``None`` for no text.

    Raises:
        ValueError: it is not a JSON object, or one of its values is not a quantity.
    """
    if not text(given):
        return None
    listed = decode(_ANY, text(given))
    if listed is None:
        return {}
    if not isinstance(listed, Mapping):
        raise ValueError(given)  # noqa: TRY004 - bad input, not a defect
    return {name: _one_amount(name, value) for name, value in listed.items()}


def _one_amount(name: str, given: object) -> int:
    found = amount(name, str(quantity(given))) if given is not None else 0
    if found is None:
        raise ValueError(given)
    return found


def _resources(given: Fields) -> Amounts:
    found: dict[str, int] = {}
    for name, value in given.entries():
        try:
            found[name] = _one_amount(name, value)
        except ValueError:
            given.refuse(name, "a quantity", "left out")
    return found


def annotated_names(
    annotations: Fields, key: str, default: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The names in an annotation that is a JSON list of text; ``default`` without one."""

    def accept(given: object) -> tuple[str, ...]:
        names: list[str] | None = decode(_NAMES, text(given)) if text(given) else None
        return tuple(names or ()) if text(given) else default

    return annotations.take(key, default, accept, "a JSON list of names", "ignored")


def _namespaces(annotations: Fields) -> tuple[str, ...]:
    """Return the listed names that can be namespaces: they become paths of the API."""
    listed = annotated_names(annotations, ANNOTATION_QUOTA_NAMESPACES)
    found = tuple(name for name in listed if is_namespace(name))
    if found != listed:
        expected = "a JSON list of namespaces"
        annotations.refuse(ANNOTATION_QUOTA_NAMESPACES, expected, "what is none is left out")
    return found


def quotas_by_namespace(quotas: Iterable[ElasticQuota]) -> Mapping[str, str]:
    """The name of the quota that a namespace's pods belong to without a label.

    That is the quota of the namespace's own name in it, or else the first by namespace and name
    that lists the namespace.
    """
    found: dict[str, str] = {}
    own: dict[str, str] = {}
    for quota in sorted(quotas, key=lambda quota: (quota.namespace, quota.name)):
        if quota.name == quota.namespace:
            own[quota.namespace] = quota.name
        for namespace in quota.namespaces:
            found.setdefault(namespace, quota.name)
    return {**found, **own}


def quota_of_pod(
    labels: Mapping[str, str],
    namespace: str,
    by_namespace: Mapping[str, str],
    known: Container[str],
    *,
    default_quota: bool = True,
) -> str:
    """The name of the quota that a pod belongs to: by its label, or else by its namespace.

    A pod of none that is ``known`` belongs to the default quota, or to "" without
    ``default_quota`` (gate DisableDefaultQuota); the label alone counts then.
    """
    name = labels.get(LABEL_QUOTA_NAME, "")
    if not name and default_quota:
        name = by_namespace.get(namespace, "")
    if name in known:
        return name
    return DEFAULT_QUOTA if default_quota else ""
