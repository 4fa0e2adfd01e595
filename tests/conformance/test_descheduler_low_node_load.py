"""LowNodeLoad, against Koordinator's: classes of nodes, their order, that of pods, and reasons."""

from __future__ import annotations

import re

import numpy as np
from koord_descheduler.framework.balancing.pool_balance import PoolBalance
from koord_descheduler.framework.balancing.pool_loads import Audience
from koord_descheduler.plugins.low_node_load.args import LowNodeLoadArgs
from koord_descheduler.plugins.low_node_load.plugin import LowNodeLoad
from koord_scheduler.arguments.problems import SchedulerConfigError, convert, refuse_if

from tests.conformance.descheduling import RecordedRound, Unmovable
from tests.conformance.vectors import Fields, Object, Vector, replay

REFUSED: Fields = {"refused": True}
PAIRS = (
    ("lowThresholds", "highThresholds"),
    ("prodLowThresholds", "prodHighThresholds"),
)
THRESHOLDS = frozenset(name for pair in PAIRS for name in pair)
LIMIT = re.compile(r"threshold\([0-9.]+%\)")
OVERUSED = re.compile(r"(?:node|prod) (\w+) usage")
SOURCES = {Audience.NODE: "sources", Audience.PROD: "prodSources"}


def ours(vector: Vector) -> Fields:
    try:
        args = convert(vector.given["args"], LowNodeLoadArgs)
        refuse_if(args.problems(""))
    except SchedulerConfigError:
        return REFUSED
    cluster = RecordedRound(vector.given, [Unmovable(vector.given)])
    found: Object = {}
    for place, pool in enumerate(LowNodeLoad(args).pools(cluster)):
        found |= of_pool(place, pool)
    LowNodeLoad(args).balance(cluster)
    return found | {"quiet": not cluster.asked}


def of_pool(place: int, pool: PoolBalance) -> Object:
    loads = pool.loads
    sources, targets = loads.classes()
    found: Object = {f"{place} class {name}": "" for name in loads.names}
    none = np.zeros(len(loads.names), np.bool_)
    low, prod_low = (targets.get(audience, none) for audience in Audience)
    high, prod_high = (sources.get(audience, none) for audience in Audience)
    for kind, rows in (
        ("low", low & ~prod_low),
        ("prodLow", prod_low & ~low),
        ("bothLow", low & prod_low),
        ("high", high),
        ("prodHigh", prod_high),
    ):
        found |= {f"{place} class {loads.names[row]}": kind for row in np.flatnonzero(rows)}
    for audience, rows in zip(Audience, (high, prod_high), strict=True):
        field = SOURCES[audience]
        order = pool.worst_first([loads.names[row] for row in np.flatnonzero(rows)], audience)
        found[f"{place} {field}"] = [loads.names[row] for row in order]
        for row in order:
            pods = pool.in_order(pool.candidates(row, audience), loads.overages(row, audience))
            found[f"{place} {field} {loads.names[row]}"] = [pod.view.key for pod in pods]
            found[f"{place} {field} {loads.names[row]} reason"] = loads.reason(row, audience)
    return found


def flat(recorded: Object) -> Fields:
    if "refused" in recorded:
        return REFUSED
    evicts = any(pods for rounds in recorded["outcomes"] for pods in rounds)
    found: Object = {"quiet": not evicts}
    for place, pool in enumerate(recorded["pools"]):
        found |= {f"{place} class {name}": kind for name, kind in pool["classes"].items()}
        for field in SOURCES.values():
            found[f"{place} {field}"] = [source["node"] for source in pool[field]]
            for source in pool[field]:
                found[f"{place} {field} {source['node']}"] = source["pods"]
                found[f"{place} {field} {source['node']} reason"] = source["reason"]
    return found


def pool_of(vector: Vector, field: str) -> Object:
    """The arguments of the pool that a field is about, with what it inherits."""
    args = vector.given["args"]
    place = field.split()[0]
    if not place.isdigit() or place == "0":
        return dict(args)
    own = args["nodePools"][int(place) - 1]
    return {name: args[name] for name in THRESHOLDS if name in args} | own


def thresholds_come_in_pairs(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Of a low and a high one alone Koordinator makes 100 %, or leaves it out; we refuse it."""
    number = 1 + len(vector.given["args"].get("nodePools", ()))
    pools = [pool_of(vector, f"{place}") for place in range(number)]
    alone = any(
        pool.get(low, {}).keys() != pool.get(high, {}).keys()
        for pool in pools
        for low, high in PAIRS
    )
    return here == REFUSED and alone


def production_counts_with_thresholds_of_its_own(
    vector: Vector, field: str, here: Fields, there: Fields
) -> bool:
    """Without any, its usage is below 100 % of every node for Koordinator: there it is low."""
    if " class " not in field or here == REFUSED or "prodLowThresholds" in pool_of(vector, field):
        return False
    return (here[field], there[field]) in {("low", "bothLow"), ("", "prodLow")}


def reasons_have_the_thresholds_in_force(
    vector: Vector, field: str, here: Fields, there: Fields
) -> bool:
    """In deviation mode Koordinator's have the deviation in their place."""
    uses_deviation = pool_of(vector, field).get("useDeviationThresholds", False)
    if not uses_deviation or not field.endswith(" reason") or here == REFUSED:
        return False
    return LIMIT.sub("", here[field]) == LIMIT.sub("", there[field])


def pods_that_use_nothing_of_it_stay(
    vector: Vector, field: str, here: Fields, there: Fields
) -> bool:
    """Koordinator evicts them too, in the end."""
    if " class " in field or len(field.split()) != 3 or here == REFUSED:
        return False
    resources = OVERUSED.findall(there[f"{field} reason"])
    usages = {
        f"{pod['namespace']}/{pod['name']}": pod["podUsage"].get("resources", {})
        for report in vector.given["nodeMetrics"]
        for pod in report.get("status", {}).get("podsMetric", ())
    }
    helpful = [
        key
        for key in there[field]
        if "pods" in resources or usages.get(key, {}).keys() & {*resources}
    ]
    return here[field] == helpful


def only_limited_resources_rank_nodes(
    vector: Vector, field: str, here: Fields, there: Fields
) -> bool:
    """Koordinator counts the number of pods too, if it has a weight."""
    pool = pool_of(vector, field)
    weighs_pods = "pods" in vector.given["args"].get("resourceWeights", {})
    if len(field.split()) != 2 or field not in here:
        return False
    same = sorted(here[field]) == sorted(there[field])
    return same and weighs_pods and "pods" not in pool["lowThresholds"]


def pods_move_to_where_they_help(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator evicts, and leaves the rest to the scheduler."""
    return field == "quiet" and here.get(field) is True


def test_nodes_and_pods_are_ranked_as_koordinator_ranks_them() -> None:
    replay(
        "descheduler_low_node_load",
        ours,
        flat,
        (
            thresholds_come_in_pairs,
            production_counts_with_thresholds_of_its_own,
            reasons_have_the_thresholds_in_force,
            pods_that_use_nothing_of_it_stay,
            only_limited_resources_rank_nodes,
            pods_move_to_where_they_help,
        ),
        (
            "pods_that_left_do_not_count",
            "raw_allocatable_is_of_cpu_and_memory",
            "system_pods_stay",
            "pools_do_not_share_thresholds",
        ),
    )
