import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_hooks.builtin import batchresource
from koord_hooks.runner import load
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
    annotation = json.dumps({"containers": containers})
    return Pod(
        "job-1",
        "batch",
        "uid",
        labels={LABEL_QOS: qos},
        annotations={ANNOTATION_EXTENDED_RESOURCE_SPEC: annotation},
        resources=resources or LinuxResources(),
    )


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


@pytest.mark.parametrize(
    ("milli", "shares"), [(0, 2), (1, 2), (2, 2), (3, 3), (1000, 1024), (10**6, 262144)]
)
def test_shares_keep_to_the_kernels_bounds(milli: int, shares: int) -> None:
    patch = of_container(spec(request=milli))
    assert patch is not None
    assert patch.resources.cpu_shares == shares


@pytest.mark.parametrize(
    ("milli", "quota"), [(0, -1), (1, 1000), (10, 1000), (11, 1100), (65_536_000, 6_553_600_000)]
)
def test_quota_keeps_to_the_kernels_least(milli: int, quota: int) -> None:
    patch = of_container(spec(limit=milli))
    assert patch is not None
    assert patch.resources.cpu_quota == quota


def test_a_zero_memory_limit_is_none() -> None:
    assert of_container(spec(memory="0")) == of_container({})


def test_no_quota_where_best_effort_pods_are_limited_as_one_group() -> None:
    patch = of_container(spec(limit=1000), NodeView(slo=NodeSLO(threshold=SUPPRESSED)))
    assert patch is not None
    assert patch.resources.cpu_quota == -1
    assert "limited as one group → quota -1" in patch.why


@pytest.mark.parametrize(("ratio", "quota"), [(0.5, 100_000), (1.0, 100_000), (1.5, 66_667)])
def test_a_faster_cpu_needs_less_quota(ratio: float, quota: int) -> None:
    patch = of_container(spec(limit=1000), NodeView(cpu_normalization_ratio=ratio))
    assert patch is not None
    assert patch.resources.cpu_quota == quota


def test_no_limit_stays_none_on_a_faster_cpu() -> None:
    patch = of_container(spec(), NodeView(cpu_normalization_ratio=2.0))
    assert patch is not None
    assert patch.resources.cpu_quota == -1


@pytest.mark.parametrize(
    ("period", "quota"), [(None, 100_000), (0, 100_000), (100_000, 100_000), (33_333, 33_333)]
)
def test_quota_fits_the_containers_period(period: int | None, quota: int) -> None:
    patch = of_container(spec(limit=1000), period=period)
    assert patch is not None
    assert patch.resources.cpu_quota == quota


def test_every_step_is_shown() -> None:
    patch = of_container(spec(limit=15), NodeView(cpu_normalization_ratio=1.2), 50_000)
    assert patch is not None
    assert patch.resources.cpu_quota == 1000
    assert (
        "limit 15 → quota 1500, divided by CPU speed 1.2 → 1250, for period 50000 → 625, "
        "at least 1000"
    ) in patch.why


@given(st.integers(1, 65_536_000), st.integers(1000, 1_000_000), st.floats(1, 10))
def test_quota_is_never_less_than_asked_for(milli: int, period: int, ratio: float) -> None:
    patch = of_container(spec(limit=milli), NodeView(cpu_normalization_ratio=ratio), period)
    assert patch is not None
    assert patch.resources.cpu_quota is not None
    asked = milli * period / 1000 / ratio
    assert patch.resources.cpu_quota >= max(1000, asked * (1 - 1e-9))


class TestPods:
    def test_the_pod_gets_the_sum(self) -> None:
        both = pod(a=spec(500, 1000, "1Gi"), b=spec("250", 500, GIB))
        assert batchresource.pre_run_pod_sandbox(both, VIEW) == Patch(
            resources=limits(768, 150_000, 2 * GIB),
            why=(
                "batch-cpu request 500 + 250 → cpu.shares 768; limit 1000 + 500 → quota 150000; "
                f"batch-memory limit 1Gi + {GIB} → {2 * GIB}"
            ),
        )

    def test_one_container_without_a_limit_leaves_the_pod_without(self) -> None:
        both = pod(a=spec(500, 1000, "1Gi"), b=spec(limit=0))
        patch = batchresource.pre_run_pod_sandbox(both, VIEW)
        assert patch is not None
        assert patch.resources == limits(512, -1, -1)

    def test_a_container_that_requests_nothing_adds_nothing(self) -> None:
        patch = batchresource.pre_run_pod_sandbox(pod(a=spec(), b=spec(500)), VIEW)
        assert patch is not None
        assert patch.resources == limits(512, -1, -1)

    def test_nobody_requests_anything(self) -> None:
        patch = batchresource.pre_run_pod_sandbox(pod(a={}), VIEW)
        assert patch is not None
        assert patch.resources == limits(2, -1, -1)

    def test_the_pods_own_period_counts(self) -> None:
        asked = pod(resources=LinuxResources(cpu_period=50_000), a=spec(limit=1000))
        patch = batchresource.pre_run_pod_sandbox(asked, VIEW)
        assert patch is not None
        assert patch.resources.cpu_quota == 50_000


