"""Arguments are Koordinator's, and refused at load where they make no sense."""

from __future__ import annotations

from typing import Any

import pytest
from koord_descheduler.plugins.migration_controller.args import MigrationControllerArgs
from koord_scheduler.arguments.problems import SchedulerConfigError, convert


def problems(**fields: Any) -> list[str]:
    return list(convert(fields, MigrationControllerArgs).problems("args"))


def test_defaults_are_koordinators() -> None:
    args = MigrationControllerArgs()
    assert not list(args.problems("args"))
    assert (args.max_concurrent_reconciles, args.max_migrating_per_node) == (1, 2)
    assert (args.evictions_per_second, args.evict_burst, args.ttl) == (10.0, 1, 300.0)
    assert (args.scheduler_names, args.arbitration_seconds) == (("koord-scheduler",), 0.5)
    assert {name: limiter.seconds for name, limiter in args.object_limiters.items()} == {
        "workload": 300.0
    }


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"maxConcurrentReconciles": 0}, "args.maxConcurrentReconciles is 0; expected 1 or more"),
        ({"maxMigratingGlobally": -1}, "args.maxMigratingGlobally is -1; expected 0 or more"),
        ({"evictQPS": "fast"}, 'args.evictQPS is "fast"; expected a number above 0'),
        ({"evictQPS": 0}, "args.evictQPS is 0.0; expected a number above 0"),
        ({"maxMigratingPerWorkload": "10"}, 'maxMigratingPerWorkload is "10"; expected a number'),
        ({"maxMigratingPerWorkload": -1}, "args.maxMigratingPerWorkload is -1; expected a number"),
        ({"maxUnavailablePerWorkload": "100%"}, "no pod could ever move"),
        ({"defaultJobTTL": "soon"}, 'args.defaultJobTTL: "soon" is not a valid duration'),
        ({"labelSelector": {"a": 1}}, "args.labelSelector.a is unknown"),
        ({"nodeSelector": "a in b"}, 'args.nodeSelector has "a in b"'),
        ({"namespaces": {"include": ["a"], "exclude": ["b"]}}, "args.namespaces is"),
        ({"priorityThreshold": {"value": 1, "name": "a"}}, "expected a value or a name"),
        ({"evictSystemCriticalPods": True}, "nothing evicts system-critical pods"),
        ({"skipEvictionGates": ["SystemCritical"]}, "nothing evicts system-critical pods"),
        ({"schedulerNames": [""]}, "args.schedulerNames[0]"),
        ({"objectLimiters": {"node": {}}}, "expected workload or namespace"),
        ({"objectLimiters": {"namespace": {"maxMigrating": "5%"}}}, "expected a number"),
        ({"objectLimiters": {"workload": {"duration": "x"}}}, "objectLimiters.workload.duration"),
        ({"objectLimiters": {"workload": {"burst": -1}}}, "burst is -1"),
    ],
)
def test_what_is_wrong(fields: dict[str, Any], said: str) -> None:
    (line,) = problems(**fields)
    assert said in line


@pytest.mark.parametrize(
    "fields",
    [
        {"evictQPS": "0.5"},
        {"maxMigratingGlobally": 0, "maxUnavailablePerWorkload": 0},
        {"objectLimiters": {"workload": {"burst": 0, "maxMigrating": "5%"}}},
        {"objectLimiters": {"namespace": {"maxMigrating": 5}}},
        {"priorityThreshold": {"name": "high"}},
        {"maxUnavailablePerWorkload": "100%", "skipEvictionGates": ["ExpectedReplicas"]},
        {"namespaces": {"exclude": ["b"]}, "nodeSelector": "pool=a", "labelSelector": {}},
        {"defaultDeleteOptions": {"gracePeriodSeconds": 5}},
    ],
)
def test_what_is_not(fields: dict[str, Any]) -> None:
    assert problems(**fields) == []


@pytest.mark.parametrize("fields", [{"skipEvictionGates": ["All"]}, {"evictionQPS": 1}])
def test_unknown_names_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(SchedulerConfigError):
        convert(fields, MigrationControllerArgs)


def test_delete_options_as_a_job_has_them() -> None:
    args = convert({"defaultDeleteOptions": {"gracePeriodSeconds": 0}}, MigrationControllerArgs)
    assert args.default_delete_options is not None
    assert args.default_delete_options.document() == {"gracePeriodSeconds": 0}
