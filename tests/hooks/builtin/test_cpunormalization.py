import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_hooks.builtin import cpunormalization
from koord_model.keys import ANNOTATION_CPU_QUOTA_ASKED, ANNOTATION_RESOURCE_STATUS, LABEL_QOS
from koord_model.node import NodeView
from koord_model.patch import Patch
from koord_model.pod import Container, Pod
from koord_model.resources import LinuxResources

FASTER = NodeView(cpu_normalization_ratio=1.5)


def pod(qos: str = "LS", quota: int | None = None, cpuset: str = "") -> Pod:
    annotations = {ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpuset})} if cpuset else {}
    limits = LinuxResources(cpu_quota=quota)
    return Pod("db-0", "shop", "uid", {LABEL_QOS: qos}, annotations, resources=limits)


def container(quota: int | None, qos: str = "LS", cpuset: str = "") -> Container:
    return Container(pod(qos, None, cpuset), "main", resources=LinuxResources(cpu_quota=quota))


def after(asked: Container, patch: Patch | None) -> Container:
    """The container as a transport shows it later, that keeps what was set."""
    assert patch is not None
    annotations = {**asked.annotations, **patch.annotations}
    return replace(asked, resources=patch.resources, annotations=annotations)


@pytest.mark.parametrize("qos", ["LS", "", "GOLD"])
def test_quotas_are_divided_and_the_arithmetic_is_shown(qos: str) -> None:
    limits, why = LinuxResources(cpu_quota=66_667), "quota 100000 divided by CPU speed 1.5 → 66667"
    assert cpunormalization.pre_run_pod_sandbox(pod(qos, 100_000), FASTER) == Patch(
        resources=limits, why=why
    )
    assert cpunormalization.pre_create_container(container(100_000, qos), FASTER) == Patch(
        resources=limits,
        annotations={ANNOTATION_CPU_QUOTA_ASKED: "100000 as 66667"},
        why=why,
    )


def test_never_below_what_the_kernel_takes() -> None:
    patch = cpunormalization.pre_create_container(container(1200), FASTER)
    assert patch is not None
    assert patch.resources.cpu_quota == 1000
    assert "at least 1000" in patch.why


class TestUpdates:
    def test_what_was_divided_is_not_divided_again_but_what_is_asked_for_anew_is(self) -> None:
        asked = container(100_000)
        made = after(asked, cpunormalization.pre_create_container(asked, FASTER))
        for ratio, quota in ((1.5, 66_667), (2.0, 50_000), (1.0, 100_000), (1.5, 66_667)):
            view = NodeView(cpu_normalization_ratio=ratio)
            made = after(made, cpunormalization.pre_update_container_resources(made, view))
            assert made.resources.cpu_quota == quota
        larger = replace(made, resources=LinuxResources(cpu_quota=300_000))
        patch = cpunormalization.pre_update_container_resources(larger, FASTER)
        assert patch is not None
        assert patch.resources.cpu_quota == 200_000
        assert patch.annotations == {ANNOTATION_CPU_QUOTA_ASKED: "300000 as 200000"}

    @pytest.mark.parametrize("kept", ["", "x", "1 as", "-1 as 100000", "9" * 30 + " as 100000"])
    def test_a_note_that_is_not_ours_is_passed_over(self, kept: str) -> None:
        noted = replace(container(100_000), annotations={ANNOTATION_CPU_QUOTA_ASKED: kept})
        patch = cpunormalization.pre_update_container_resources(noted, FASTER)
        assert patch is not None
        assert patch.resources.cpu_quota == 66_667

    @given(st.integers(1000, 10**9), st.lists(st.floats(0.1, 10), min_size=1, max_size=5))
    def test_the_last_ratio_alone_counts(self, quota: int, ratios: list[float]) -> None:
        asked = seen = container(quota)
        for ratio in ratios:
            view = NodeView(cpu_normalization_ratio=ratio)
            patch = cpunormalization.pre_update_container_resources(seen, view)
            seen = after(seen, patch) if patch else seen
        fresh = cpunormalization.pre_create_container(asked, view)
        expected = fresh.resources.cpu_quota if fresh else quota
        assert seen.resources.cpu_quota == expected


@pytest.mark.parametrize(
    ("ratio", "qos", "quota", "cpuset"),
    [
        *((ratio, "LS", 100_000, "") for ratio in (1.0, 0.5)),
        *((1.5, "LS", quota, "") for quota in (None, 0, -1)),
        *((1.5, qos, 100_000, "") for qos in ("LSE", "LSR", "BE", "SYSTEM")),
        *((1.5, qos, 100_000, "0") for qos in ("", "LS")),
        (1.0, "LS", 100_000, "all"),
    ],
)
def test_nothing_to_do(ratio: float, qos: str, quota: int | None, cpuset: str) -> None:
    view = NodeView(cpu_normalization_ratio=ratio)
    assert cpunormalization.pre_run_pod_sandbox(pod(qos, quota, cpuset), view) is None
    assert cpunormalization.pre_create_container(container(quota, qos, cpuset), view) is None
