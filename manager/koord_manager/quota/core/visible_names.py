"""What a refusal may call other quotas: its reader may know no other namespace. No IO."""

from __future__ import annotations

from koord_model.elastic_quota import ElasticQuota
from koord_model.excerpt import excerpt


def called(one: ElasticQuota, asked: ElasticQuota) -> str:
    """A quota, to somebody who may write the quota ``asked`` about, and perhaps nothing else.

    By its name only in the same namespace, or where ``asked`` itself has the name.
    """
    if one.namespace == asked.namespace or one.name in (asked.name, asked.parent):
        return f"quota {excerpt(one.name)}"
    return "a quota of another namespace"
