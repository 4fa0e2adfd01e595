"""Hypothesis strategies for what webhooks are asked: pods, profiles, and JSON that is neither."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st
from koord_manager.quota.core.topology import QuotaTopology
from koord_manager.webhooks.cluster_view import ClusterView
from koord_model.elastic_quota import ElasticQuota
from koord_serving.admission.core.admission import AdmissionOperation, AdmissionRequest

Object = dict[str, Any]

NAMESPACES = ("shop", "batch", "kube-system", "new")

# What profiles look at, what they write, and what they copy from are apart: so that a pod that
# was mutated matches the same profiles, and none feeds another.
SEEN = ("app", "team")
WRITTEN = ("colocated", "example.com/a~b", "tier")
SOURCES = ("src", "example.com/src")
SUFFIXED = ("suffixed",)

_WORDS = st.sampled_from(("a", "b", "web", "x1"))
_CPUS = st.sampled_from(("1", "500m", "1500m", "0.1", "2", "3"))
_BYTES = st.sampled_from(("1Gi", "128Mi", "1G", "1000000", "1.5Gi"))

json_trees: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    "metadata",
                    "labels",
                    "annotations",
                    "spec",
                    "template",
                    "containers",
                    "initContainers",
                    "resources",
                    "requests",
                    "limits",
                    "name",
                    "cpu",
                    "patch",
                    "$patch",
                    "$retainKeys",
                    "$setElementOrder/containers",
                    "selector",
                    "matchLabels",
                    "probability",
                    "priority",
                    "koordinator.sh/gpu",
                    "koordinator.sh/qosClass",
                    "a/b~c",
                )
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@st.composite
def resources(draw: st.DrawFn) -> Object:
    """Requests that are not more than limits; either may be missing."""
    found: Object = {}
    for name, amounts, most in (("cpu", _CPUS, "4"), ("memory", _BYTES, "2Gi")):
        match draw(st.sampled_from(("none", "request", "limit", "both", "equal"))):
            case "request":
                found.setdefault("requests", {})[name] = draw(amounts)
            case "limit":
                found.setdefault("limits", {})[name] = draw(amounts)
            case "both":
                found.setdefault("requests", {})[name] = draw(amounts)
                found.setdefault("limits", {})[name] = most
            case "equal":
                amount = draw(amounts)
                found.setdefault("requests", {})[name] = amount
                found.setdefault("limits", {})[name] = amount
    if draw(st.integers(0, 4)) == 0:
        gpu = draw(st.sampled_from(("koordinator.sh/gpu", "koordinator.sh/gpu-core")))
        amount = draw(st.sampled_from(("50", "100", "200", "150")))
        for group in ("requests", "limits"):
            found.setdefault(group, {})[gpu] = amount
    return found


@st.composite
def containers(draw: st.DrawFn, name: str) -> Object:
    found: Object = {"name": name, "image": "registry/image:1", "resources": draw(resources())}
    ports = draw(st.lists(st.sampled_from((53, 80, 443)), max_size=3))
    if ports:
        found["ports"] = [
            {"containerPort": port, "protocol": protocol}
            for port, protocol in zip(ports, ("TCP", "UDP", "SCTP"), strict=False)
        ]
    env = draw(st.lists(st.sampled_from(("A", "B", "C")), unique=True, max_size=3))
    if env:
        found["env"] = [{"name": one, "value": draw(_WORDS)} for one in env]
    return found


@st.composite
def pods(draw: st.DrawFn) -> Object:
    """Pods that the API server takes."""
    keys = (*SEEN, *WRITTEN, *SOURCES, *SUFFIXED)
    labels = draw(st.dictionaries(st.sampled_from(keys), _WORDS, max_size=5))
    labels |= draw(st.dictionaries(st.just("koordinator.sh/qosClass"), st.just("BE"), max_size=1))
    metadata: Object = {"name": draw(_WORDS), "labels": labels}
    if draw(st.booleans()):
        metadata["annotations"] = draw(st.dictionaries(st.sampled_from(SOURCES), _WORDS))
    spec: Object = {
        "containers": [draw(containers(f"c{i}")) for i in range(draw(st.integers(1, 3)))],
    }
    inits = [draw(containers(f"i{i}")) for i in range(draw(st.integers(0, 2)))]
    for one in inits:
        one |= draw(st.sampled_from(({}, {"restartPolicy": "Always"})))
    if inits:
        spec["initContainers"] = inits
    priority = draw(st.sampled_from((None, 0, 9500, 7500, 5500, 3500)))
    if priority is not None:
        spec["priority"] = priority
    if draw(st.booleans()):
        spec["affinity"] = draw(st.sampled_from((_AFFINITY, {})))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": copy.deepcopy(spec)}


_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
                {},
            ]
        }
    }
}

_PATCHES = (
    {"spec": {"terminationGracePeriodSeconds": 5}},
    {"metadata": {"labels": {"colocated": None}}},
    {"spec": {"containers": [{"name": "c0", "env": [{"name": "B", "value": "patched"}]}]}},
    {"spec": {"containers": [{"name": "extra", "image": "sidecar:1"}]}},
    {"spec": {"$setElementOrder/containers": [{"name": "c1"}, {"name": "c0"}]}},
    {"spec": {"containers": [{"name": "c2", "$patch": "delete"}]}},
    {"spec": {"tolerations": [{"key": "batch", "operator": "Exists"}]}},
    {"spec": {"volumes": [{"name": "v", "emptyDir": {}}], "affinity": {"$patch": "delete"}}},
)


@st.composite
def profiles(draw: st.DrawFn) -> Object:
    """Profiles as people write them."""
    spec: Object = {}
    options = {
        "selector": st.fixed_dictionaries(
            {"matchLabels": st.dictionaries(st.sampled_from(SEEN), _WORDS, max_size=1)}
        ),
        "namespaceSelector": st.just({"matchLabels": {"colocated": "yes"}}),
        "probability": st.sampled_from((0, 30, "50%", "100%", 100)),
        "labels": st.dictionaries(st.sampled_from(WRITTEN), _WORDS),
        "annotations": st.dictionaries(st.sampled_from(WRITTEN), _WORDS),
        "labelKeysMapping": st.dictionaries(st.sampled_from(SOURCES), st.just("mapped")),
        "annotationKeysMapping": st.dictionaries(st.sampled_from(SOURCES), st.just("mapped")),
        "labelSuffixes": st.just({"suffixed": "-s"}),
        "schedulerName": st.just("koord-scheduler"),
        "qosClass": st.sampled_from(("BE", "LS")),
        "priorityClassName": st.sampled_from(("koord-batch", "koord-mid", "koord-prod")),
        "koordinatorPriority": st.integers(0, 9999),
        "patch": st.sampled_from(_PATCHES),
    }
    for name, values in options.items():
        if draw(st.booleans()):
            spec[name] = draw(values)
    metadata: Object = {"name": "p"}
    if draw(st.integers(0, 5)) == 0:
        metadata["annotations"] = {"config.koordinator.sh/skip-update-resources": "true"}
    return {"metadata": metadata, "spec": spec}


@st.composite
def views(draw: st.DrawFn, of: st.SearchStrategy[Any] | None = None) -> ClusterView:
    """Clusters; ``of`` is what profiles are made of, if not of proper ones."""
    made = profiles() if of is None else of
    chance = draw(st.sampled_from((0.0, 0.31, 0.75, 0.999)))
    gates = draw(
        st.dictionaries(
            st.sampled_from(
                (
                    "MultiQuotaTree",
                    "ValidatePodDeviceResource",
                    "EnablePodEnhancedValidator",
                    "ColocationProfileSkipMutatingResources",
                )
            ),
            st.booleans(),
        )
    )
    return ClusterView(
        profiles=draw(st.dictionaries(st.sampled_from(("a", "b", "c")), made)),
        namespaces={
            "shop": {"metadata": {"labels": {}}},
            "batch": {"metadata": {"labels": {"colocated": "yes"}}},
            "kube-system": {"metadata": {"labels": {"colocated": "yes"}}},
        },
        priority_classes={
            "koord-batch": {"value": 5500, "preemptionPolicy": "Never"},
            "koord-mid": {"value": 7500},
            "koord-prod": {"value": 9500},
        },
        quotas=QuotaTopology([ElasticQuota("shop", "shop", tree_id="t")]),
        quota_profiles={
            "any/p": {
                "metadata": {"labels": {"quota.scheduling.koordinator.sh/tree-id": "t"}},
                "spec": {"nodeSelector": {"matchLabels": {"pool": "shop"}}},
            }
        },
        enhanced_validation={
            "enable": "true",
            "rules": '[{"name": "teams", "requiredLabels": ["team"]}]',
        },
        gates=gates,
        chance=lambda: chance,
    )


def creation(pod: Any, namespace: str = "batch") -> AdmissionRequest:
    """The question before a pod is kept for the first time."""
    return AdmissionRequest("1", AdmissionOperation.CREATE, "pods", namespace=namespace, object=pod)


def update(pod: Any, old: Any, namespace: str = "batch") -> AdmissionRequest:
    """The question before a pod is replaced."""
    return AdmissionRequest(
        "1", AdmissionOperation.UPDATE, "pods", namespace=namespace, object=pod, old=old
    )
