"""What gangs ask for, when their pods may be bound, and what PodGroups say, against Koordinator."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from koord_scheduler.gangs.gang_spec import GangDefaults, MatchPolicy
from koord_scheduler.gangs.gangs import Gangs
from koord_scheduler.gangs.member import GANG_MEMBER
from koord_scheduler.gangs.pod_group import PodGroupStatus, read_pod_group
from koord_scheduler.plugins.coscheduling.plugin import Coscheduling
from koord_scheduler.plugins.coscheduling.pod_group_status import (
    MemberPhases,
    is_settled,
    next_status,
)
from koord_scheduler.plugins.coscheduling.summary import gang_summary
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.pod_reader import ClusterPod, PodReader

from tests.conformance.vectors import Fields, Object, Vector, leaves, replay

_SETS = ("children", "pendingChildren", "waitingForBindChildren", "boundChildren")
_OF_A_GANG = (
    "waitTime",
    "createTime",
    "mode",
    "gangMatchPolicy",
    "minRequiredNumber",
    "totalChildrenNum",
    "gangGroup",
    "gangFrom",
    "hasGangInit",
    "onceResourceSatisfied",
)
NOW = "2026-02-01T00:00:00Z"


class History:
    """Gangs, and what happens to their pods."""

    def __init__(self, policy: str) -> None:
        nodes = ClusterState()
        Coscheduling(GangDefaults(match_policy=MatchPolicy(policy))).prepare(nodes)
        self._gangs = nodes.use(Gangs)
        self._reader = PodReader(nodes)

    def happen(self, event: Object) -> Object:
        """What is known of all gangs afterwards."""
        gangs = self._gangs
        if event["Do"] == "group":
            raw = json.dumps(event["PodGroup"]).encode()
            gangs.set_pod_group(read_pod_group(raw, gangs.defaults))
        else:
            self._of_pod(event["Do"], self._reader.read(json.dumps(event["Pod"]).encode()))
        return {
            "valid": {
                key: gang.spec is not None and key not in gangs.unsatisfied(gang.group_id)
                for key, gang in gangs.by_key.items()
            },
            "gangs": {key: _summary(gangs, key) for key in gangs.by_key},
        }

    def _of_pod(self, what: str, pod: ClusterPod) -> None:
        match what:
            case "assume":
                self._gangs.assume(pod.key)
            case "forget":
                self._gangs.forget(pod.key)
            case "delete":
                self._gangs.remove_member(pod.key)
            case _:
                member, is_bound = pod.parts.of(GANG_MEMBER), pod.waiting is None
                assert member is not None
                self._gangs.set_member(pod.key, pod.uid, member, is_bound=is_bound)


def _summary(gangs: Gangs, key: str) -> Object:
    found = gang_summary(gangs.by_key[key], gangs)
    return {name: found[name] for name in _OF_A_GANG} | {name: [*found[name]] for name in _SETS}


def _history(vector: Vector) -> Fields:
    history = History(vector.given["Policy"])
    return leaves([history.happen(one) for one in vector.given.get("Events", ())])


def nothing_valid_is_said(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """A gang of which nothing valid is known has no values; Koordinator shows its defaults."""
    gang = field.partition("gangs.")[2].rpartition(".")[0]
    known = f"{field.partition('gangs.')[0]}gangs.{gang}.hasGangInit"
    return bool(gang) and here.get(known) is False


def gangs_that_join_a_group_later_belong_to_it(
    vector: Vector, field: str, here: Fields, there: Fields
) -> bool:
    """Koordinator keeps what was known of a gang by the group that its first pod named."""
    step, _, rest = field[1:].partition("].")
    kind, _, key = rest.removesuffix(".onceResourceSatisfied").partition(".")
    if here.get(field) is not True or not (kind == "valid" or rest.endswith("Satisfied")):
        return False
    steps = vector.recorded["steps"]
    group = steps[int(step)]["gangs"][key]["gangGroup"]
    before = [
        one["gangs"][other]["gangGroup"]
        for one in steps[: int(step)]
        for other in group
        if other in one["gangs"]
    ]
    return any(one != group for one in before)


def test_gangs() -> None:
    replay(
        "gangs",
        _history,
        lambda recorded: leaves(recorded["steps"]),
        (nothing_valid_is_said, gangs_that_join_a_group_later_belong_to_it),
    )


def _life(vector: Vector) -> Fields:
    given: dict[str, Any] = vector.given
    group = read_pod_group(json.dumps(given["PodGroup"]).encode(), GangDefaults())
    minimum = group.spec.min_member
    if is_settled(group.status, minimum, group.spec.created):
        return {"looked": False}
    phases = [one["status"]["phase"] for one in given.get("Pods") or ()]
    pods = MemberPhases(
        len(phases),
        given.get("Bound", 0),
        *(phases.count(one) for one in ("Running", "Succeeded", "Failed")),
        _owners(given),
    )
    return {"looked": True, **_changes(group.status, next_status(group.status, minimum, pods, NOW))}


def _owners(given: Object) -> str:
    owners = [
        [f"d/{owner['name']}" for owner in one["metadata"].get("ownerReferences", ())]
        for one in given.get("Pods") or ()
    ]
    return ",".join(sorted(owners[0])) if owners else ""


def _changes(before: PodGroupStatus, after: PodGroupStatus) -> Fields:
    old, new = (msgspec.to_builtins(one) for one in (before, after))
    return {key: new.get(key) for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def _patched(recorded: Object) -> Fields:
    status = (recorded["patch"] or {}).get("status", {})
    began = {"scheduleStartTime": NOW} if "scheduleStartTime" in status else {}
    return {"looked": recorded["looked"], **status, **began}


def test_the_life_of_pod_groups() -> None:
    replay("pod_group_life", _life, _patched)
