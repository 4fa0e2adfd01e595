"""Old names of ``tests.support.node``."""

from tests.support.node.strategies import ALL_GATES, SETTLED, all_of
from tests.support.node.strategies import StrategyNode as DecidingNode
from tests.support.node.strategies import StrategyRun as Run
from tests.support.node.workload import a_pod, everything_on, measured, some_pods

__all__ = [
    "ALL_GATES",
    "SETTLED",
    "DecidingNode",
    "Run",
    "a_pod",
    "all_of",
    "everything_on",
    "measured",
    "some_pods",
]
