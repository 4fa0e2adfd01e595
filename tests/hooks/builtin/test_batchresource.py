import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_hooks.builtin import batchresource
from koord_model.keys import (
    ANNOTATION_EXTENDED_RESOURCE_SPEC,
    BATCH_CPU,
    BATCH_MEMORY,
    LABEL_QOS,
)
from koord_model.node import NodeView
from koord_model.node_slo import NodeSLO
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources
from koord_model.used_threshold import SuppressPolicy, UsedThreshold

VIEW = NodeView()
SUPPRESSED = UsedThreshold(enable=True, cpu_suppress_policy=SuppressPolicy.CFS_QUOTA)
GIB = 1 << 30


def spec(request: Any = None, limit: Any = None, memory: Any = None) -> dict[str, Any]:
    return {
        "requests": {BATCH_CPU: request},
        "limits": {BATCH_CPU: limit, BATCH_MEMORY: memory},
    }


def pod(qos: str = "BE", resources: LinuxResources | None = None, **containers: Any) -> Pod:
    annotations = {ANNOTATION_EXTENDED_RESOURCE_SPEC: json.dumps({"containers": containers})}
    limits = resources or LinuxResources()
    return Pod("job-1", "batch", "uid", {LABEL_QOS: qos}, annotations, resources=limits)


def limits(shares: int, quota: int, memory: int) -> LinuxResources:
    return LinuxResources(cpu_shares=shares, cpu_quota=quota, memory_limit=memory)


def of_container(
    main: dict[str, Any], view: NodeView = VIEW, period: int | None = None
) -> Patch | None:
    container = Container(pod(main=main), "main", resources=LinuxResources(cpu_period=period))
    patch = batchresource.pre_create_container(container, view)
    assert patch == batchresource.pre_update_container_resources(container, view)
    return patch


def test_a_container_gets_what_it_asked_for_and_the_arithmetic_is_shown() -> None:
    assert of_container(spec("500", "1000", "1Gi")) == Patch(
        resources=limits(512, 100_000, GIB),
        why=(
            "batch-cpu request 500 → cpu.shares 512; limit 1000 → quota 100000; "
            "batch-memory limit 1Gi → 1073741824"
        ),
    )


def test_what_it_did_not_ask_for_is_least_weight_and_no_limit() -> None:
    assert of_container({}) == Patch(
        resources=limits(2, -1, -1),
        why="no batch-cpu request → cpu.shares 2; no limit → quota -1; no batch-memory limit → -1",
    )


def faster(ratio: float) -> NodeView:
    return NodeView(cpu_normalization_ratio=ratio)


ONE_GROUP = NodeView(slo=NodeSLO(threshold=SUPPRESSED))


@pytest.mark.parametrize(
    ("asked", "view", "period", "expected", "why"),
    [
        # Shares keep to the kernel's bounds, quotas to its least.
        (spec(0), VIEW, None, limits(2, -1, -1), ""),
        (spec(1), VIEW, None, limits(2, -1, -1), ""),
        (spec(2), VIEW, None, limits(2, -1, -1), ""),
        (spec(3), VIEW, None, limits(3, -1, -1), ""),
        (spec(1000), VIEW, None, limits(1024, -1, -1), ""),
        (spec(10**6), VIEW, None, limits(262_144, -1, -1), ""),
        (spec(limit=0), VIEW, None, limits(2, -1, -1), ""),
        (spec(limit=1), VIEW, None, limits(2, 1000, -1), ""),
        (spec(limit=10), VIEW, None, limits(2, 1000, -1), ""),
        (spec(limit=11), VIEW, None, limits(2, 1100, -1), ""),
        (spec(limit=65_536_000), VIEW, None, limits(2, 6_553_600_000, -1), ""),
        (spec(memory="0"), VIEW, None, limits(2, -1, -1), "no batch-memory limit → -1"),
        # Best-effort pods may be limited as one group; a faster CPU needs less.
        (spec(limit=1000), ONE_GROUP, None, limits(2, -1, -1), "limited as one group → quota -1"),
        (spec(limit=1000), faster(0.5), None, limits(2, 100_000, -1), ""),
        (spec(limit=1000), faster(1.5), None, limits(2, 66_667, -1), ""),
        (spec(), faster(2.0), None, limits(2, -1, -1), ""),
        # The container's own period counts.
        (spec(limit=1000), VIEW, 0, limits(2, 100_000, -1), ""),
        (spec(limit=1000), VIEW, 100_000, limits(2, 100_000, -1), ""),
        (spec(limit=1000), VIEW, 33_333, limits(2, 33_333, -1), ""),
        (
            *(spec(limit=15), faster(1.2), 50_000, limits(2, 1000, -1)),
            "divided by CPU speed 1.2 → 1250, for period 50000 → 625, at least 1000",
        ),
    ],
)
def test_limits_of_a_container(
    asked: dict[str, Any], view: NodeView, period: int | None, expected: LinuxResources, why: str
) -> None:
    patch = of_container(asked, view, period)
    assert patch is not None
    assert patch.resources == expected
    assert why in patch.why


@given(st.integers(1, 65_536_000), st.integers(1000, 1_000_000), st.floats(1, 10))
def test_quota_is_never_less_than_asked_for(milli: int, period: int, ratio: float) -> None:
    patch = of_container(spec(limit=milli), NodeView(cpu_normalization_ratio=ratio), period)
    assert patch is not None
    assert patch.resources.cpu_quota is not None
    asked = milli * period / 1000 / ratio
    assert patch.resources.cpu_quota >= max(1000, asked * (1 - 1e-9))


