"""Elastic quotas: how much pods of each may use, as Koordinator's ElasticQuota shares it. No IO.

max: the most that pods of a quota may use; min: what is theirs if they ask for it; request: what
they ask for, those that wait included; used: what those with a node have; runtime: what they may
use now, between min and max, since others do not ask for theirs.
"""
