"""The document is bounded, whatever the cluster has."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from koord_manager.cluster_page.core.cluster_document import MOST_NODES, cluster_document
from koord_model.elastic_quota import ElasticQuota

from tests.support.busy_cluster import busy_summary


def test_more_nodes_and_quotas_than_a_page_has_room_for() -> None:
    known = busy_summary(MOST_NODES + 1)
    assert known.usage is not None
    names = [f"{place:0250}" for place in range(MOST_NODES, -1, -1)]
    resources = {f"example.com/{place}": 1 for place in range(50)}
    quotas = {f"{place:0250}": ElasticQuota(f"{place:0250}", max=resources) for place in range(600)}
    usage = replace(known.usage, names=names)
    document = cluster_document(replace(known, usage=usage, quotas=quotas))
    nodes = document["nodes"]
    assert nodes["count"] == MOST_NODES + 1
    assert nodes["names"] == sorted(names)[:MOST_NODES]
    assert nodes["cpu"][0] == known.usage.percents["cpu"][-1], "columns are in the names' order"
    assert document["quotas"]["quotas"] == 600
    assert len(document["quotas"]["rows"]) == 500
    assert len(msgspec.json.encode(document)) < 8 << 20


def test_a_quota_that_must_not_be_lent_lends_nothing() -> None:
    quota = ElasticQuota(
        "own", min={"cpu": 10}, max={"cpu": 10}, runtime={"cpu": 4}, allows_lent_resource=False
    )
    known = replace(busy_summary(1), quotas={"own": quota})
    [row] = cluster_document(known)["quotas"]["rows"]
    assert row["resources"][0]["lends"] == 0
