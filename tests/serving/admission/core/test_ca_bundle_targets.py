from __future__ import annotations

import base64
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.protocol.resources import MUTATING_WEBHOOKS
from koord_serving.admission.core.ca_bundle_targets import (
    api_service_target,
    config_map_target,
    configuration_target,
)

PEM = b"-----BEGIN CERTIFICATE-----\n"
BUNDLE = base64.b64encode(PEM).decode()
NOT_SYSTEM = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
LABELLED = {"key": "type", "operator": "In", "values": ["slo"]}
MINE = {"key": "team", "operator": "NotIn", "values": ["a"]}


def webhook(**more: Any) -> dict[str, Any]:
    service = {"namespace": "koordinator-system", "name": "s", "port": 443, "path": "/mutate-pod"}
    return {
        "name": "mpod.koordinator.sh",
        "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": service, "caBundle": ""},
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {"matchExpressions": [NOT_SYSTEM]},
        "objectSelector": {"matchExpressions": [LABELLED]},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "scope": "*"}],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        **more,
    }


def document(*webhooks: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "koordinator-mutating-webhook-configuration", "labels": {"a": "b"}},
        "webhooks": list(webhooks or (webhook(),)),
    }


OFF = "mnode.koordinator.sh"
"""A webhook of ours that is switched off."""
TARGET = configuration_target(MUTATING_WEBHOOKS, document(), {"mpod.koordinator.sh", OFF})


def found(**more: Any) -> dict[str, Any]:
    """As it is kept after the first write, but for what others have changed since."""
    kept = copy.deepcopy(TARGET.desired(None, PEM))
    assert kept is not None
    kept["metadata"]["resourceVersion"] = "7"
    kept["webhooks"][0].update(copy.deepcopy(more))
    return kept


def merged(given_: dict[str, Any] | None, pem: bytes = PEM) -> dict[str, Any]:
    before = copy.deepcopy(given_)
    made = TARGET.desired(given_, pem)
    assert made is not None
    assert given_ == before, "nobody changes what was read"
    assert TARGET.desired(made, pem) == made, "it comes to rest"
    return made


def test_a_new_one_is_the_document_with_the_bundle() -> None:
    made = merged(None)
    wanted = document()
    wanted["webhooks"][0]["clientConfig"]["caBundle"] = BUNDLE
    assert made == wanted
    assert TARGET.name == "koordinator-mutating-webhook-configuration"


@pytest.mark.parametrize(
    "said",
    [
        {"matchConditions": [{"name": "not-mine", "expression": "true"}]},
        {"namespaceSelector": {"matchExpressions": [MINE, NOT_SYSTEM]}},
        {"namespaceSelector": {"matchLabels": {"x": "y"}, "matchExpressions": [NOT_SYSTEM]}},
        {"objectSelector": {"matchLabels": {"x": "y"}, "matchExpressions": [LABELLED]}},
    ],
)
def test_what_others_narrow_stays(said: dict[str, Any]) -> None:
    assert merged(found(**said)) == found(**said)


@pytest.mark.parametrize(
    "said",
    [
        {"rules": []},
        {"sideEffects": "Some"},
        {"failurePolicy": "Ignore"},
        {"timeoutSeconds": 30},
        {"namespaceSelector": {}},
        {"namespaceSelector": None},
        {"clientConfig": {"url": "https://elsewhere", "caBundle": "x"}},
        {"objectSelector": {"matchExpressions": [{**LABELLED, "values": ["other"]}]}},
    ],
)
def test_what_others_widen_or_break_is_put_back(said: dict[str, Any]) -> None:
    assert merged(found(**said)) == found()


def test_labels_and_annotations_of_others_stay_and_ours_come_back() -> None:
    kept = found()
    kept["metadata"]["labels"] = {"theirs": "1"}
    kept["metadata"]["annotations"] = {"cert-manager.io/note": "1"}
    meta = merged(kept)["metadata"]
    assert meta["labels"] == {"theirs": "1", "a": "b"}
    assert meta["annotations"] == {"cert-manager.io/note": "1"}
    assert meta["resourceVersion"] == "7"


