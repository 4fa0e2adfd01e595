from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from koord_kube.definitions.catalogue import DEFINITIONS
from koord_kube.protocol.resources import DEFINITIONS as KIND
from koord_kube.protocol.resources import RECOMMENDATIONS
from koordctl.main import main

from tests.koordctl.conftest import Ctl
from tests.support.kube_api import KubeApi

NAMES = [one["metadata"]["name"] for one in DEFINITIONS]
TOPOLOGY = "noderesourcetopologies.topology.node.k8s.io"


def states(out: str) -> dict[str, str]:
    parts = (line.partition("  ") for line in out.splitlines())
    return {name: done.strip() for name, _, done in parts}


def versions(api: KubeApi, name: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in api.get(KIND, name)["spec"]["versions"]}


def there(name: str) -> dict[str, Any]:
    return copy.deepcopy(next(one for one in DEFINITIONS if one["metadata"]["name"] == name))


def test_shown_as_yaml_without_references_and_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["crds", "show"])
    out = capsys.readouterr().out
    assert list(yaml.safe_load_all(out)) == list(DEFINITIONS)
    assert "&id" not in out
    main(["crds", "show", "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert (shown["kind"], shown["items"]) == ("List", list(DEFINITIONS))


async def test_installed_once_and_then_as_they_should_be(api: KubeApi, ctl: Ctl) -> None:
    code, out, _ = await ctl("crds", "install")
    assert (code, states(out)) == (0, dict.fromkeys(NAMES, "created"))
    assert RECOMMENDATIONS in api.installed
    before = {name: api.get(KIND, name)["metadata"]["resourceVersion"] for name in NAMES}
    api.asked.clear()
    code, out, _ = await ctl("crds", "install")
    assert (code, states(out)) == (0, dict.fromkeys(NAMES, "unchanged"))
    assert {one.verb for one in api.asked} == {"get"}
    assert {name: api.get(KIND, name)["metadata"]["resourceVersion"] for name in NAMES} == before


async def test_a_dry_run_changes_nothing(api: KubeApi, ctl: Ctl) -> None:
    _, out, _ = await ctl("crds", "install", "--dry-run")
    assert states(out) == dict.fromkeys(NAMES, "would be created")
    _, out, _ = await ctl("crds", "install", "--dry-run", "--json")
    assert json.loads(out) == dict.fromkeys(NAMES, "created")
    assert not api.objects


@pytest.mark.parametrize("more", [{"multipleOf": 5}, {"description": "as it was"}])
async def test_what_is_otherwise_is_replaced(api: KubeApi, ctl: Ctl, more: dict[str, Any]) -> None:
    old = there("nodeslos.slo.koordinator.sh")
    old["metadata"]["annotations"] = {"other": "stays"}
    schema = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    burst = schema["properties"]["spec"]["properties"]["cpuBurstStrategy"]
    burst["properties"]["cpuBurstPercent"] |= more
    api.put(KIND, old)
    _, out, _ = await ctl("crds", "install")
    assert states(out)["nodeslos.slo.koordinator.sh"] == "updated"
    kept = api.get(KIND, "nodeslos.slo.koordinator.sh")
    assert kept["spec"]["versions"] == there("nodeslos.slo.koordinator.sh")["spec"]["versions"]
    assert kept["metadata"]["annotations"] == {"other": "stays"}


async def test_a_missing_approval_is_put_there_and_both_versions_of_topologies_stay(
    api: KubeApi, ctl: Ctl
) -> None:
    """Koordinator's definition stores v1alpha2, which nobody may take away."""
    old = there(TOPOLOGY)
    old["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, experimental"}
    for one in old["spec"]["versions"]:
        one["additionalPrinterColumns"] = []
    api.put(KIND, old)
    code, out, _ = await ctl("crds", "install")
    assert (code, states(out)[TOPOLOGY]) == (0, "updated")
    noted = api.get(KIND, TOPOLOGY)["metadata"]["annotations"]
    assert noted == there(TOPOLOGY)["metadata"]["annotations"]
    found = versions(api, TOPOLOGY)
    assert {name: (one["served"], one["storage"]) for name, one in found.items()} == {
        "v1alpha1": (True, False),
        "v1alpha2": (True, True),
    }


async def test_versions_that_are_not_known_here_are_left_alone(api: KubeApi, ctl: Ctl) -> None:
    newer = there("devices.scheduling.koordinator.sh")
    newer["spec"]["versions"].append(
        copy.deepcopy(newer["spec"]["versions"][0]) | {"name": "v1beta1", "storage": False}
    )
    api.put(KIND, newer)
    code, out, _ = await ctl("crds", "install")
    said = states(out)["devices.scheduling.koordinator.sh"]
    assert (code, said) == (0, "not updated: it has versions that this koordctl does not know")
    assert "v1beta1" in versions(api, "devices.scheduling.koordinator.sh")


async def test_without_permission(api: KubeApi, ctl: Ctl) -> None:
    api.fail(status=403, plural="customresourcedefinitions")
    code, out, error = await ctl("crds", "install")
    assert (code, out) == (1, "")
    assert error.startswith("koordctl: customresourcedefinitions")
    assert "403" in error