def test_the_pod_gets_the_sum() -> None:
    both = pod(a=spec(500, 1000, "1Gi"), b=spec("250", 500, GIB))
    assert batchresource.pre_run_pod_sandbox(both, VIEW) == Patch(
        resources=limits(768, 150_000, 2 * GIB),
        why=(
            "batch-cpu request 500 + 250 → cpu.shares 768; limit 1000 + 500 → quota 150000; "
            f"batch-memory limit 1Gi + {GIB} → {2 * GIB}"
        ),
    )


HALF_PERIOD = LinuxResources(cpu_period=50_000)


@pytest.mark.parametrize(
    ("asked", "expected", "unread"),
    [
        (pod(a=spec(500, 1000, "1Gi"), b=spec(limit=0)), limits(512, -1, -1), 0),
        (pod(a=spec(), b=spec(500)), limits(512, -1, -1), 0),
        (pod(a={}), limits(2, -1, -1), 0),
        (pod(resources=HALF_PERIOD, a=spec(limit=1000)), limits(2, 50_000, -1), 0),
        (
            pod(a=spec(250, "half", "1Gi"), b=spec("half", 1000, "1Gi")),
            LinuxResources(cpu_shares=256, memory_limit=2 * GIB),
            2,
        ),
    ],
    ids=["one without a limit", "one without a request", "nothing", "its own period", "unknown"],
)
def test_limits_of_a_pod(asked: Pod, expected: LinuxResources, unread: int) -> None:
    patch = batchresource.pre_run_pod_sandbox(asked, VIEW)
    assert patch is not None
    assert (patch.resources, len(patch.ignored)) == (expected, unread)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        *((pod(qos, main=spec(500)), "main") for qos in ("LS", "LSR", "LSE", "SYSTEM", "", "be")),
        (Pod("p", "n", "u", labels={LABEL_QOS: "BE"}), "main"),
        (pod(), "main"),
    ],
)
def test_nothing_to_do(asked: Pod, name: str) -> None:
    assert batchresource.pre_run_pod_sandbox(asked, VIEW) is None
    assert batchresource.pre_create_container(Container(asked, name), VIEW) is None


def test_an_amount_that_cannot_be_read_leaves_the_others() -> None:
    patch = of_container(spec(500, "half", "1Gi"))
    assert patch is not None
    assert patch.resources == LinuxResources(cpu_shares=512, memory_limit=GIB)
    assert "cpu limit cannot be read → left as it is" in patch.why
    [line] = patch.ignored
    assert line.startswith("pod batch/job-1: ")
    assert '"half" is not a valid quantity' in line
    broken = pod(a=spec("half", "half", "half"), b=spec(500, 1000, "1Gi"))
    patch = batchresource.pre_create_container(Container(broken, "b"), VIEW)
    assert patch is not None
    assert (patch.resources, patch.ignored) == (limits(512, 100_000, GIB), ())
    patch = of_container(spec(limit="half"), ONE_GROUP)
    assert patch is not None
    assert patch.resources.cpu_quota == -1, "it is not set anyway"


def with_inits(containers: dict[str, Any], inits: dict[str, Any]) -> Pod:
    annotation = json.dumps({"containers": containers, "initContainers": inits})
    annotations = {ANNOTATION_EXTENDED_RESOURCE_SPEC: annotation}
    return Pod("job-1", "batch", "uid", {LABEL_QOS: "BE"}, annotations)


SMALL, LARGE = spec("500", "1000", "1Gi"), spec("2000", "4000", "4Gi")


@pytest.mark.parametrize(
    ("containers", "inits", "expected"),
    [
        # Together they have more than the one before them, or less.
        ({"a": SMALL, "b": SMALL}, {"i": SMALL}, limits(1024, 200_000, 2 * GIB)),
        ({"a": SMALL, "b": SMALL}, {"i": LARGE}, limits(2048, 400_000, 4 * GIB)),
        # "s" goes on beside the others, and is there while "i" runs.
        ({"a": SMALL, "s": SMALL}, {"s": SMALL, "i": LARGE}, limits(2560, 500_000, 5 * GIB)),
        ({"a": SMALL, "s": SMALL}, {"s": SMALL}, limits(1024, 200_000, 2 * GIB)),
        # Those before do not run at the same time.
        ({"a": SMALL}, {"i": LARGE, "j": LARGE}, limits(2048, 400_000, 4 * GIB)),
        # Whoever has no limit takes the pod's.
        ({"a": SMALL}, {"i": spec("2000")}, limits(2048, -1, -1)),
        ({}, {"i": LARGE}, limits(2048, -1, -1)),
    ],
)
def test_a_pod_has_what_its_largest_stage_has(
    containers: dict[str, Any], inits: dict[str, Any], expected: LinuxResources
) -> None:
    patch = batchresource.pre_run_pod_sandbox(with_inits(containers, inits), VIEW)
    assert patch is not None
    assert patch.resources == expected


def test_an_init_container_gets_its_own() -> None:
    given = with_inits({"a": SMALL}, {"i": LARGE})
    for name, expected in (("a", limits(512, 100_000, GIB)), ("i", limits(2048, 400_000, 4 * GIB))):
        patch = batchresource.pre_create_container(Container(given, name), VIEW)
        assert patch is not None
        assert patch.resources == expected
    assert batchresource.pre_create_container(Container(given, "z"), VIEW) is None