@pytest.mark.parametrize(
    "webhooks",
    [
        None,
        [],
        # Ours that is switched off goes: nobody would answer, and Koordinator's policy may be Fail.
        [*found()["webhooks"], webhook(name=OFF)],
    ],
)
def test_webhooks_are_those_that_are_served(webhooks: Any) -> None:
    kept = found()
    kept["webhooks"] = webhooks
    assert merged(kept) == found()


def test_webhooks_of_others_stay_as_they_are_and_are_named() -> None:
    quotas = webhook(name="melasticquota.koordinator.sh", clientConfig={"url": "https://there"})
    kept = found()
    kept["webhooks"].insert(0, quotas)
    made = merged(kept)
    assert made["webhooks"] == [*found()["webhooks"], quotas]
    assert list(TARGET.others(kept)) == ["melasticquota.koordinator.sh"]
    assert list(TARGET.others(found())) == []


def test_a_bundle_that_is_not_ours_to_say_stays_as_it_is() -> None:
    assert merged(found(), pem=b"") == found()
    made = merged(None, pem=b"")
    assert "caBundle" not in made["webhooks"][0]["clientConfig"]


def test_an_api_service_gets_its_bundle_alone() -> None:
    target = api_service_target("v1alpha1.metrics.koordinator.sh", "leader", "ours")
    service = {"name": "leader", "namespace": "ours", "port": 443}
    kept = {
        "spec": {"insecureSkipTLSVerify": True, "group": "g", "service": service},
        "metadata": {"labels": {}},
    }
    assert target.desired(kept, PEM) == {
        "spec": {"caBundle": BUNDLE, "group": "g", "service": service},
        "metadata": {"labels": {}},
    }
    assert target.desired(None, PEM) is None
    assert target.desired(kept, b"") is None
    assert "insecureSkipTLSVerify" in kept["spec"]
    for other in ({**service, "name": "metrics-server"}, {**service, "namespace": "b"}, None):
        assert target.desired({"spec": {"service": other}, "metadata": {}}, PEM) is None


def test_a_config_map_tells_other_clients_beside_what_is_there() -> None:
    target = config_map_target("koordinator-manager-ca", "koordinator-system", "ca.crt")
    made = target.desired(None, PEM)
    assert made == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "koordinator-manager-ca", "namespace": "koordinator-system"},
        "data": {"ca.crt": PEM.decode()},
    }
    kept = {**made, "data": {"ca.crt": "old", "note": "theirs"}}
    assert target.desired(kept, PEM) == {**made, "data": {"ca.crt": PEM.decode(), "note": "theirs"}}
    assert target.desired(kept, b"") is None
    assert kept["data"]["ca.crt"] == "old"


expressions = st.lists(
    st.fixed_dictionaries(
        {
            "key": st.sampled_from(["type", "team", "kubernetes.io/metadata.name"]),
            "operator": st.sampled_from(["In", "NotIn"]),
            "values": st.lists(st.sampled_from(["a", "slo", "kube-system"]), max_size=2),
        }
    ),
    max_size=4,
)
selectors = st.none() | st.fixed_dictionaries({}, optional={"matchExpressions": expressions})


@given(selectors, selectors)
def test_our_conditions_are_in_force_whatever_others_say(namespaces: Any, objects: Any) -> None:
    made = merged(found(namespaceSelector=namespaces, objectSelector=objects))["webhooks"][0]
    assert NOT_SYSTEM in made["namespaceSelector"]["matchExpressions"]
    assert LABELLED in made["objectSelector"]["matchExpressions"]
    theirs = (namespaces or {}).get("matchExpressions", [])
    assert all(one in made["namespaceSelector"]["matchExpressions"] for one in theirs)
