"""The webhooks of quotas; their verdicts one by one are in tests/conformance/test_quotas.py."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from koord_kube.protocol.selectors import EVERYTHING, label_is
from koord_manager.quota.core.amounts import excess, total
from koord_manager.quota.core.review import PodQuery
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.quota.webhook.elastic_quota import mutate_elastic_quota, validate_elastic_quota
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model.elastic_quota import ROOT_QUOTA, ElasticQuota, parse
from koord_model.keys import (
    ANNOTATION_MAX_STRICT_CHECK_RESOURCE_KEYS,
    ANNOTATION_QUOTA_ADMISSION,
    ANNOTATION_QUOTA_NAMESPACES,
    ANNOTATION_SHARED_WEIGHT,
    LABEL_QUOTA_IS_PARENT,
    LABEL_QUOTA_NAME,
    LABEL_QUOTA_PARENT,
    LABEL_QUOTA_TREE,
)
from koord_serving.admission.core.admission import (
    AdmissionOperation,
    AdmissionRequest,
    AdmissionResponse,
)

from tests.support.finished import finished
from tests.support.quotas import QuotaInputs

Object = dict[str, Any]


class Webhooks:
    """Both webhooks around what they have admitted; no quota has pods."""

    def __init__(self) -> None:
        self.view = ClusterView(quotas=QuotaTopology(), has_pods=self._has_pods)
        self.kept: dict[str, Object] = {}
        self.pods: Sequence[str] = ()
        self.asked: list[PodQuery] = []

    async def _has_pods(self, query: PodQuery) -> bool:
        self.asked.append(query)
        return bool(self.pods)

    def create(self, quota: Object) -> AdmissionResponse:
        mutated = mutate_elastic_quota(_asked(AdmissionOperation.CREATE, quota, {}), self.view)
        made = mutated.object or quota
        if mutated.refusal:
            return mutated
        return self._validated(AdmissionOperation.CREATE, made, {})

    def update(self, quota: Object) -> AdmissionResponse:
        old = self.kept[quota["metadata"]["name"]]
        return self._validated(AdmissionOperation.UPDATE, quota, old)

    def delete(self, name: str) -> AdmissionResponse:
        return self._validated(AdmissionOperation.DELETE, {}, self.kept[name])

    def _validated(
        self, operation: AdmissionOperation, new: Object, old: Object
    ) -> AdmissionResponse:
        answer = finished(validate_elastic_quota(_asked(operation, new, old), self.view))
        if not answer.refusal:
            self.kept.pop((old or new)["metadata"]["name"], None)
            self.kept |= {new["metadata"]["name"]: new} if new else {}
        return answer


def _asked(operation: AdmissionOperation, new: Object, old: Object) -> AdmissionRequest:
    name = (new or old)["metadata"]["name"]
    where = ("u", operation, "elasticquotas", "scheduling.sigs.k8s.io", "", "n", name)
    return AdmissionRequest(*where, object=new, old=old)


def quota(name: str, parent: str = "", least: int = 0, **labels: str) -> Object:
    labels = {LABEL_QUOTA_IS_PARENT: "true", LABEL_QUOTA_PARENT: parent, **labels}
    metadata = {"name": name, "namespace": "n", "labels": labels}
    return {"metadata": metadata, "spec": {"min": {"cpu": least}, "max": {"cpu": 10}}}


@settings(deadline=None)
@given(st.integers(0, 10**9))
def test_what_is_admitted_leaves_the_trees_in_order(seed: int) -> None:
    webhooks = Webhooks()
    given_steps = QuotaInputs(seed).tree()["steps"]
    for step in given_steps:
        name = step.get("name") or step["quota"]["metadata"]["name"]
        if step["op"] == "create":
            if name not in webhooks.kept:
                webhooks.create(step["quota"])
        elif name in webhooks.kept:
            if step["op"] == "delete":
                webhooks.delete(name)
            else:
                webhooks.update(step["quota"])
        _require_order([parse(one)[0] for one in webhooks.kept.values()])


def _require_order(quotas: list[ElasticQuota]) -> None:
    named = {one.name: one for one in quotas}
    for one in quotas:
        if one.name == ROOT_QUOTA or one.parent == ROOT_QUOTA:
            continue
        parent = named[one.parent]
        assert parent.is_parent
        assert parent.tree_id == one.tree_id
        assert parent.max.keys() == one.max.keys()
        above, passed = one, set[str]()
        while above.parent != ROOT_QUOTA:
            assert above.name not in passed
            passed.add(above.name)
            above = named[above.parent]
    for parent in quotas:
        children = [one for one in quotas if one.parent == parent.name]
        forced = any(one.allows_force_update or one.is_tree_root for one in [parent, *children])
        if children and parent.name != ROOT_QUOTA and not forced:
            assert not list(excess(total(one.min for one in children), parent.min))
    listed = [namespace for one in quotas for namespace in set(one.namespaces)]
    assert len(listed) == len(set(listed))


def test_two_quotas_that_are_created_at_once_have_to_fit_together() -> None:
    webhooks = Webhooks()
    assert not webhooks.create(quota("top", least=4)).refusal
    assert not webhooks.create(quota("left", "top", least=3)).refusal
    refusal = webhooks.create(quota("right", "top", least=3)).refusal
    assert 'ElasticQuota "n/right": min of all children of its parent "top": cpu 6 > 4' in refusal


def test_a_quota_cannot_be_below_itself() -> None:
    webhooks = Webhooks()
    for name, parent in (("a", ""), ("b", "a"), ("c", "b")):
        assert not webhooks.create(quota(name, parent)).refusal
    for parent in ("a", "b", "c"):
        assert "which is this quota or below it" in webhooks.update(quota("a", parent)).refusal
    assert not webhooks.update(quota("c", "a")).refusal


@pytest.mark.parametrize("change", [{LABEL_QUOTA_IS_PARENT: "false"}, {}])
def test_pods_stand_in_the_way(change: dict[str, str]) -> None:
    webhooks = Webhooks()
    webhooks.create(quota("a", **{LABEL_QUOTA_IS_PARENT: "false"}))
    webhooks.pods = ("n/p1", "n/p2", "n/p3", "n/p4")
    answer = webhooks.delete("a") if change else webhooks.update(quota("a"))
    assert "pods belong to it" in answer.refusal
    assert "n/p1" not in answer.refusal
    webhooks.pods = ()
    assert not (webhooks.delete("a") if change else webhooks.update(quota("a"))).refusal


EVIL = "../nodes?x="


def listing(one: Object, *namespaces: str) -> Object:
    annotations = {ANNOTATION_QUOTA_NAMESPACES: json.dumps(namespaces)}
    return {**one, "metadata": {**one["metadata"], "annotations": annotations}}


def test_what_is_listed_has_to_be_namespaces() -> None:
    webhooks = Webhooks()
    refusal = webhooks.create(listing(quota("a"), "good", EVIL)).refusal
    assert f'namespaces lists "{EVIL}"; expected a namespace: ' in refusal
    assert not webhooks.create(listing(quota("a"), "good")).refusal
    assert "expected a namespace" in webhooks.update(listing(quota("a"), "good", EVIL)).refusal


def test_an_older_listing_that_is_wrong_does_not_keep_a_quota_from_changing() -> None:
    webhooks = Webhooks()
    old = listing(quota("a"), EVIL)
    webhooks.kept["a"] = old
    webhooks.view.quotas.observe("n/a", None, parse(old)[0])
    assert not webhooks.update(listing(quota("a", least=1), EVIL)).refusal


def test_pods_are_asked_for_by_what_is_known_of_the_quota_alone() -> None:
    webhooks = Webhooks()
    plain = {LABEL_QUOTA_IS_PARENT: "false"}
    webhooks.create(listing(quota("a", **plain), "one"))
    # As somebody writes who asks without an API server.
    webhooks.kept["a"] = listing(quota("a", **plain), "other", EVIL)
    assert not webhooks.update(listing(quota("a"), "one")).refusal
    assert [(one.label, one.namespaces) for one in webhooks.asked] == [
        (label_is(LABEL_QUOTA_NAME, "a"), ("a", "one"))
    ]
    webhooks.kept["b"] = quota("b", **plain)
    assert "is not known here yet" in webhooks.update(quota("b")).refusal
    assert "is not known here yet" in webhooks.delete("b").refusal
    assert len(webhooks.asked) == 1


def test_a_name_that_no_label_can_have_has_no_pods_by_label() -> None:
    webhooks = Webhooks()
    long = "team-" + "a" * 70
    webhooks.create(quota(long))
    assert not webhooks.delete(long).refusal
    assert (webhooks.asked[0].label, webhooks.asked[0].namespaces) == (EVERYTHING, ())


def test_quotas_of_other_namespaces_are_not_named() -> None:
    webhooks = Webhooks()
    below = {LABEL_QUOTA_PARENT: "a", LABEL_QUOTA_TREE: "t"}
    metadata = {"name": "secret", "namespace": "hidden", "labels": below}
    secret = {"metadata": metadata, "spec": {"min": {}, "max": {"cpu": 10}}}
    webhooks.create(quota("a"))
    webhooks.view.quotas.observe("hidden/secret", None, parse(listing(secret, "theirs"))[0])
    refusals = [
        webhooks.create(quota("secret")).refusal,
        webhooks.create(listing(quota("b"), "theirs")).refusal,
        webhooks.update(quota("a", least=3)).refusal,
        webhooks.delete("a").refusal,
    ]
    for refusal in refusals:
        assert refusal
        assert "hidden" not in refusal
    assert not any("secret" in one for one in refusals[1:])


def test_a_child_is_of_its_parent_s_tree() -> None:
    webhooks = Webhooks()
    webhooks.create(quota("a", **{LABEL_QUOTA_TREE: "t"}))
    webhooks.create(quota("b", "a"))
    assert webhooks.kept["b"]["metadata"]["labels"][LABEL_QUOTA_TREE] == "t"


@pytest.mark.parametrize(
    ("name", "label", "namespaces"),
    [
        ("team", "quota.scheduling.koordinator.sh/name=team", ("team",)),
        ("team.a", "quota.scheduling.koordinator.sh/name=team.a", ()),
        ("a" * 63, f"quota.scheduling.koordinator.sh/name={'a' * 63}", ("a" * 63,)),
        ("a" * 64, "", ()),
    ],
)
def test_only_what_the_api_server_takes_is_asked_about_a_quotas_pods(
    name: str, label: str, namespaces: tuple[str, ...]
) -> None:
    webhooks = Webhooks()
    leaf = quota(name, **{LABEL_QUOTA_IS_PARENT: "false"})
    assert not webhooks.create(leaf).refusal
    assert not webhooks.update(quota(name)).refusal
    assert not webhooks.delete(name).refusal
    assert [(one.label, one.namespaces) for one in webhooks.asked] == [
        (label, namespaces),
        (label, ()),
    ]


WEIGHT, STRICT = ANNOTATION_SHARED_WEIGHT, ANNOTATION_MAX_STRICT_CHECK_RESOURCE_KEYS


@pytest.mark.parametrize(
    ("key", "text", "problem"),
    [
        (WEIGHT, "{nope", 'is "{nope"; expected a JSON object of quantities'),
        (WEIGHT, '{"cpu": "x"}', "expected a JSON object of quantities"),
        (WEIGHT, '{"cpu": -1}', ".cpu is -1; expected 0 or more"),
        (STRICT, "cpu", 'is "cpu"; expected a JSON list of names'),
        (STRICT, '["cpu", "gpu"]', 'has "gpu"; expected resources of spec.max: cpu'),
        (ANNOTATION_QUOTA_NAMESPACES, '{"a": 1}', "expected a JSON list of names"),
        (ANNOTATION_QUOTA_ADMISSION, '{"cpu": "-2"}', ".cpu is -2; expected 0 or more"),
    ],
)
def test_a_bad_annotation_is_refused_when_it_changes_and_only_then(
    key: str, text: str, problem: str
) -> None:
    webhooks = Webhooks()
    plain, bad = quota("a"), quota("a")
    bad["metadata"]["annotations"] = {key: text}
    assert not webhooks.create(plain).refusal
    refusal = webhooks.update(bad).refusal
    assert refusal.startswith(f'ElasticQuota "n/a": annotation {key}')
    assert problem in refusal
    # One that was there before stands in nobody's way.
    webhooks.kept["a"] = bad
    again = {**bad, "metadata": {**bad["metadata"], "finalizers": ["x/y"]}}
    assert not webhooks.update(again).refusal


def test_a_weight_of_what_is_not_bound_is_warned_of() -> None:
    webhooks = Webhooks()
    assert not webhooks.create(quota("a")).warnings
    odd = quota("a")
    odd["metadata"]["annotations"] = {WEIGHT: '{"cpu": 1, "gpu": 1}'}
    (line,) = webhooks.update(odd).warnings
    assert line == f'annotation {WEIGHT} has "gpu"; expected resources of spec.max: cpu (ignored)'
