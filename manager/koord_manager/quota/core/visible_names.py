"""Names of other quotas in refusals: their readers may know no other namespace. No IO."""

from __future__ import annotations

from koord_model.elastic_quota import ElasticQuota
from koord_model.excerpt import excerpt


def called(quota: ElasticQuota, asked: ElasticQuota) -> str:
    """A quota, to somebody who may write the quota ``asked`` about, and perhaps nothing else.

    By its name only in the same namespace, or where ``asked`` itself has the name.
    """
    if quota.namespace == asked.namespace or quota.name in (asked.name, asked.parent):
        return f"quota {excerpt(quota.name)}"
    return "a quota of another namespace"
