"""Who may be evicted, and by which claim."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from koord_model.keys import (
    ANNOTATION_EVICTION_COST,
    ANNOTATION_EVICTION_POLICY,
    LABEL_EVICTION_ENABLED,
)
from koord_model.never_evicted import SYSTEM_CRITICAL
from koord_model.qos import QoSClass
from koordlet.qos_manager.core.strategy import Decision, EvictionClaim, PodView
from koordlet.qos_manager.eviction.policy.guard import never, own_names, refusal

from tests.support.views import pod_view, pod_view_of

OPTED_IN = {LABEL_EVICTION_ENABLED: "true"}


def claim(rule: str = "MemoryEvict", *, opt_in: bool = False) -> EvictionClaim:
    return EvictionClaim(rule, "memory", 1.0, (), Decision("short"), opt_in=opt_in)


def in_namespace(namespace: str, **given: Any) -> PodView:
    record = pod_view(**given).record
    return pod_view_of(replace(record, pod=replace(record.pod, namespace=namespace)))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, ""),
        ({"listed": False}, "has no specification that is known"),
        ({"terminating": True}, "ends already"),
        ({"annotations": {"kubernetes.io/config.mirror": "abc"}}, "static pod"),
        ({"annotations": {"kubernetes.io/config.source": "file"}}, "static pod"),
        ({"annotations": {"kubernetes.io/config.source": "http"}, "listed": False}, "static"),
        ({"annotations": {"kubernetes.io/config.source": "api"}}, ""),
        ({"priority": SYSTEM_CRITICAL}, "priority is 2000000000"),
        ({"priority": SYSTEM_CRITICAL + 1000}, "priority is 2000001000"),
        ({"priority": SYSTEM_CRITICAL - 1}, ""),
        ({"priority_name": "system-node-critical"}, "class is system-node-critical"),
        ({"priority_name": "koord-batch"}, ""),
        ({"qos": QoSClass.SYSTEM}, "class SYSTEM"),
        ({"controller": "DaemonSet"}, "is a DaemonSet's"),
        ({"controller": "ReplicaSet"}, ""),
        ({"annotations": {ANNOTATION_EVICTION_COST: "2147483647"}}, ANNOTATION_EVICTION_COST),
        ({"annotations": {ANNOTATION_EVICTION_COST: "2147483646"}}, ""),
        ({"annotations": {ANNOTATION_EVICTION_COST: "never"}}, ""),
    ],
)
@pytest.mark.parametrize("labels", [{}, OPTED_IN], ids=["plain", "opted-in"])
def test_some_pods_are_never_evicted(
    given: dict[str, Any], why: str, labels: dict[str, str]
) -> None:
    found = refusal(pod_view(**given, labels=labels), claim())
    assert why in found
    assert bool(found) == bool(why)


def test_kube_system_stays_unless_the_pod_agrees() -> None:
    assert "kube-system" in never(in_namespace("kube-system"))
    assert never(in_namespace("kube-system", labels=OPTED_IN)) == ""
    assert never(in_namespace("kube-public")) == ""


def test_its_own_pod_stays_by_uid_and_by_name() -> None:
    pod = pod_view("koordlet-1", uid="u-1")
    for own in ("u-1", "ns/koordlet-1"):
        assert never(pod, frozenset({own})) == "is koordlet's own pod"
    assert never(pod, frozenset({"u-2", "ns/koordlet"})) == ""


def test_what_its_own_pod_is_called() -> None:
    said = {"POD_UID": "u-1", "POD_NAMESPACE": "koordinator-system", "POD_NAME": "koordlet-1"}
    assert own_names(said) == {"u-1", "koordinator-system/koordlet-1"}
    assert own_names({"POD_NAME": "koordlet-1"}) == own_names({}) == frozenset()


@pytest.mark.parametrize(
    ("labels", "opt_in", "may"),
    [
        ({}, False, True),
        ({}, True, False),
        ({LABEL_EVICTION_ENABLED: "false"}, True, False),
        ({LABEL_EVICTION_ENABLED: "True"}, True, False),
        (OPTED_IN, True, True),
    ],
)
def test_the_opt_in_counts_where_the_claim_asks_for_it(
    labels: dict[str, str], opt_in: bool, may: bool
) -> None:
    why = "" if may else f"is not labelled {LABEL_EVICTION_ENABLED}=true"
    assert refusal(pod_view(labels=labels), claim(opt_in=opt_in)) == why


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ('["MemoryEvict"]', ""),
        ('["CPUEvict", "MemoryEvict"]', ""),
        ('["CPUEvict"]', "without MemoryEvict"),
        ('["MemoryEvictLater"]', "without MemoryEvict"),
        ("[]", "without MemoryEvict"),
        ("", "not a list of rules"),
        ('"MemoryEvict"', "not a list of rules"),
        ("[1]", "not a list of rules"),
        ("nonsense", "not a list of rules"),
        ("[" * 5000, "not a list of rules"),
        # Not read, nor kept: annotations may be a quarter of a megabyte.
        ('["MemoryEvict"' + " " * 5000 + "]", "not a list of rules"),
    ],
)
def test_the_policy_lists_the_rules_that_may(policy: str, why: str) -> None:
    found = refusal(pod_view(annotations={ANNOTATION_EVICTION_POLICY: policy}), claim())
    assert why in found
    assert bool(found) == bool(why)
