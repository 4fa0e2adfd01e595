"""A short run of ``make chaos-scheduler``."""

from __future__ import annotations

from tests.chaos_scheduler.churn import GIANTS
from tests.chaos_scheduler.run import run


async def test_churn_of_every_feature_with_one_of_each_fault() -> None:
    report = await run(nodes=60, pods=250, seconds=10.0, kills=1, pauses=2, seed=1)
    assert not report.violations
    others = sum(one.waiting for one in report.features.values())
    assert report.waiting == GIANTS + others
    assert all(one.created for one in report.features.values())
    assert report.bindings > 250
    assert report.after_expiry
    assert report.after_release
    assert {one.how for one in report.pauses} == {"killed", "stopped"}
