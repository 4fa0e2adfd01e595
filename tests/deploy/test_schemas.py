"""Every object is what a Kubernetes API server takes, old or new."""

from __future__ import annotations

import copy
from typing import Any

import kubernetes_validate
import pytest
from koord_kube.definitions.catalogue import DEFINITIONS

from tests.deploy.manifests import Id, Object, everything, examples
from tests.support.kube_api.definitions import Validated, unstructural

VERSIONS = ("1.28", kubernetes_validate.latest_version())
MONITORING = "monitoring.coreos.com/"
SINCE = {"flowcontrol.apiserver.k8s.io/v1": "1.29"}
"""The Kubernetes from which on an API version is served, where that is after the oldest."""
RENDERED = [
    (key, given)
    for key, given in everything().items()
    # Prometheus Operator's, whose schemas are not Kubernetes': see test_alerts.
    if not given["apiVersion"].startswith(MONITORING)
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("key", "given"), RENDERED, ids=["/".join(key) for key, _ in RENDERED])
def test_objects_are_valid(key: Id, given: Object, version: str) -> None:
    since = SINCE.get(given["apiVersion"], version)
    kubernetes_validate.validate(given, max(version, since), strict=True)


@pytest.mark.parametrize("given", DEFINITIONS, ids=lambda one: one["metadata"]["name"])
def test_definitions_are_structural(given: Object) -> None:
    for version in given["spec"]["versions"]:
        assert list(unstructural(version["schema"]["openAPIV3Schema"])) == []


def _schemas() -> dict[tuple[str, str], dict[str, Any]]:
    found = {}
    for one in DEFINITIONS:
        spec = one["spec"]
        for version in spec["versions"]:
            key = f"{spec['group']}/{version['name']}", spec["names"]["kind"]
            found[key] = version["schema"]["openAPIV3Schema"]
    return found


@pytest.mark.parametrize("key", sorted(key for key in examples() if key[0] != "ConfigMap"))
def test_examples_are_valid_and_every_field_of_theirs_is_known(key: Id) -> None:
    given = examples()[key]
    found = _schemas().get((given["apiVersion"], given["kind"]))
    if found is None:
        kubernetes_validate.validate(given, VERSIONS[-1], strict=True)
        return
    schema = Validated(found)
    assert list(schema.wrong(given)) == []
    assert schema.complete(copy.deepcopy(given)) == []
