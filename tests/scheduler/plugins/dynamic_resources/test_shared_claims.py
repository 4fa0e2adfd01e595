"""Claims of Kubernetes' PodGroups: allocated once, for all pods of a group."""

from __future__ import annotations

from typing import Any

import pytest
from koord_scheduler.framework.decisions import Placement
from koord_scheduler.plugins.dynamic_resources.assumed_claims import (
    AssumedClaims,
    ReservedClaim,
    release_claims,
)
from koord_scheduler.plugins.dynamic_resources.availability import ClaimDeallocation
from koord_scheduler.plugins.dynamic_resources.columns import ClaimColumns

from tests.scheduler.plugins.coscheduling.test_scheduling_groups import cluster_with, gang, why
from tests.support.gangs import GangCluster

CLAIM = {"name": "link", "resourceClaimName": "link"}
FROM_TEMPLATE = {"name": "link", "resourceClaimTemplateName": "t"}


def cluster(*, is_on: bool = True, cpus: int = 4) -> GangCluster:
    """Two nodes with a device each, and a claim to one."""
    made = cluster_with("n1", "n2", cpus=cpus)
    made.scheduler.gangs.hierarchy.has_claims = is_on
    made.put("DeviceClass", "any", {"metadata": {"name": "any"}})
    for name in ("n1", "n2"):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d", "nodeName": name, "pool": pool, "devices": [{"name": "x"}]}
        made.put("ResourceSlice", name, {"metadata": {"name": name}, "spec": spec})
    claim(made, "link")
    return made


def claim(made: GangCluster, name: str, owner: str = "", **status: Any) -> None:
    """A claim to a device is there."""
    request = {"name": "r", "exactly": {"deviceClassName": "any"}}
    owners = [{"controller": True, "uid": owner}] if owner else []
    metadata = {"name": name, "namespace": "d", "uid": f"claim-{name}", "ownerReferences": owners}
    spec = {"devices": {"requests": [request]}}
    made.put("ResourceClaim", f"d/{name}", {"metadata": metadata, "spec": spec, "status": status})


def pods(made: GangCluster, number: int, group: str = "g", **more: Any) -> None:
    """Pods of a group that name the claim, GROUP-0 and so on."""
    for one in range(number):
        spec = {"resourceClaims": [CLAIM], "schedulingGroup": {"podGroupName": group}, **more}
        made.pod(f"{group}-{one}", **spec)


def claims_of(placements: list[Placement]) -> list[ReservedClaim]:
    """What was reserved of claims."""
    reservations = [found for one in placements for found in one.reserved]
    return [claim for one in reservations if isinstance(one, AssumedClaims) for claim in one.claims]


def placements(made: GangCluster, seconds: float = 0.0) -> list[Placement]:
    return [one for one in made.decisions(seconds) if isinstance(one, Placement)]


def test_a_claim_of_a_group_is_allocated_once_for_all_its_pods() -> None:
    made = cluster()
    made.scheduling_group("g", gang(3, resourceClaims=[CLAIM]))
    pods(made, 3)
    found = placements(made)
    assert len({one.node for one in found}) == 1, "where the device is"
    reserved = claims_of(found)
    assert len({str(one.allocation) for one in reserved}) == 1
    assert {one.group and one.group.uid for one in reserved} == {"group-g"}
    devices = made.scheduler.nodes.use(ClaimColumns).objects
    assert len(reserved) == len(found) == 3
    for one in found:
        assert devices.is_in_flight("claim-link")
        for reservation in one.reserved:  # as once it is written
            assert isinstance(reservation, AssumedClaims)
            release_claims(reservation, devices)
        made.scheduler.forget(one.pod, made.now)
    assert not devices.is_in_flight("claim-link")


def test_claims_of_groups_need_their_gate() -> None:
    made = cluster(is_on=False)
    made.scheduling_group("g", gang(1, resourceClaims=[CLAIM]))
    pods(made, 1)
    assert placements(made) == []
    assert "needs the feature gate DRAWorkloadResourceClaims, which is off" in why(made, "g-0")


def test_a_claim_that_differs_from_that_of_its_group_is_for_the_pod_alone() -> None:
    made = cluster()
    other = {**CLAIM, "name": "other"}
    made.scheduling_group("g", gang(1, resourceClaims=[other]))
    pods(made, 2)
    found = placements(made)
    assert [one.group for one in claims_of(found)] == [None]
    assert len(found) == 1, "the other pod waits until the claim has its device"


def test_a_claim_from_a_template_has_to_be_made_for_the_group() -> None:
    made = cluster()
    made.scheduling_group("g", gang(1, resourceClaims=[FROM_TEMPLATE]))
    pods(made, 1, resourceClaims=[FROM_TEMPLATE])
    document = made.documents["d/g-0"]
    document["status"] = {"resourceClaimStatuses": [{"name": "link", "resourceClaimName": "made"}]}
    claim(made, "made", owner="u-g-0")
    made.put("Pod", "d/g-0", document)
    assert placements(made) == []
    claim(made, "made", owner="group-g")
    assert [one.group and one.group.name for one in claims_of(placements(made, 11.0))] == ["g"]


@pytest.mark.parametrize("is_used", [False, True])
def test_a_gang_whose_claim_keeps_it_from_room_gives_the_devices_back(is_used: bool) -> None:
    made = cluster(cpus=2)
    made.node("n1", 1)
    field = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
    allocation = {
        "devices": {"results": [{"request": "r", "driver": "d", "pool": "n1", "device": "x"}]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"}
    consumer = {**group, "name": "g", "uid": "group-g"}
    claim(made, "link", allocation=allocation, reservedFor=[consumer])
    made.scheduling_group("g", gang(2 + is_used, resourceClaims=[CLAIM]))
    if is_used:
        made.pod("old", schedulingGroup={"podGroupName": "g"}, nodeName="n1", cpus=0)
    pods(made, 2)
    [refusal] = made.refusals()
    assert isinstance(refusal.remedy, ClaimDeallocation) is not is_used
