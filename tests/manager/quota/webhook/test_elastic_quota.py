"""The webhooks of quotas; their verdicts one by one are in tests/conformance/test_quotas.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from koord_manager.quota.core.amounts import excess, total
from koord_manager.quota.core.review import PodQuery
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.quota.webhook.elastic_quota import mutate_elastic_quota, validate_elastic_quota
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model.elastic_quota import ROOT_QUOTA, ElasticQuota, parse
from koord_model.keys import (
    LABEL_QUOTA_IS_PARENT,
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
        self.view = ClusterView(quotas=QuotaTopology(), pods=self._pods)
        self.kept: dict[str, Object] = {}
        self.pods: Sequence[str] = ()

    async def _pods(self, _query: PodQuery) -> Sequence[str]:
        return self.pods

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
    assert answer.refusal.endswith("(n/p1, n/p2, n/p3)")
    webhooks.pods = ()
    assert not (webhooks.delete("a") if change else webhooks.update(quota("a"))).refusal


def test_a_child_is_of_its_parent_s_tree() -> None:
    webhooks = Webhooks()
    webhooks.create(quota("a", **{LABEL_QUOTA_TREE: "t"}))
    webhooks.create(quota("b", "a"))
    assert webhooks.kept["b"]["metadata"]["labels"][LABEL_QUOTA_TREE] == "t"
