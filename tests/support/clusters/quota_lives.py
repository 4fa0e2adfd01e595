"""Lives of quotas: nodes, quotas and pods that come, change and go, and what is asked meanwhile."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

from koord_model.keys import (
    ANNOTATION_SHARED_WEIGHT,
    ANNOTATION_TOTAL_RESOURCE,
    LABEL_ALLOW_LENT_RESOURCE,
    LABEL_PREEMPTIBLE,
    LABEL_QUOTA_IGNORE_DEFAULT_TREE,
    LABEL_QUOTA_IS_PARENT,
    LABEL_QUOTA_IS_ROOT,
    LABEL_QUOTA_NAME,
    LABEL_QUOTA_PARENT,
    LABEL_QUOTA_TREE,
)

Object = dict[str, Any]
CARD = "example.com/gpu"


def random_quota_life(rng: Random) -> Object:
    """Gates, arguments, and the ``steps`` of one cluster."""
    return _Life(rng).document()


class _Life:
    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._names = rng.choice([["cpu"], ["cpu", "memory"], ["cpu", "memory", CARD]])
        self._trees = rng.choice([["", "t1"], [""], [""]])
        self._is_uniform = self._chance(0.5)
        self._capacity = rng.choice([10, 30, 100])
        self._steps: list[Object] = []
        self._quotas: dict[str, Object] = {}
        self._pods: dict[str, Object] = {}
        self._placed: set[str] = set()
        self._number = 0

    def document(self) -> Object:
        gates = {
            "MultiQuotaTree": len(self._trees) > 1 and self._chance(0.85),
            "ElasticQuotaGuaranteeUsage": self._chance(0.25),
            "DisableDefaultQuota": self._chance(0.1),
        }
        args = {
            "enableCheckParentQuota": self._chance(0.5),
            "enableRuntimeQuota": self._chance(0.85),
            "enableMinQuotaScale": self._chance(0.7),
        }
        self._set_node(self._capacity // 2)
        for _ in range(self._rng.randint(2, 14)):
            self._new_quota()
        for _ in range(self._rng.randint(1, 3)):
            for _ in range(self._rng.randint(4, 18)):
                self._happen()
            names = [*self._quotas, *self._quotas, "nowhere"]
            probes = [self._pod(self._rng.choice(names), "") for _ in range(3)]
            self._steps.append({"do": "check", "probes": probes})
        return {"gates": gates, "args": args, "steps": self._steps}

    def _happen(self) -> None:
        choice = self._rng.random()
        if choice < 0.6:
            self._new_pod()
        elif choice < 0.75 and self._pods:
            self._reserve(self._rng.choice(list(self._pods)))
        elif choice < 0.9 and self._pods:
            key = self._rng.choice(list(self._pods))
            del self._pods[key]
            self._placed.discard(key)
            self._steps.append({"do": "gone", "name": key})
        elif choice < 0.94:
            self._set_node(0)
        else:
            self._change_quota()

    def _chance(self, share: float) -> bool:
        return self._rng.random() < share

    def _amounts(self, names: list[str], least: int, most: int) -> dict[str, str]:
        found = {}
        for name in names:
            value = self._rng.randint(least, most)
            if name == "cpu":
                found[name] = f"{1000 * value + self._rng.choice([0, 0, 0, 500, 333])}m"
            elif name == "memory":
                found[name] = f"{value * self._rng.choice([1024, 1024, 1000, 1])}Mi"
            else:
                found[name] = str(value)
        return found

    def _some(self, names: list[str], share: float = 0.8) -> list[str]:
        return [name for name in names if self._chance(share)]

    def _set_node(self, least: int) -> None:
        name = f"n{self._rng.randint(0, 2)}"
        amounts = self._amounts(self._names, least, self._capacity)
        node = {"metadata": {"name": name}, "status": {"allocatable": amounts}}
        self._steps.append({"do": "node", "node": node})

    def _new_quota(self) -> None:
        rng, tree = self._rng, self._rng.choice(self._trees)
        parents = [one for one in self._quotas.values() if _is_parent_in(one, tree)]
        parent = rng.choice(parents) if parents and self._chance(0.75) else None
        allowed = list(parent["spec"]["max"]) if parent is not None else self._names
        all_of_them = self._is_uniform or self._chance(0.8)
        names = allowed if all_of_them else self._some(allowed) or allowed[:1]
        labels, annotations = self._metadata(tree, parent, names)
        name = f"{rng.choice('abcdxyz')}{len(self._quotas)}"
        metadata = {"name": name, "namespace": "q", "labels": labels, "annotations": annotations}
        most = self._amounts(names, 2, 20 if parent is not None or self._chance(0.7) else 60)
        least = self._amounts(self._some(names), 0, rng.choice([2, 6, 12]))
        self._put_quota({"metadata": metadata, "spec": {"max": most, "min": least}})

    def _metadata(
        self, tree: str, parent: Object | None, names: list[str]
    ) -> tuple[dict[str, str], dict[str, str]]:
        labels, annotations = dict[str, str](), dict[str, str]()
        if parent is not None:
            labels[LABEL_QUOTA_PARENT] = parent["metadata"]["name"]
        if tree:
            labels[LABEL_QUOTA_TREE] = tree
        if tree and parent is None and self._chance(0.8):
            labels[LABEL_QUOTA_IS_ROOT] = "true"
            if self._chance(0.3):
                labels[LABEL_QUOTA_IGNORE_DEFAULT_TREE] = "true"
            if not any(_has_total(one) for one in self._quotas.values()):
                total = self._amounts(names, 5, self._capacity)
                annotations[ANNOTATION_TOTAL_RESOURCE] = json.dumps(total)
        if self._chance(0.45):
            labels[LABEL_QUOTA_IS_PARENT] = "true"
        if self._chance(0.3):
            labels[LABEL_ALLOW_LENT_RESOURCE] = self._rng.choice(["false", "false", "true"])
        if self._chance(0.3):
            annotations[ANNOTATION_SHARED_WEIGHT] = json.dumps(self._amounts(names, 0, 9))
        return labels, annotations

    def _change_quota(self) -> None:
        quota = copy.deepcopy(self._rng.choice(list(self._quotas.values())))
        names, metadata = list(quota["spec"]["max"]), quota["metadata"]
        match self._rng.randrange(4):
            case 0:
                quota["spec"]["max"] = self._amounts(names, 2, 25)
            case 1:
                quota["spec"]["min"] = self._amounts(self._some(names), 0, 10)
            case 2:
                weight = json.dumps(self._amounts(names, 0, 9))
                metadata["annotations"][ANNOTATION_SHARED_WEIGHT] = weight
            case _:
                metadata["labels"][LABEL_ALLOW_LENT_RESOURCE] = self._rng.choice(["true", "false"])
        self._put_quota(quota)

    def _put_quota(self, quota: Object) -> None:
        self._quotas[quota["metadata"]["name"]] = quota
        self._steps.append({"do": "quota", "quota": quota})

    def _new_pod(self) -> None:
        leaves = [name for name, one in self._quotas.items() if not _is_parent(one)]
        names = leaves if leaves and self._chance(0.92) else ["nowhere", *self._quotas]
        pod = self._pod(self._rng.choice(names), "n0" if self._chance(0.45) else "")
        self._pods[pod["metadata"]["name"]] = pod
        if pod["spec"]["nodeName"]:
            self._placed.add(pod["metadata"]["name"])
        self._steps.append({"do": "pod", "pod": pod})

    def _reserve(self, key: str) -> None:
        """A pod is assumed on a node, or not any more."""
        if key not in self._placed:
            self._placed.add(key)
            self._steps.append({"do": "reserve", "name": key})
        elif not self._pods[key]["spec"]["nodeName"]:
            self._placed.discard(key)
            self._steps.append({"do": "unreserve", "name": key})

    def _pod(self, quota: str, node: str) -> Object:
        self._number += 1
        names = self._names if self._is_uniform else self._some(self._names, 0.85)
        requests = self._amounts(names, int(self._is_uniform), 6)
        name, labels = f"p{self._number}", {LABEL_QUOTA_NAME: quota}
        if self._chance(0.25):
            labels[LABEL_PREEMPTIBLE] = self._rng.choice(["false", "false", "true"])
        container = {"name": "c", "resources": {"requests": requests}}
        # No two pods are equally important: which of those goes is by chance.
        priority = 1000 * self._rng.randint(0, 99) + self._number
        spec = {"priority": priority, "nodeName": node, "containers": [container]}
        metadata = {"name": name, "namespace": "ns", "uid": name, "labels": labels}
        return {"metadata": metadata, "spec": spec}


def _is_parent(quota: Object) -> bool:
    return LABEL_QUOTA_IS_PARENT in quota["metadata"]["labels"]


def _is_parent_in(quota: Object, tree: str) -> bool:
    return _is_parent(quota) and quota["metadata"]["labels"].get(LABEL_QUOTA_TREE, "") == tree


def _has_total(quota: Object) -> bool:
    return ANNOTATION_TOTAL_RESOURCE in quota["metadata"]["annotations"]