class TestNothingToDo:
    @pytest.mark.parametrize("qos", ["LS", "LSR", "LSE", "SYSTEM", "", "be"])
    def test_other_classes(self, qos: str) -> None:
        other = pod(qos, main=spec(500))
        assert batchresource.pre_run_pod_sandbox(other, VIEW) is None
        assert batchresource.pre_create_container(Container(other, "main"), VIEW) is None

    def test_a_container_the_annotation_does_not_name(self) -> None:
        container = Container(pod(main=spec(500)), "sidecar")
        assert batchresource.pre_create_container(container, VIEW) is None

    def test_no_annotation(self) -> None:
        plain = Pod("p", "n", "u", labels={LABEL_QOS: "BE"})
        assert batchresource.pre_run_pod_sandbox(plain, VIEW) is None

    def test_no_containers(self) -> None:
        assert batchresource.pre_run_pod_sandbox(pod(), VIEW) is None


class TestAmountsThatCannotBeRead:
    def test_the_others_apply(self) -> None:
        patch = of_container(spec(500, "half", "1Gi"))
        assert patch is not None
        assert patch.resources == LinuxResources(cpu_shares=512, memory_limit=GIB)
        assert "cpu limit cannot be read → left as it is" in patch.why
        [line] = patch.ignored
        assert line.startswith("pod batch/job-1: ")
        assert '"half" is no quantity' in line

    def test_other_containers_apply(self) -> None:
        broken = pod(a=spec("half", "half", "half"), b=spec(500, 1000, "1Gi"))
        patch = batchresource.pre_create_container(Container(broken, "b"), VIEW)
        assert patch is not None
        assert (patch.resources, patch.ignored) == (limits(512, 100_000, GIB), ())

    def test_the_pod_has_no_limit_of_which_a_part_is_unknown(self) -> None:
        broken = pod(a=spec(250, "half", "1Gi"), b=spec("half", 1000, "1Gi"))
        patch = batchresource.pre_run_pod_sandbox(broken, VIEW)
        assert patch is not None
        assert patch.resources == LinuxResources(cpu_shares=256, memory_limit=2 * GIB)
        assert len(patch.ignored) == 2

    def test_a_quota_that_is_not_set_anyway_does_not_depend_on_them(self) -> None:
        slo = NodeSLO(threshold=SUPPRESSED)
        patch = of_container(spec(limit="half"), NodeView(slo=slo))
        assert patch is not None
        assert patch.resources.cpu_quota == -1


def test_a_malformed_annotation_is_one_line() -> None:
    broken = Pod(
        "job-1", "batch", "uid", {LABEL_QOS: "BE"}, {ANNOTATION_EXTENDED_RESOURCE_SPEC: "{"}
    )
    with pytest.raises(ValueError, match=r"^pod batch/job-1: annotation [^\n]*$"):
        batchresource.pre_run_pod_sandbox(broken, VIEW)


def test_it_is_found_by_its_file_name() -> None:
    assert [stage.value for stage in load(["batchresource"]).stages()] == [
        "PreRunPodSandbox",
        "PreCreateContainer",
        "PreUpdateContainerResources",
    ]


def with_inits(containers: dict[str, Any], inits: dict[str, Any]) -> Pod:
    annotation = json.dumps({"containers": containers, "initContainers": inits})
    return Pod(
        "job-1",
        "batch",
        "uid",
        labels={LABEL_QOS: "BE"},
        annotations={ANNOTATION_EXTENDED_RESOURCE_SPEC: annotation},
    )


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
