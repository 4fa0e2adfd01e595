"""Default values of new quotas. No IO."""

from __future__ import annotations

import msgspec
from koord_model.elastic_quota import ROOT_QUOTA, amounts_in
from koord_model.excerpt import excerpt
from koord_model.json_objects import Object, inside, placed
from koord_model.keys import ANNOTATION_SHARED_WEIGHT, LABEL_QUOTA_PARENT, LABEL_QUOTA_TREE

from koord_manager.quota.core.topology import QuotaTopology


def with_defaults(given: Object, topology: QuotaTopology) -> Object:
    """The quota with a parent, its parent's tree and a shared weight of just its resources.

    Raises:
        ValueError: its parent is not there, or its shared weight cannot be read.
    """
    metadata = inside(given, "metadata")
    if metadata.get("name") == ROOT_QUOTA:
        return given
    labels, annotations = inside(metadata, "labels"), inside(metadata, "annotations")
    parent = labels.get(LABEL_QUOTA_PARENT) or ROOT_QUOTA
    labels = {**labels, LABEL_QUOTA_PARENT: parent}
    if not labels.get(LABEL_QUOTA_TREE) and parent != ROOT_QUOTA:
        above = topology.named(str(parent))
        if above is None:
            raise ValueError(
                f"label {LABEL_QUOTA_PARENT} is {excerpt(str(parent))}, which is not there; "
                "create that quota first"
            )
        labels |= {LABEL_QUOTA_TREE: above.tree_id} if above.tree_id else {}
    weight = _weight(annotations.get(ANNOTATION_SHARED_WEIGHT), inside(given, "spec", "max"))
    given = placed(given, labels, "metadata", "labels")
    return placed(
        given, {**annotations, ANNOTATION_SHARED_WEIGHT: weight}, "metadata", "annotations"
    )


def _weight(given: object, most: Object) -> str:
    """The shared weight: what is given of the resources of ``max``, and ``max`` of the others."""
    try:
        weight = amounts_in(given) if given is not None else None
    except ValueError:
        said = excerpt(given) if isinstance(given, str) else "no text"
        raise ValueError(
            f"annotation {ANNOTATION_SHARED_WEIGHT} is {said}; expected a JSON object of quantities"
        ) from None
    if weight is not None and weight.keys() == most.keys():
        return str(given)
    written = msgspec.json.decode(str(given)) if weight else {}
    return msgspec.json.encode(
        {name: written.get(name, most[name]) for name in sorted(most)}
    ).decode()
