from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_kube.views.pod import ContainerSpec, PodSpec, ResourceRequirements
from koord_kube.views.pod_qos import compute_kube_qos
from koord_manager.resize.core.desired import LIMITS, ResizableResources, desired
from koord_manager.resize.core.policy import ContainerResizePolicy
from koord_model.demand import Amounts
from koord_model.keys import CPU, MEMORY
from koord_model.qos import KubeQoS
from koord_model.quantity import quantity_texts

MOST = {CPU: 256_000, MEMORY: 1 << 42}
GIB = 1 << 30


def some(name: str) -> st.SearchStrategy[int]:
    return st.integers(1, MOST[name])


def some_targets() -> st.SearchStrategy[Amounts]:
    names = {f"{prefix}{name}": name for prefix in ("", LIMITS) for name in MOST}
    return st.fixed_dictionaries({}, optional={key: some(name) for key, name in names.items()})


def some_amounts() -> st.SearchStrategy[Amounts]:
    return st.fixed_dictionaries({}, optional={name: some(name) for name in MOST})


@st.composite
def containers(draw: st.DrawFn) -> ResizableResources:
    requests, limits = dict(draw(some_amounts())), dict[str, int]()
    for name, request in requests.items():
        more = draw(st.sampled_from((None, 0, 1, request // 3, request)))
        if more is not None:
            limits[name] = request + more
    return ResizableResources(requests, limits)


@st.composite
def policies(draw: st.DrawFn) -> ContainerResizePolicy:
    low = dict(draw(some_amounts()))
    high = {name: value + low.get(name, 0) for name, value in draw(some_amounts()).items()}
    resources = frozenset(draw(st.sets(st.sampled_from((CPU, MEMORY)))))
    return ContainerResizePolicy(low, high, resources, limits=draw(st.booleans()))


def qos(container: ResizableResources) -> KubeQoS:
    resources = ResourceRequirements(
        dict(quantity_texts(container.requests)), dict(quantity_texts(container.limits))
    )
    return compute_kube_qos(PodSpec(containers=[ContainerSpec("c", resources)]))


@given(containers(), some_targets(), policies())
def test_a_resize_keeps_bounds_and_class_and_is_the_last(
    before: ResizableResources, target: Amounts, policy: ContainerResizePolicy
) -> None:
    after = desired(before, target, policy)
    assert qos(after) is qos(before)
    assert after.limits.keys() == before.limits.keys()
    for name, request in after.requests.items():
        assert request <= after.limits.get(name, request)
        if request != before.requests[name]:
            assert name in policy.resources
            assert request <= policy.maximum.get(name, request)
            # A limit that has to stay comes first: above it nothing can be requested.
            assert request >= policy.minimum.get(name, 0) or request == before.limits[name]
    assert desired(after, target, policy) == after


@pytest.mark.parametrize(
    ("target", "limits", "expected"),
    [
        pytest.param(1090, True, (1000, 2000), id="less than a tenth"),
        pytest.param(1100, True, (1100, 2200), id="in proportion"),
        pytest.param(300, True, (500, 1000), id="minimum"),
        pytest.param(9000, True, (4000, 8000), id="maximum"),
        pytest.param(3000, False, (2000, 2000), id="up to the limit"),
    ],
)
def test_request_and_limit(target: int, limits: bool, expected: tuple[int, int]) -> None:
    policy = ContainerResizePolicy({CPU: 500}, {CPU: 4000}, limits=limits)
    before = ResizableResources({CPU: 1000, MEMORY: GIB}, {CPU: 2000})
    after = desired(before, {CPU: target}, policy)
    assert (after.requests[CPU], after.limits[CPU]) == expected
    assert after.requests[MEMORY] == GIB


@pytest.mark.parametrize(
    ("limit", "expected"), [(2 * GIB, (GIB // 2, GIB * 3 // 4)), (GIB, (GIB * 3 // 4,) * 2)]
)
def test_limits_are_as_recommended(limit: int, expected: tuple[int, int]) -> None:
    before = ResizableResources({MEMORY: GIB}, {MEMORY: limit})
    target = {MEMORY: GIB // 2, LIMITS + MEMORY: GIB * 3 // 4}
    after = desired(before, target, ContainerResizePolicy())
    assert (after.requests[MEMORY], after.limits[MEMORY]) == expected
