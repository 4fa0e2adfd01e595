"""A double of the Kubernetes API server, for tests; no part of pykoord uses it.

Clients see what they see of a real one: HTTP, lists in pages, watches, conflicts, the rules of
each kind that our programs could break, admission by webhooks, definitions with schemas, groups
that others serve, evictions. A test sets what fails, changes objects and looks at what was
asked (``server.KubeApi``).

Not here: discovery, protobuf, tables, OpenAPI documents, server-side apply, JSON and strategic
merge patches, dry runs, webhooks of evictions, deletions of collections, finalizers of pods,
rights of requests, priority and fairness, controllers. What the real one does is asked of it in
``tests/apiserver``.
"""

from tests.support.kube_api.access import (
    AUDIENCE,
    Identity,
    Reviews,
    koordlet_account,
    service_account,
)
from tests.support.kube_api.aggregation import front_proxy_config_map
from tests.support.kube_api.kinds import BUILT_IN, PDBS, USUAL, Key
from tests.support.kube_api.requests import Fault, RecordedRequest
from tests.support.kube_api.server import KubeApi

__all__ = [
    "AUDIENCE",
    "BUILT_IN",
    "PDBS",
    "USUAL",
    "Fault",
    "Identity",
    "Key",
    "KubeApi",
    "RecordedRequest",
    "Reviews",
    "front_proxy_config_map",
    "koordlet_account",
    "service_account",
]
