"""Quotas, and the pods that belong to them, against Koordinator's webhooks and controller."""

from __future__ import annotations

import json
import re
from typing import Any

from koord_manager.node_objects.core.nodes import read_node
from koord_manager.pod_webhook.binding import validate_binding
from koord_manager.pod_webhook.binding_policy import BindingPolicy
from koord_manager.pod_webhook.document import read as read_pod
from koord_manager.quota.core.charge import QuotaCharge, charge_all, read_account
from koord_manager.quota.core.node_quota import desired_quota, new_quota, quota_patch
from koord_manager.quota.core.profile import read as read_profile
from koord_manager.quota.core.review import PodQuery, is_change
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.quota.webhook import pod_affinity, pod_rules
from koord_manager.quota.webhook.elastic_quota import mutate_elastic_quota, validate_elastic_quota
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model.elastic_quota import amounts_in, parse
from koord_model.keys import (
    ANNOTATION_SHARED_WEIGHT,
    ANNOTATION_TOTAL_RESOURCE,
    ANNOTATION_UNSCHEDULABLE_RESOURCE,
    LABEL_QUOTA_IS_PARENT,
    LABEL_QUOTA_NAME,
    LABEL_QUOTA_PARENT,
)
from koord_serving.admission.core.admission import AdmissionOperation, AdmissionRequest

from tests.conformance.vectors import Fields, Object, Vector, replay
from tests.support.finished import finished
from tests.support.merge_patch import merged

ILLEGIBLE = "illegible"
LOOP, SAME = "a loop", "no change"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


# ---- trees


class QuotaStore:
    """What there is after Koordinator's verdicts, and our webhooks before it."""

    def __init__(self, given: Object) -> None:
        self.kept: dict[str, Object] = {}
        self._pods = given["pods"]
        self._topology = QuotaTopology()
        self._view = ClusterView(quotas=self._topology, gates=given["gates"], has_pods=self._found)

    async def _found(self, query: PodQuery) -> bool:
        label = query.label.partition("=")[2]
        return any(
            one["metadata"]["labels"].get(LABEL_QUOTA_NAME) == label
            or one["metadata"]["namespace"] in query.namespaces
            for one in self._pods
        )

    def create(self, quota: Object) -> tuple[Object, Any]:
        """The quota with its defaults, and whether it is admitted."""
        request = _asked(AdmissionOperation.CREATE, quota, {})
        mutated = mutate_elastic_quota(request, self._view)
        if mutated.refusal:
            return {}, False
        made = mutated.object or quota
        return made, self._verdict(_asked(AdmissionOperation.CREATE, made, {}))

    def update(self, quota: Object) -> Any:
        old = self.kept[quota["metadata"]["name"]]
        request = _asked(AdmissionOperation.UPDATE, quota, old)
        return self._verdict(request) if _differs(old, quota) else SAME

    def delete(self, name: str) -> Any:
        return self._verdict(_asked(AdmissionOperation.DELETE, {}, self.kept[name]))

    def keep(self, name: str, quota: Object | None) -> None:
        old = self.kept.pop(name, None)
        if old is not None:
            self._topology.observe(_key(old), None, None)
        if quota is not None:
            self.kept[name] = quota
            self._topology.observe(_key(quota), None, parse(quota)[0])

    def _verdict(self, request: AdmissionRequest) -> Any:
        answer = finished(validate_elastic_quota(request, self._view))
        if re.search(": annotation .*; expected (a JSON|resources of spec.max)", answer.refusal):
            return ILLEGIBLE
        return LOOP if "or below it" in answer.refusal else not answer.refusal


def _differs(old: Object, new: Object) -> bool:
    """Whether more differs than how the same is written: without a parent it is the root."""
    if _written(old) == _written(new):
        return True
    return is_change(*(parse(one)[0] for one in (old, new)))


def _written(quota: Object) -> list[Any]:
    labels = quota["metadata"]["labels"]
    return [labels.get(name) or "" for name in (LABEL_QUOTA_PARENT, LABEL_QUOTA_IS_PARENT)]


