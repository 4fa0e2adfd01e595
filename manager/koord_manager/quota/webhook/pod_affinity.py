"""A new pod of a quota tree is kept on the nodes of that tree. No IO."""

from __future__ import annotations

from collections.abc import Mapping

from koord_model import label_selector
from koord_model.json_objects import inside, placed
from koord_model.keys import LABEL_QUOTA_TREE
from koord_model.label_selector import LabelSelector, Operator
from koord_serving.admission.core.admission import Object

from koord_manager.quota.core.view import QuotaView, quota_for_pod

GATE = "MultiQuotaTree"
_PATH = (
    "spec",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
)
_TERMS = "nodeSelectorTerms"


def mutated(
    given: Object, labels: Mapping[str, str], namespace: str, view: QuotaView, warnings: list[str]
) -> Object:
    """With its tree's node selector in each term of its required node affinity (``GATE``).

    An empty term stays: it matches no node, and would match some with more in it.
    """
    quota = quota_for_pod(labels, namespace, view)
    tree = quota.tree_id if quota is not None else ""
    expressions = _expressions(tree, view, warnings) if tree else []
    if not expressions:
        return given
    terms = inside(given, *_PATH).get(_TERMS)
    if terms:
        found = [_with(term, expressions) if _has_requirements(term) else term for term in terms]
    else:
        found = [{"matchExpressions": expressions}]
    return placed(given, found, *_PATH, _TERMS)


def _has_requirements(term: Object) -> bool:
    return bool(term.get("matchExpressions") or term.get("matchFields"))


def _with(term: Object, expressions: list[Object]) -> Object:
    has = term.get("matchExpressions") or []
    return {
        **term,
        "matchExpressions": [
            *has,
            *(expression for expression in expressions if expression not in has),
        ],
    }


def _expressions(tree: str, view: QuotaView, warnings: list[str]) -> list[Object]:
    """The node selector of the tree's first profile, by name."""
    for _, profile in sorted(view.quota_profiles.items()):
        if inside(profile, "metadata", "labels").get(LABEL_QUOTA_TREE) != tree:
            continue
        try:
            selector = label_selector.parse(inside(profile, "spec").get("nodeSelector") or {}, "")
        except ValueError:
            # Not which profile, or what it says: the pod's author may not be one who may read it.
            warnings.append(
                "the nodeSelector of the quota tree's ElasticQuotaProfile cannot be used (the pod "
                "is not kept on the nodes of its quota tree)"
            )
            return []
        return _requirements(selector)
    return []


def _requirements(selector: LabelSelector) -> list[Object]:
    found = []
    for requirement in selector.requirements:
        expression: Object = {"key": requirement.key, "operator": requirement.operator.value}
        if requirement.operator in (Operator.IN, Operator.NOT_IN):
            expression["values"] = sorted(requirement.values)
        found.append(expression)
    return found
