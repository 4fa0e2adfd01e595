"""Survey of a cluster: its API server and the leaders' pages. Decides nothing."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from koordctl import cluster_client
from koordctl.errors import AskError
from koordctl.leader_client import MANAGER_LEADER, SCHEDULER_LEADER, ElectedProgram, read_leader

if TYPE_CHECKING:
    from koord_kube.client import Client

Json = Mapping[str, Any]

PROBE = "koordctl-doctor-"
"""The name of the pod that is tried and never made begins so."""


@dataclass(frozen=True)
class ClusterSurvey:
    """Objects by kind; a kind that could not be read is in ``errors`` instead, with the reason.

    ``probe`` is the pod as the API server would have made it, ``probe_error`` its refusal.
    ``manager`` and ``scheduler`` are the documents of the leaders, empty if there are none.
    """

    namespace: str
    objects: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    probe: Json = field(default_factory=dict)
    probe_error: str = ""
    manager: Json = field(default_factory=dict)
    scheduler: Json = field(default_factory=dict)

    def of(self, kind: str) -> Sequence[Json]:
        """The objects of a kind, none if they could not be read."""
        return self.objects.get(kind, ())


async def read_cluster(api: Client, namespace: str) -> ClusterSurvey:
    """Read all of it.

    Raises:
        ApiError: the API server does not answer at all.
    """
    from koord_kube.protocol import resources
    from koord_kube.protocol.selectors import EVERYTHING, field_is_not

    # A large cluster has many Leases of nodes.
    of_programs = field_is_not("metadata.namespace", "kube-node-lease")
    objects: dict[str, Sequence[Json]] = {}
    errors: dict[str, str] = {}
    for resource, where, selector in (
        (resources.NODES, "", EVERYTHING),
        (resources.DEFINITIONS, "", EVERYTHING),
        (resources.LEASES, "", of_programs),
        (resources.NODE_METRICS, "", EVERYTHING),
        (resources.DEVICES, "", EVERYTHING),
        (resources.MUTATING_WEBHOOKS, "", EVERYTHING),
        (resources.VALIDATING_WEBHOOKS, "", EVERYTHING),
        (resources.API_SERVICES, "", EVERYTHING),
        (resources.ENDPOINT_SLICES, namespace, EVERYTHING),
    ):
        try:
            found = await cluster_client.objects(api, resource, where, selector)
            objects[resource.kind] = found
        except _api_error() as error:
            if resource is resources.NODES:
                raise
            errors[resource.kind] = str(error)
    with contextlib.suppress(_api_error()):  # served by the manager where nodes report to it
        served = await cluster_client.objects(api, resources.SERVED_NODE_METRICS)
        objects["NodeMetric"] = [*objects.get("NodeMetric", ()), *served]
    probe, probe_error = await _probe(api)
    return ClusterSurvey(
        namespace,
        objects,
        errors,
        probe,
        probe_error,
        await _leader(api, MANAGER_LEADER, namespace),
        await _leader(api, SCHEDULER_LEADER, namespace),
    )


async def _probe(api: Client) -> tuple[Json, str]:
    """A new pod as the API server and all webhooks make it, which is not stored."""
    from koord_kube.protocol.request import Request
    from koord_kube.protocol.resources import PODS

    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": PROBE, "namespace": "default"},
        "spec": {"containers": [{"name": "main", "image": "none"}]},
    }
    request = Request("POST", PODS, "", "default", body=pod, query={"dryRun": "All"})
    try:
        return request.written_object(await api.write(request)), ""
    except _api_error() as error:
        return {}, str(error)


async def _leader(api: Client, leader: ElectedProgram, namespace: str) -> Json:
    try:
        body = await read_leader(api, leader, (namespace, leader.lease), "/v1/status", {})
        found = json.loads(body)
    except (AskError, ValueError, _api_error()):
        return {}
    return found if isinstance(found, dict) else {}


def _api_error() -> type[Exception]:
    # Imported late: the HTTP client costs a tenth of a second.
    from koord_kube.protocol.api import ApiError

    return ApiError