def _asked(operation: AdmissionOperation, new: Object, old: Object) -> AdmissionRequest:
    metadata = (new or old)["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    # A dry run: what is kept is up to the recorded verdict.
    return AdmissionRequest(
        *("u", operation, "elasticquotas", "scheduling.sigs.k8s.io", "", namespace, name),
        object=new,
        old=old,
        dry_run=True,
    )


def _key(quota: Object) -> str:
    return f"{quota['metadata']['namespace']}/{quota['metadata']['name']}"


def tree(vector: Vector) -> dict[str, Any]:
    store, found = QuotaStore(vector.given), dict[str, Any]()
    for place, (step, recorded) in enumerate(
        zip(vector.given["steps"], vector.recorded, strict=True)
    ):
        if recorded.get("skipped"):
            continue
        name = step.get("name") or step["quota"]["metadata"]["name"]
        if step["op"] == "create":
            made, found[f"{place}"] = store.create(step["quota"])
            found |= _defaults(place, made.get("metadata"))
            noted = {**step["quota"]["metadata"], **recorded.get("made", {})}
            kept = {**step["quota"], "metadata": noted}
        elif step["op"] == "update":
            where = store.kept[name]["metadata"]["namespace"]
            kept = merged(step["quota"], {"metadata": {"namespace": where}})
            found[f"{place}"] = store.update(kept)
        else:
            kept, found[f"{place}"] = None, store.delete(name)
        if recorded["ok"]:
            store.keep(name, kept)
    return found


def recorded_tree(recorded: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for place, one in enumerate(recorded):
        if not one.get("skipped"):
            found |= {f"{place}": one["ok"]} | _defaults(place, one.get("made"))
    return found


def _defaults(place: int, metadata: Object | None) -> dict[str, Any]:
    """Labels, and the shared weight in numbers."""
    if metadata is None:
        return {}
    weight = metadata["annotations"].get(ANNOTATION_SHARED_WEIGHT, "{}")
    found = {f"{place} label {name}": value for name, value in metadata["labels"].items()}
    return {**found, f"{place} weight": amounts_in(weight)}


def loops_are_refused(vector: Vector, field: str, here: Fields, _: Fields) -> bool:
    """What follows one that Koordinator has admitted says nothing."""
    before = (name for name in here if name.isdigit() and int(name) <= int(field))
    return any(
        here[name] == LOOP and (name == field or vector.recorded[int(name)]["ok"])
        for name in before
    )


def another_spelling_is_no_change(_: Vector, field: str, here: Fields, there: Fields) -> bool:
    return here.get(field) == SAME


def illegible_annotations_are_refused(_: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator ignores them, and names of resources without a bound."""
    return here.get(field) == ILLEGIBLE


def test_trees_of_quotas() -> None:
    differences = (
        loops_are_refused,
        another_spelling_is_no_change,
        illegible_annotations_are_refused,
    )
    replay("quota_trees", tree, recorded_tree, differences)


# ---- pods


def pod_among_quotas(vector: Vector) -> dict[str, Any]:
    given = vector.given
    view = ClusterView(
        quotas=QuotaTopology(parse(one)[0] for one in given["quotas"]),
        quota_profiles={_key(one): one for one in given["profiles"]},
        gates=given["gates"],
    )
    pod, namespace = given["pod"], given["pod"]["metadata"]["namespace"]
    labels = read_pod(pod).labels
    found = pod_rules.problems(labels, namespace, view)
    if "old" in given:
        found += pod_rules.changed(labels, read_pod(given["old"]).labels)
        return {"ok": not found}
    made = pod
    if view.gates.get(pod_affinity.GATE):
        made = pod_affinity.mutated(pod, labels, namespace, view, [])
    return {"ok": not found, "terms": _terms(made["spec"].get("affinity"))}


def recorded_pod(recorded: Object) -> dict[str, Any]:
    terms = {"terms": _terms(recorded["affinity"])} if "affinity" in recorded else {}
    return {"ok": recorded["ok"], **terms}


def _terms(affinity: Object | None) -> list[list[str]]:
    """The requirements of each term, in an order of their own."""
    required = ((affinity or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}
    return [
        sorted(json.dumps(one, sort_keys=True) for one in term.get("matchExpressions") or ())
        for term in required.get("nodeSelectorTerms") or ()
    ]


def a_label_that_names_no_quota_counts(vector: Vector, field: str, _: Fields, __: Fields) -> bool:
    """There the quota of the pod's namespace decides where it may run."""
    name = vector.given["pod"]["metadata"]["labels"].get(LABEL_QUOTA_NAME)
    return field == "terms" and bool(name) and name not in _namespaces(vector)


def only_its_own_quota_is_a_namespace_s(vector: Vector, field: str, _: Fields, __: Fields) -> bool:
    """There a quota of the namespace's name in any namespace decides where the pod may run."""
    metadata = vector.given["pod"]["metadata"]
    where = metadata["namespace"]
    named = LABEL_QUOTA_NAME in metadata["labels"]
    return field == "terms" and not named and _namespaces(vector).get(where, where) != where


def the_gate_counts_everywhere(vector: Vector, field: str, _: Fields, __: Fields) -> bool:
    """There a pod without a label is kept on the nodes of a quota that it does not belong to."""
    return field == "terms" and bool(vector.given["gates"]["DisableDefaultQuota"])


def _namespaces(vector: Vector) -> dict[str, str]:
    found = (one["metadata"] for one in vector.given["quotas"])
    return {one["name"]: one["namespace"] for one in found}


def test_pods_of_quotas() -> None:
    differences = (
        a_label_that_names_no_quota_counts,
        only_its_own_quota_is_a_namespace_s,
        the_gate_counts_everywhere,
    )
    replay("quota_pods", pod_among_quotas, recorded_pod, differences)


# ---- what is charged


def charged(vector: Vector) -> dict[str, Any]:
    (quota,) = vector.given["quotas"]
    requests = ({} if pod["status"] else read_pod(pod).requests() for pod in vector.given["pods"])
    charges = [QuotaCharge("a", "quotas", amounts) for amounts in requests]
    amounts, refusals = charge_all(read_account(quota), charges)
    return {"ok": [not refusal for refusal in refusals], "charged": amounts}


def recorded_charge(recorded: Object) -> dict[str, Any]:
    return {"ok": recorded["ok"], "charged": amounts_in(recorded["charged"]) or {}}


def test_what_pods_are_charged_for() -> None:
    replay("quota_charges", charged, recorded_charge)


# ---- quotas of nodes


def quota_of_nodes(vector: Vector) -> dict[str, Any]:
    given = vector.given
    nodes = [read_node(json.dumps(one).encode()) for one in given["nodes"]]
    profile = read_profile(given["profiles"][0], [].append)
    desired = desired_quota(profile, nodes)
    if given["quotas"]:
        (existing,) = given["quotas"]
        change = quota_patch(desired, existing)
        made = merged(existing, change)
        assert not quota_patch(desired, made)
    else:
        made = new_quota(profile, desired)
    return _quota(made["metadata"], made["spec"], profile.tree_id)


def recorded_quota(recorded: Object) -> dict[str, Any]:
    return _quota(recorded, recorded["spec"], recorded["tree"])


def _quota(metadata: Object, spec: Object, tree: str) -> dict[str, Any]:
    quota, _ = parse({"metadata": {"name": "a"}, "spec": spec})
    annotations = metadata["annotations"]
    resources = (ANNOTATION_TOTAL_RESOURCE, ANNOTATION_UNSCHEDULABLE_RESOURCE)
    return {
        "tree": tree,
        "min": quota.min,
        "max": quota.max,
        "labels": metadata["labels"],
        **{name: amounts_in(annotations[name]) for name in resources},
    }


def test_quotas_of_nodes() -> None:
    replay("quota_profiles", quota_of_nodes, recorded_quota)


# ---- bindings


def binding(vector: Vector) -> dict[str, Any]:
    given, flags = vector.given, vector.given["flags"]

    async def pod(_name: str, _namespace: str) -> Object | None:
        return next(iter(given["pods"]), None)

    def words(flag: str) -> tuple[str, ...]:
        return tuple(word.strip() for word in flags[flag].split(",") if word.strip())

    policy = BindingPolicy(
        words("user-name"),
        *(frozenset(words(flag)) for flag in ("namespaces", "exclude-namespaces")),
        *(frozenset(words(flag)) for flag in ("bypass-labels", "bypass-annotations")),
        flags["dry-run"] == "true",
    )
    request = AdmissionRequest(
        *("u", AdmissionOperation.CREATE, "pods", "", "binding", given["namespace"], "p"),
        user=given["user"],
    )
    view = ClusterView(binding=policy, pod=pod)
    return {"ok": not finished(validate_binding(request, view)).refusal}


def test_who_may_bind_pods() -> None:
    replay("pod_bindings", binding, dict)
