"""Kubernetes' class by the specification; the cases are those of Kubernetes 1.36's function."""

from typing import Any

import msgspec
import pytest
from koord_kube.views.pod import PodSpec
from koord_kube.views.pod_qos import compute_kube_qos, kube_qos_of

Quantities = dict[str, Any]
BOTH: Quantities = {"cpu": "1", "memory": "1Gi"}


def asks(requests: Quantities | None = None, limits: Quantities | None = None) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": requests, "limits": limits}}


def spec(*containers: dict[str, Any], **more: Any) -> PodSpec:
    return msgspec.convert({"containers": list(containers), **more}, PodSpec)


BE, BU, GU = "BestEffort", "Burstable", "Guaranteed"


@pytest.mark.parametrize(
    ("given", "qos"),
    [
        pytest.param(spec({"name": "c"}), BE, id="nothing"),
        pytest.param(spec(asks({"cpu": "0"}, {"memory": "0"})), BE, id="zeros"),
        pytest.param(spec(asks({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"})), BE, id="gpus"),
        pytest.param(spec(asks({"kubernetes.io/batch-cpu": "1"})), BE, id="batch resources"),
        pytest.param(spec(asks({"cpu": "100m"})), BU, id="a request"),
        pytest.param(spec(asks(limits={"cpu": "1"})), BU, id="one limit"),
        pytest.param(spec(asks(BOTH, BOTH)), GU, id="equal"),
        pytest.param(spec(asks(limits=BOTH)), GU, id="limits are requests, too"),
        pytest.param(spec(asks({"cpu": 1.0, "memory": "1024Mi"}, BOTH)), GU, id="spelt otherwise"),
        pytest.param(spec(asks({"cpu": "1", "memory": "1"}, BOTH)), BU, id="less memory"),
        pytest.param(spec(asks(BOTH, {**BOTH, "memory": "0"})), BU, id="no memory limit"),
        pytest.param(spec(asks(BOTH, BOTH), {"name": "d"}), BU, id="one container has none"),
        pytest.param(
            spec(asks(BOTH, BOTH), initContainers=[{"name": "i"}]), BU, id="an init container"
        ),
        pytest.param(
            spec(asks(BOTH, BOTH), initContainers=[asks(BOTH, BOTH)]), GU, id="an equal one"
        ),
        pytest.param(
            spec({"name": "c"}, initContainers=[asks({"cpu": "1"})]),
            BU,
            id="an init container alone",
        ),
        pytest.param(
            spec(asks(BOTH, BOTH), ephemeralContainers=[{"name": "e"}]), GU, id="an ephemeral one"
        ),
        # Kubernetes compares sums: what one asks for less, another may ask for more.
        pytest.param(
            spec(
                asks({"cpu": "1", "memory": "1"}, {"cpu": "2", "memory": "1"}),
                asks({"cpu": "2", "memory": "1"}, {"cpu": "1", "memory": "1"}),
            ),
            GU,
            id="equal in sum",
        ),
        pytest.param(spec(asks(BOTH, BOTH), resources={}), BE, id="an empty one for the pod"),
        pytest.param(
            spec({"name": "c"}, resources={"requests": BOTH, "limits": BOTH}), GU, id="for the pod"
        ),
        pytest.param(
            spec(asks({"cpu": "100m"}), resources={"limits": BOTH}), BU, id="less by containers"
        ),
        pytest.param(spec({"name": "c"}, resources={"limits": BOTH}), GU, id="the pod's limits"),
        pytest.param(spec({"name": "c"}, resources={"requests": BOTH}), BU, id="no limits"),
        pytest.param(
            spec(asks(BOTH, BOTH), resources={"limits": {"memory": "1Gi"}}), BU, id="one of the two"
        ),
        pytest.param(spec(asks({"cpu": "much"})), BE, id="no quantity"),
        pytest.param(spec(), BE, id="no containers"),
    ],
)
def test_the_class_of_a_specification(given: PodSpec, qos: str) -> None:
    assert compute_kube_qos(given).value == qos


def test_the_status_counts_where_it_names_one() -> None:
    assert kube_qos_of(BE, spec(asks(BOTH, BOTH))).value == BE
    assert kube_qos_of("", spec(asks(BOTH, BOTH))).value == GU
    assert kube_qos_of("Best", spec(asks(BOTH, BOTH))).value == GU
