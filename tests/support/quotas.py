"""Random quotas, and what is done with them: inputs of conformance vectors, drawn from a seed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

Object = dict[str, Any]

QUOTA = "quota.scheduling.koordinator.sh"
NAMES = ("a", "b", "c", "d", "e")
NAMESPACES = ("n1", "n2", "n3")
RESERVED = ("koordinator-root-quota", "koordinator-system-quota", "koordinator-default-quota")
GPU = "nvidia.com/gpu"
POOLS = ("blue", "red")


class QuotaInputs:
    """Makes inputs; each has a ``kind``."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def _chance(self, percent: int) -> bool:
        return self._random.randrange(100) < percent

    def _pick(self, *values: Any) -> Any:
        return self._random.choice(values)

    # ---- trees

    def tree(self) -> Object:
        """Quotas that are created, changed and deleted, one after the other."""
        gates = ("ElasticQuotaEnableUpdateResourceKey", "ElasticQuotaGuaranteeUsage")
        return {
            "kind": "tree",
            "gates": {gate: self._chance(30) for gate in gates},
            "pods": [self._bound_pod(place) for place in range(self._random.randrange(3))],
            "steps": list(self._steps()),
        }

    def _steps(self) -> Iterator[Object]:
        known, made = ["koordinator-root-quota"], dict[str, Object]()
        for name in self._random.sample(NAMES, 5):
            made[name] = self._quota(name, known)
            yield {"op": "create", "quota": made[name]}
            known.append(name)
            if self._chance(15):
                yield {"op": "create", "quota": self._quota(self._pick(*NAMES, *RESERVED), known)}
        for _ in range(7):
            name = self._pick(*NAMES)
            if self._chance(20):
                yield {"op": "delete", "name": name}
                continue
            made[name] = self._changed(made[name], self._quota(name, known))
            yield {"op": "update", "quota": made[name]}

    def _changed(self, old: Object, new: Object) -> Object:
        """The old quota with a part of the new one."""
        part = self._pick("labels", "annotations", "spec", "parent")
        metadata = {**old["metadata"]}
        if part in ("labels", "annotations"):
            metadata[part] = new["metadata"][part]
        elif part == "parent":
            parent = self._pick(*NAMES, "koordinator-root-quota")
            metadata["labels"] = {**metadata["labels"], f"{QUOTA}/parent": parent}
        spec = {**old["spec"], **new["spec"]} if part == "spec" else old["spec"]
        return {**old, "metadata": metadata, "spec": spec}

    def _quota(self, name: str, known: list[str], odd: int = 3) -> Object:
        """``odd`` is how often, in percent, something is wrong with each part."""
        labels, annotations = {}, dict[str, str]()
        parent = self._pick(*known, "") if not self._chance(odd) else self._pick("gone", *NAMES)
        labels |= {"parent": parent} if parent else {}
        labels |= {"is-parent": self._pick("true", "true", "false")} if self._chance(90) else {}
        labels |= {"tree-id": self._pick("t", "u")} if self._chance(8) else {}
        labels |= {"is-root": "true"} if self._chance(8) else {}
        labels |= {"allow-force-update": "true"} if self._chance(8) else {}
        names = ["cpu", "memory"] + ([GPU] if self._chance(8) else [])
        high = {"cpu": 40, "memory": 64 << 30, GPU: 8}
        most = {one: self._random.randrange(high[one] // 2, high[one]) for one in names}
        part = self._pick(0, 0, 1, 2, 4, 8)
        least = {one: most[one] // 8 * part // 8 for one in names if self._chance(90)}
        if self._chance(odd):
            least[self._pick(*names)] = self._pick(-1, high["memory"] * 2)
        if self._chance(odd):
            most[self._pick("cpu", GPU)] = self._pick(-5, 1)
        if self._chance(20):
            annotations["shared-weight"] = self._weight(most, odd)
        if self._chance(25):
            listed = self._random.sample(NAMESPACES, self._random.randrange(1, 3))
            annotations["namespaces"] = json.dumps(listed) if not self._chance(odd) else "n1, n2"
        for key in ("guaranteed", "allocated"):
            if self._chance(25):
                annotations[key] = json.dumps({one: most[one] // 4 for one in names})
        if self._chance(10):
            strict = self._pick('["cpu"]', '["cpu"]', '["cpu", "nvidia.com/gpu"]', '"cpu"')
            annotations["max-strict-check-resource-keys"] = strict
        return {
            "metadata": {
                "name": name,
                "namespace": self._pick("quotas", "quotas", "quotas", "others"),
                "labels": {f"{QUOTA}/{key}": value for key, value in labels.items()},
                "annotations": {f"{QUOTA}/{key}": value for key, value in annotations.items()},
            },
            "spec": {"min": _quantities(least), "max": _quantities(most)},
            "status": {"used": {"cpu": str(self._random.randrange(0, 40)), GPU: "1"}},
        }

    def _weight(self, most: Object, odd: int) -> str:
        if self._chance(odd):
            return str(self._pick("{", '{"cpu": "many"}', '{"cpu": -1}', "[]"))
        names = self._random.sample([*most, "example.com/other"], 2)
        return json.dumps({name: str(self._random.randrange(5)) for name in names})

    def _bound_pod(self, place: int) -> Object:
        labels = {f"{QUOTA}/name": self._pick(*NAMES)} if self._chance(50) else {}
        where = self._pick(*NAMES, *NAMESPACES)
        return {"metadata": {"name": f"p{place}", "namespace": where, "labels": labels}}

    # ---- pods

    def pod(self) -> Object:
        """A new or changed pod among quotas and profiles."""
        gates = {"MultiQuotaTree": 90, "SupportParentQuotaSubmitPod": 10, "DisableDefaultQuota": 10}
        found: Object = {
            "kind": "pod",
            "gates": {
                gate: self._chance(percent)
                for gate, percent in zip(gates, (90, 10, 10), strict=True)
            },
            "quotas": [
                self._plain_quota(*names)
                for names in zip(
                    self._random.sample(NAMES, 3), self._random.sample(NAMESPACES, 3), strict=True
                )
            ],
            "profiles": [self._tree_profile(tree) for tree in ("t", "u") if self._chance(85)],
            "pod": self._pod("p"),
        }
        return found | ({"old": self._pod("p")} if self._chance(20) else {})

    def _plain_quota(self, name: str, listed: str) -> Object:
        labels = {"is-parent": self._pick("true", "false"), "tree-id": self._pick("t", "u", "")}
        annotations = {}
        if self._chance(30):
            annotations["namespaces"] = json.dumps([listed])
        return {
            "metadata": {
                "name": name,
                "namespace": self._pick("quotas", name, name),
                "labels": {f"{QUOTA}/{key}": value for key, value in labels.items() if value},
                "annotations": {f"{QUOTA}/{key}": value for key, value in annotations.items()},
            }
        }

    def _tree_profile(self, tree: str) -> Object:
        selector: Object = {"matchLabels": {"pool": self._pick(*POOLS)}}
        if self._chance(40):
            selector["matchExpressions"] = [
                self._pick(
                    {"key": "zone", "operator": "In", "values": ["x", "y"]},
                    {"key": "old", "operator": "DoesNotExist"},
                )
            ]
        metadata = {
            "name": f"of-{tree}",
            "namespace": "quotas",
            "labels": {f"{QUOTA}/tree-id": tree},
        }
        return {"metadata": metadata, "spec": {"quotaName": tree, "nodeSelector": selector}}

    def _pod(self, name: str) -> Object:
        labels = {}
        if self._chance(50):
            labels[f"{QUOTA}/name"] = self._pick(*NAMES)
        if self._chance(30):
            labels[f"{QUOTA}/preemptible"] = self._pick("true", "false")
        spec: Object = {"containers": [{"name": "c"}]}
        if self._chance(40):
            term = {"matchExpressions": [{"key": "k", "operator": "Exists"}]}
            terms = [term] * self._random.randrange(3)
            required = {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            }
            spec["affinity"] = {"nodeAffinity": required}
        metadata = {"name": name, "namespace": self._pick(*NAMES, *NAMESPACES), "labels": labels}
        return {"metadata": metadata, "spec": spec}

    # ---- what is charged

    def charge(self) -> Object:
        """Pods that are charged to one quota, one after the other."""
        names = self._random.sample(["cpu", "memory", GPU, "kubernetes.io/batch-cpu"], 3)
        amounts = {"cpu": "4", "memory": "8Gi", GPU: "2", "kubernetes.io/batch-cpu": "6000"}
        noted = {}
        if self._chance(40):
            noted["admission"] = json.dumps({"cpu": self._pick("2", "2500m")})
        if self._chance(60):
            noted["child-request"] = json.dumps({"cpu": self._pick("500m", "3"), "memory": "1Gi"})
        quota = {
            "metadata": {
                "name": "a",
                "namespace": "quotas",
                "annotations": {f"{QUOTA}/{key}": value for key, value in noted.items()},
            },
            "spec": {"max": {name: amounts[name] for name in names}},
        }
        pods = [self._asking_pod(place) for place in range(self._random.randrange(1, 6))]
        return {"kind": "charge", "quotas": [quota], "pods": pods}

    def _asking_pod(self, place: int) -> Object:
        def container(name: str) -> Object:
            asked = {"cpu": self._pick("250m", "1", "1500m"), "memory": self._pick("1Gi", "512Mi")}
            asked |= {GPU: "1"} if self._chance(20) else {}
            asked |= {"kubernetes.io/batch-cpu": "2000"} if self._chance(30) else {}
            kept = {key: value for key, value in asked.items() if self._chance(80)}
            return {"name": name, "resources": {"requests": kept}}

        spec: Object = {
            "containers": [container("c"), *([container("d")] if self._chance(30) else [])]
        }
        if self._chance(30):
            spec["initContainers"] = [container("i")]
            if self._chance(50):
                spec["initContainers"][0]["restartPolicy"] = "Always"
        if self._chance(20):
            spec["overhead"] = {"cpu": "100m"}
        status = {"phase": "Succeeded"} if self._chance(5) else {}
        return {"metadata": {"name": f"p{place}"}, "spec": spec, "status": status}

    # ---- quotas of nodes

    def profile(self) -> Object:
        """A profile, its nodes, and its quota if there is one already."""
        metadata: Object = {"name": "p", "namespace": "quotas", "labels": {}, "annotations": {}}
        if self._chance(50):
            metadata["labels"][f"{QUOTA}/tree-id"] = "t"
        if self._chance(40):
            keys = self._pick('["cpu"]', '["memory", "nvidia.com/gpu"]', "cpu", "null", "[]", "")
            metadata["annotations"][f"{QUOTA}/resource-keys"] = keys
        spec: Object = {
            "quotaName": "a",
            "nodeSelector": self._pick({}, {"matchLabels": {"pool": "red"}}),
        }
        if self._chance(60):
            spec["resourceRatio"] = self._pick("0.9", "0.333", "1", "1.0", "0", "2", "much", "1e-1")
        if self._chance(40):
            spec["quotaLabels"] = {f"{QUOTA}/{self._pick('is-parent', 'tree-id', 'is-root')}": "x"}
        quotas = [self._quota("a", ["koordinator-root-quota"])] if self._chance(40) else []
        for one in quotas:
            one["metadata"]["namespace"] = "quotas"
        nodes = [self._node(place) for place in range(self._random.randrange(6))]
        profiles = [{"metadata": metadata, "spec": spec}]
        return {"kind": "profile", "profiles": profiles, "quotas": quotas, "nodes": nodes}

    def _node(self, place: int) -> Object:
        allocatable = {"cpu": self._pick("4", "7910m"), "memory": self._pick("16393244Ki", "32Gi")}
        allocatable |= {GPU: "8"} if self._chance(30) else {}
        there = self._chance(90)
        ready = {"type": "Ready", "status": self._pick("True", "True", "True", "False", "Unknown")}
        return {
            "metadata": {"name": f"n{place}", "labels": {"pool": self._pick(*POOLS)}},
            "spec": {"unschedulable": True} if self._chance(15) else {},
            "status": {
                "allocatable": allocatable,
                "conditions": [ready] * there,
            },
        }

    # ---- bindings

    def binding(self) -> Object:
        """Somebody binds a pod."""
        flags = {
            "user-name": self._pick("", "koord-scheduler", "koord-scheduler, other"),
            "namespaces": self._pick("", "*", "n1", "n1,n2"),
            "exclude-namespaces": self._pick("kube-system", "", "n1"),
            "bypass-labels": self._pick("skip", ""),
            "bypass-annotations": self._pick("", "skip"),
            "dry-run": self._pick("false", "false", "false", "true"),
        }
        where = self._pick("n1", "n2", "kube-system")
        metadata: Object = {"name": "p", "namespace": where}
        metadata |= {"labels": {"skip": ""}} if self._chance(20) else {}
        metadata |= {"annotations": {"skip": "x"}} if self._chance(20) else {}
        account = "system:serviceaccount:koordinator-system:koord-scheduler"
        pod = {"metadata": metadata, "spec": {"containers": []}}
        return {
            "kind": "binding",
            "gates": {"BindingAdmissionWebhook": True},
            "flags": flags,
            "user": self._pick(account, "me", "an-other"),
            "namespace": where,
            "pods": [pod] * self._chance(90),
        }


def _quantities(amounts: Object) -> Object:
    return {name: str(amount) for name, amount in amounts.items()}
