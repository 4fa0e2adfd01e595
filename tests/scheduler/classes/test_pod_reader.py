from __future__ import annotations

import json
from typing import Any

from koord_scheduler.classes.pod_class import PodClass
from koord_scheduler.classes.pod_reader import PodReader
from koord_scheduler.columns.nodes import NodeColumns
from koord_scheduler.volumes.usage import UsedClaim


def read(reader: PodReader, name: str, *volumes: dict[str, Any]) -> PodClass:
    metadata = {"name": name, "namespace": "a", "uid": f"uid of {name}"}
    spec = {"containers": [{"name": "c"}], "volumes": volumes}
    waiting = reader.read(json.dumps({"metadata": metadata, "spec": spec}).encode()).waiting
    assert waiting is not None
    return waiting.pod_class


def test_volumes_with_names_of_their_own_do_not_split_a_class() -> None:
    reader = PodReader(NodeColumns())
    token: dict[str, Any] = {"projected": {"sources": []}}
    first = read(reader, "p1", {"name": "kube-api-access-1", **token})
    assert read(reader, "p2", {"name": "kube-api-access-2", **token}) is first


def test_pods_with_ephemeral_volumes_have_claims_of_their_own() -> None:
    reader = PodReader(NodeColumns())
    scratch: dict[str, Any] = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}
    claims = [read(reader, name, scratch).volumes.claims for name in ("p1", "p2")]
    assert claims == [
        (UsedClaim("a/p1-scratch", "a/p1", "uid of p1"),),
        (UsedClaim("a/p2-scratch", "a/p2", "uid of p2"),),
    ]
