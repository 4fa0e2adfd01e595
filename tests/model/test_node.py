from dataclasses import replace

import pytest
from koord_model.node import NodeView, Topology
from koord_model.node_slo import NodeSLO
from koord_model.used_threshold import SuppressPolicy, UsedThreshold


def test_a_view_of_an_unknown_node_asks_for_nothing_special() -> None:
    view = NodeView()
    assert view.topology is None
    assert view.be_cfs_quota
    assert view.cpu_normalization_ratio == 1.0


def test_a_topology_without_a_word_on_the_kubelet_means_its_default_policy() -> None:
    assert Topology().kubelet_policy == "none"


BY_QUOTA = UsedThreshold(enable=True, cpu_suppress_policy=SuppressPolicy.CFS_QUOTA)


class TestWhetherBestEffortPodsHaveQuotasOfTheirOwn:
    def test_not_where_they_have_one_in_common(self) -> None:
        assert not NodeView(slo=NodeSLO(threshold=BY_QUOTA)).be_cfs_quota

    @pytest.mark.parametrize(
        "threshold",
        [
            replace(BY_QUOTA, enable=False),
            replace(BY_QUOTA, cpu_suppress_policy=SuppressPolicy.CPUSET),
        ],
        ids=["not enabled", "by cpuset"],
    )
    def test_where_they_are_held_down_otherwise(self, threshold: UsedThreshold) -> None:
        assert NodeView(slo=NodeSLO(threshold=threshold)).be_cfs_quota

    @pytest.mark.parametrize("mode", ["off", "shadow"])
    def test_where_that_is_not_carried_out(self, mode: str) -> None:
        slo = NodeSLO(threshold=BY_QUOTA, strategies={"cpu_suppress": {"mode": mode}})
        assert NodeView(slo=slo).be_cfs_quota

    def test_where_the_gate_is_closed(self) -> None:
        assert NodeView(slo=NodeSLO(threshold=BY_QUOTA), suppresses=False).be_cfs_quota

    @pytest.mark.parametrize(
        ("threshold", "given", "own"),
        [
            (replace(BY_QUOTA, enable=False), {"enable": True}, False),
            (replace(BY_QUOTA, cpu_suppress_policy=SuppressPolicy.CPUSET), {}, True),
            (
                replace(BY_QUOTA, cpu_suppress_policy=SuppressPolicy.CPUSET),
                {"policy": "cfsQuota"},
                False,
            ),
            (BY_QUOTA, {"policy": "cpuset"}, True),
            (BY_QUOTA, {"enable": False}, True),
            # Bare words of YAML.
            (BY_QUOTA, {"mode": True}, False),
            (BY_QUOTA, {"mode": False}, True),
        ],
    )
    def test_what_is_asked_of_the_strategy_itself_counts_more(
        self, threshold: UsedThreshold, given: dict[str, object], own: bool
    ) -> None:
        slo = NodeSLO(threshold=threshold, strategies={"cpu_suppress": given})
        assert NodeView(slo=slo).be_cfs_quota is own
