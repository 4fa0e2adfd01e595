"""Reports about quotas in annotations, metrics and pages, and the meaning of arguments."""

from __future__ import annotations

import msgspec
import pytest
from koord_model.elastic_quota import DEFAULT_QUOTA, ROOT_QUOTA, SYSTEM_QUOTA, ElasticQuota
from koord_model.keys import ANNOTATION_QUOTA_RUNTIME, ANNOTATION_UNSCHEDULABLE_RESOURCE
from koord_scheduler.plugins.elastic_quota.args import ElasticQuotaArgs
from koord_scheduler.plugins.elastic_quota.overuse import RevokeRules
from koord_scheduler.plugins.elastic_quota.quota_metrics import quota_figures
from koord_scheduler.plugins.elastic_quota.quota_object import read_elastic_quota
from koord_scheduler.plugins.elastic_quota.quota_trees import QuotaGates, QuotaRules, QuotaTrees
from koord_scheduler.plugins.elastic_quota.report import reported_amounts

from tests.support.quota_cluster import QuotaCluster, quota_object


@pytest.mark.parametrize("name", [ROOT_QUOTA, DEFAULT_QUOTA, SYSTEM_QUOTA, "team"])
def test_only_quotas_that_share_with_others_have_a_runtime(name: str) -> None:
    given = [ElasticQuota(one, max={"cpu": 5}) for one in (ROOT_QUOTA, "team")]
    trees = QuotaTrees(given, QuotaRules(), QuotaGates())
    trees.set_cluster_total({"cpu": 9})
    found = trees.find(name)
    assert found is not None
    runtime = reported_amounts(trees, found)[ANNOTATION_QUOTA_RUNTIME]
    assert (runtime != {}) == (name == "team")


def test_there_is_a_root_where_the_api_has_one() -> None:
    assert QuotaTrees([], QuotaRules(), QuotaGates()).find(ROOT_QUOTA) is None
    trees = QuotaTrees([ElasticQuota(ROOT_QUOTA)], QuotaRules(), QuotaGates())
    found = trees.find(ROOT_QUOTA)
    assert found is not None
    assert found.node is found.tree.root


def test_what_a_tree_s_root_cannot_have_is_a_figure_of_its_own() -> None:
    cluster = QuotaCluster("n1")
    cluster.quota("team", 5)
    cluster.quota("root-of-t", 5, is_root="true", tree_id="t")
    key = ANNOTATION_UNSCHEDULABLE_RESOURCE.rpartition("/")[2]
    found = {one.quota.name: key in one.fields for one in quota_figures(cluster.quotas)}
    assert found == {"team": False, "root-of-t": True}


def test_the_page_of_quotas_is_of_one_tree_and_without_its_root() -> None:
    cluster = QuotaCluster("n1")
    cluster.quota("team", 5)
    cluster.quota(ROOT_QUOTA, 9)
    page = cluster.plugin.services(cluster.scheduler.nodes)["/quotas"]
    assert page({}).keys() == {"team", DEFAULT_QUOTA, SYSTEM_QUOTA}
    assert page({"tree": "another"}) == {}


@pytest.mark.parametrize("version", ["7", None])
def test_the_version_of_the_object_is_kept(version: str | None) -> None:
    document = quota_object("team", {"cpu": 1}, {})
    document["metadata"]["resourceVersion"] = version
    assert read_elastic_quota(msgspec.json.encode(document)).version == (version or "")


@pytest.mark.parametrize(
    ("watched", "runtime", "rules"),
    [
        (True, None, RevokeRules(120.0, 1.0)),
        (True, True, RevokeRules(120.0, 1.0)),
        (True, False, None),
        (False, None, None),
        (None, None, None),
    ],
)
def test_pods_are_evicted_where_all_quotas_are_watched_and_runtimes_count(
    watched: bool | None, runtime: bool | None, rules: RevokeRules | None
) -> None:
    args = ElasticQuotaArgs(
        monitor_all_quotas=watched,
        enable_runtime_quota=runtime,
        delay_evict_time="2m",
        revoke_pod_interval="1s",
    )
    assert args.revoke_rules() == rules
    assert args.namespace == "koordinator-system"
    assert ElasticQuotaArgs(quota_group_namespace="q").namespace == "q"


@pytest.mark.parametrize("given", [None, True, False])
def test_switches_are_on_unless_they_are_off(given: bool | None) -> None:
    settings = ElasticQuotaArgs(
        enable_min_quota_scale=given,
        enable_runtime_quota=given,
        disable_default_quota_preemption=given,
        enable_check_parent_quota=given,
    ).settings()
    is_on = given is not False
    assert (settings.rules.scales_min, settings.admission.uses_runtime) == (is_on, is_on)
    assert settings.spares_default == is_on
    assert settings.admission.checks_parents == bool(given), "this one is off unless it is on"
