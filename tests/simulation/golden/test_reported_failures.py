"""Failures that were reported of Koordinator's node agent, and the tests that hold us to better.

Keys are issues of koordinator-sh/koordinator ("K#2723"), or the file of its code where it was
read ("memory_evict.go"). Each test of a golden scenario names its keys in its docstring.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
GOLDEN = "tests/simulation/golden"
SUPPRESSING, BURSTING = f"{GOLDEN}/test_suppressing.py", f"{GOLDEN}/test_bursting.py"
EVICTING, CPU = f"{GOLDEN}/test_evicting_memory.py", f"{GOLDEN}/test_evicting_cpu.py"
EVICTOR = "tests/koordlet/qos_manager/eviction/test_evictor.py"

TESTS: dict[str, tuple[tuple[str, str], ...]] = {
    # CPU suppression is silently without effect, or inconsistent.
    "K#2723": (
        (SUPPRESSING, "test_without_metrics_nothing_moves_and_it_is_said"),
        (SUPPRESSING, "test_no_node_slo_holds_nobody_down_and_its_return_does"),
    ),
    "K#1056": (
        (SUPPRESSING, "test_without_metrics_nothing_moves_and_it_is_said"),
        (SUPPRESSING, "test_a_restart_moves_nothing"),
        (SUPPRESSING, "test_every_best_effort_group_has_what_was_decided_whoever_comes"),
    ),
    "K#696": (
        (SUPPRESSING, "test_without_metrics_nothing_moves_and_it_is_said"),
        (SUPPRESSING, "test_every_best_effort_group_has_what_was_decided_whoever_comes"),
    ),
    # All bursting pods are reset together at the threshold.
    "K#2164": (
        (BURSTING, "test_a_node_that_fills_takes_back_a_few_at_a_time_and_the_greediest_first"),
    ),
    # CPU burst and CPU normalization write the same quota.
    "K#2306": (
        (BURSTING, "test_a_quota_that_normalization_divides_stays_divided"),
        (f"{GOLDEN}/test_all_together.py", "test_each_knob_has_one_owner_at_a_time"),
    ),
    # A raised quota cannot be taken back on cgroup v2 (EINVAL).
    "K#2778": ((BURSTING, "test_a_raised_quota_comes_down_without_a_refused_write"),),
    # Quotas of pods and containers are written in the wrong order.
    "K#2047": (
        (BURSTING, "test_no_container_has_more_than_its_pod_in_any_second"),
        ("tests/host/planning/test_ordering_property.py", "test_v1"),
    ),
    "K#2693": (
        (BURSTING, "test_no_container_has_more_than_its_pod_in_any_second"),
        ("tests/host/planning/test_ordering_property.py", "test_v1"),
    ),
    # Evictions are unsafe.
    "K#1757": (
        (EVICTOR, "test_a_budget_forbids_one_and_the_next_goes_in_the_next_round"),
        (EVICTING, "test_an_evicted_pod_that_comes_back_is_not_evicted_over_and_over"),
    ),
    # A setting that makes no sense switches eviction off silently.
    "K#2804": (
        (EVICTING, "test_a_setting_that_makes_no_sense_is_named_and_the_rest_holds"),
        (CPU, "test_thresholds_that_are_missing_are_named"),
    ),
    # Several write one cgroup; the kubelet's static CPU manager.
    **dict.fromkeys(
        ("K#1214", "K#546", "K#395"),
        (
            (SUPPRESSING, "test_a_value_that_another_writer_sets_is_kept_for_later"),
            (f"{GOLDEN}/test_all_together.py", "test_each_knob_has_one_owner_at_a_time"),
            (
                "tests/koordlet/qos_manager/strategies/cpu_suppress/test_strategy.py",
                "test_under_the_static_policy_only_containers_are_held",
            ),
            (
                "tests/host/planning/test_drift.py",
                "test_the_static_kubelet_has_its_way_with_containers",
            ),
        ),
    ),
    # Values jump, or are zero, unexplained.
    "K#1906": (
        (SUPPRESSING, "test_every_change_is_a_decision_with_its_numbers"),
        (BURSTING, "test_without_metrics_no_quota_grows_and_none_is_lost"),
    ),
    # Memory eviction credits a victim a thousand times its memory.
    "memory_evict.go": ((EVICTING, "test_as_much_is_freed_as_is_needed_and_no_more"),),
    # Division by zero when all CPUs are LSE pods'.
    "cpu_suppress.go": (
        (SUPPRESSING, "test_all_cpus_belong_to_lse_pods"),
        (CPU, "test_all_cpus_lse_starves_jobs_and_says_so"),
    ),
    # resctrl schemata are written each second.
    "resctrl_reconcile.go": (
        (
            f"{GOLDEN}/test_memory.py",
            "test_schemata_are_written_when_they_change_and_not_each_second",
        ),
        ("tests/host/test_resctrl.py", "test_what_is_in_line_is_not_written_again"),
    ),
}


def docstrings(path: Path) -> dict[str, str]:
    """The tests of a file, with what they say of themselves."""
    return {
        one.name: ast.get_docstring(one) or ""
        for one in ast.walk(ast.parse(path.read_text()))
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name.startswith("test_")
    }


PLACES = [(key, path, name) for key, found in TESTS.items() for path, name in found]


@pytest.mark.parametrize(("key", "path", "name"), PLACES)
def test_each_failure_has_its_test(key: str, path: str, name: str) -> None:
    known = docstrings(ROOT / path)
    assert name in known
    if path.startswith(GOLDEN):
        assert key in known[name], "its docstring says what it is about"


def _named() -> Iterator[tuple[str, str, str]]:
    for path in sorted((ROOT / GOLDEN).glob("test_*.py")):
        for name, text in docstrings(path).items():
            for key in re.findall(r"K#\d+|\w+\.go\b", text):
                yield key, f"{GOLDEN}/{path.name}", name


def test_no_key_is_named_that_is_not_in_the_table() -> None:
    assert sorted(set(_named()) - set(PLACES)) == []
