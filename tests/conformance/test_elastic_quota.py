"""What quotas may use, whom they let in and whose pods go, against Koordinator."""

from __future__ import annotations

import json
import re
from typing import Any

from koord_model.demand import Amounts, amounts
from koord_model.keys import LABEL_QUOTA_NAME
from koord_scheduler.framework.cluster_kinds import cluster_kinds, pod_kind
from koord_scheduler.framework.profile import EnabledPlugin, Profile
from koord_scheduler.framework.scheduler import Scheduler
from koord_scheduler.plugins.elastic_quota.admission import AdmissionRules
from koord_scheduler.plugins.elastic_quota.columns import QuotaColumns
from koord_scheduler.plugins.elastic_quota.overused_quotas import overused_quotas, pods_over_quota
from koord_scheduler.plugins.elastic_quota.plugin import ElasticQuotaPlugin, ElasticQuotaSettings
from koord_scheduler.plugins.elastic_quota.quota_trees import QuotaGates, QuotaRules, TreeQuota

from tests.conformance.vectors import Fields, Object, Vector, replay

_LISTS = re.compile(r"[\w./-]+:-?\d\w*(?:,[\w./-]+:-?\d\w*)*")


class ClusterOfQuotas:
    """A scheduler with the plugin alone, which gets what a vector says."""

    def __init__(self, given: Object) -> None:
        gates, args = given["gates"], given["args"]
        self.plugin = ElasticQuotaPlugin(
            ElasticQuotaSettings(
                QuotaRules(scales_min=args["enableMinQuotaScale"]),
                AdmissionRules(args["enableRuntimeQuota"], args["enableCheckParentQuota"]),
            )
        )
        plugins = (EnabledPlugin(self.plugin),)
        self.scheduler = Scheduler([Profile("default-scheduler", plugins)])
        self.quotas = self.scheduler.nodes.use(QuotaColumns)
        self.quotas.gates = QuotaGates(
            gates["MultiQuotaTree"],
            gates["ElasticQuotaGuaranteeUsage"],
            gates["DisableDefaultQuota"],
        )
        kinds = (*cluster_kinds(self.scheduler), pod_kind(self.scheduler, lambda: 0.0))
        self._kinds = {one.resource.kind: one for one in kinds}
        self._put("Node", {"metadata": {"name": "n"}})

    def do(self, step: Object) -> Fields | None:
        match step["do"]:
            case "quota":
                self._put("ElasticQuota", step["quota"])
            case "delete":
                self._kinds["ElasticQuota"].remove(f"q/{step['name']}")
            case "node":
                self._put("Node", step["node"])
            case "pod":
                self._put("Pod", step["pod"])
            case "gone":
                self._kinds["Pod"].remove(f"ns/{step['name']}")
            case "reserve":
                row = self.scheduler.nodes.row("n")
                assert row is not None
                self.scheduler.assume(self.scheduler.queue.pods[f"ns/{step['name']}"], row)
            case "unreserve":
                self.scheduler.forget(self.scheduler.assumed[f"ns/{step['name']}"], 0.0)
            case "check":
                return self._check(step["probes"])
        return None

    def _put(self, kind: str, document: Object) -> None:
        metadata = document["metadata"]
        key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        self._kinds[kind].put(key, self._kinds[kind].read(json.dumps(document).encode()))

    def _check(self, probes: list[Object]) -> Fields:
        found: dict[str, Any] = {}
        for one in self.quotas.trees:
            if f"q/{one.name}" in self.quotas.objects:
                found |= _state(self.quotas.trees.runtime(one), one)
        for one in overused_quotas(self.quotas):
            pods = pods_over_quota(self.quotas, self.scheduler.placed, one)
            if pods:
                found[f"revoked.{one.name}"] = sorted(pod.key.partition("/")[2] for pod in pods)
        for place, probe in enumerate(probes):
            pod = self._kinds["Pod"].read(json.dumps(probe).encode())
            quota = self.quotas.of(pod.waiting.pod_class.labels)
            found[f"probe{place}.quota"] = quota.name if quota is not None else ""
            text = self.plugin.admit((pod.waiting.pod_class,), self.scheduler.nodes)
            found[f"probe{place}.text"] = _plain(text)
        return found


def _plain(text: str) -> str:
    """Without zeros, and with what is exceeded in order: Koordinator's maps have none."""
    before, bracket, exceeded = _LISTS.sub(_without_zeros, text).rpartition("exceedDimensions: [")
    return before + bracket + " ".join(sorted(exceeded.rstrip("]").split()))


def _without_zeros(listed: re.Match[str]) -> str:
    return ",".join(one for one in listed[0].split(",") if not one.endswith(":0")) or "<empty>"


def _state(runtime: Amounts, one: TreeQuota) -> Fields:
    node = one.node
    listed = {
        "runtime": runtime,
        "request": node.requests(),
        "child_request": node.child_request,
        "used": node.used,
        "non_preemptible_used": node.non_preemptible_used,
        "non_preemptible_request": node.non_preemptible_request,
        "allocated": node.allocated,
        "guaranteed": node.guaranteed,
    }
    return {
        f"{one.name}.{name}.{resource}": amount
        for name, values in listed.items()
        for resource, amount in values.items()
        if amount
    }


def _recorded(check: Object) -> Fields:
    found: dict[str, Any] = {}
    for quota, listed in check["quotas"].items():
        for name, values in listed.items():
            if name == "scaled_min":
                continue
            for resource, amount in amounts(values or {}).items():
                if amount:
                    found[f"{quota}.{name}.{resource}"] = amount
    for quota, pods in check["revoked"].items():
        found[f"revoked.{quota}"] = sorted(pods)
    for place, (quota, _, _, text) in enumerate(check["probes"]):
        found[f"probe{place}.quota"] = quota
        found[f"probe{place}.text"] = _plain(text)
    return found


def _ours(vector: Vector) -> Fields:
    cluster = ClusterOfQuotas(vector.given)
    checks = [found for step in vector.given["steps"] if (found := cluster.do(step)) is not None]
    return {f"{at}.{name}": one for at, found in enumerate(checks) for name, one in found.items()}


def _flat(recorded: list[Object]) -> Fields:
    found = (_recorded(check).items() for check in recorded)
    return {f"{at}.{name}": one for at, fields in enumerate(found) for name, one in fields}


def revokes_what_helps(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Only pods go that use some of what there is too much of, and only if that is known of all.

    Koordinator forgets the use of resources that the pod before did not ask for, and evicts pods
    that do not help where nothing does.
    """
    name = field.rpartition("revoked.")[2]
    if name == field:
        return False
    mine, recorded = set(here.get(field, ())), set(there.get(field, ()))
    pods = [step["pod"] for step in vector.given["steps"] if step["do"] == "pod"]
    asked = {
        frozenset(name for name, text in _requests(pod).items() if not text.startswith("0"))
        for pod in pods
        if pod["metadata"]["labels"][LABEL_QUOTA_NAME] == name
    }
    return len(asked) > 1 or mine < recorded


def _requests(pod: Object) -> dict[str, str]:
    return dict(pod["spec"]["containers"][0]["resources"]["requests"])


def test_quotas_are_shared_and_admit_pods_as_in_koordinator() -> None:
    replay("elastic_quota", _ours, _flat, (revokes_what_helps,))
