"""Plugins that look at requests, against Koordinator's: the nodes and pods that they choose."""

from __future__ import annotations

import pytest
from koord_descheduler.plugins.custom_priority import CustomPriority, CustomPriorityArgs
from koord_descheduler.plugins.fragmentation_aware import (
    FragmentationAware,
    FragmentationAwareArgs,
    deviations,
)
from koord_descheduler.plugins.scale_down_bin_pack import ScaleDownBinPack, ScaleDownBinPackArgs
from koord_scheduler.arguments.problems import SchedulerConfigError, convert, refuse_if

from tests.conformance.descheduling import AskedRound, RecordedRound, Unmovable
from tests.conformance.vectors import Fields, Object, Vector, replay

REFUSED: Fields = {"refused": True}


def moved(vector: Vector) -> Fields:
    try:
        args = convert(vector.given["args"], CustomPriorityArgs)
        refuse_if(args.problems(""))
    except SchedulerConfigError:
        return REFUSED
    cluster = RecordedRound(vector.given, [Unmovable(vector.given)])
    CustomPriority(args).balance(cluster)
    reasons = {move.pod.key: move.reason for move in cluster.moves}
    return {**reasons, "order": cluster.asked}


def recorded_moves(recorded: Object) -> Fields:
    if "refused" in recorded:
        return REFUSED
    reasons = dict(recorded["evicted"])
    return {**reasons, "order": [key for key, _ in recorded["evicted"]]}


def pods_that_would_come_back_stay(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator evicts to cheaper nodes; the scheduler may like the dear ones better."""
    if field == "order":
        return bool(here[field] == [key for key in there[field] if key in here])
    return field not in here


def node_of(key: str) -> str:
    """The node of a recorded pod, by its name: p1-2 is on n1."""
    return "n" + key.partition("/p")[2].partition("-")[0]


def uneven(vector: Vector) -> Fields:
    try:
        args = convert(vector.given["args"], FragmentationAwareArgs)
        refuse_if(args.problems(""))
    except SchedulerConfigError:
        return REFUSED
    cluster = AskedRound(vector.given, [Unmovable(vector.given)])
    plugin = FragmentationAware(args)
    table = plugin.table(cluster)
    imbalances = deviations(table.parts(), table.has).tolist()
    found: Object = {
        f"{name} imbalance": pytest.approx(one, abs=1e-9)
        for name, one in zip(table.names, imbalances, strict=True)
    }
    for row, name in enumerate(table.names):
        for best in plugin.candidates(row, table, cluster)[:1]:
            found[f"{name} evicted"] = best.pod.view.key
            found[f"{name} numbers"] = pytest.approx(numbers(best.reason), abs=1.5e-4)
    return found


def recorded_uneven(recorded: Object) -> Fields:
    if "refused" in recorded:
        return REFUSED
    found: Object = {f"{name} imbalance": one for name, one in recorded["imbalance"].items()}
    for key, why in recorded["evicted"]:
        found[f"{node_of(key)} evicted"] = key
        found[f"{node_of(key)} numbers"] = numbers(why)
    return found


def numbers(reason: str) -> list[float]:
    """Those in a reason, which are rounded."""
    words = reason.removeprefix("fragmentation reduction: ").split()
    assert [word.partition("=")[0] for word in words] == ["stdBefore", "stdAfter", "gain"]
    return [float(word.partition("=")[2]) for word in words]


def any_of_equal_pods_goes(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """Koordinator takes the first that it sees, we the first by name."""
    name, _, what = field.partition(" ")
    return what == "evicted" and here[f"{name} numbers"] == there.get(f"{name} numbers")


def rounds_find_a_place(vector: Vector, field: str, here: Fields, there: Fields) -> bool:
    """With ``nodeFit`` Koordinator leaves out pods that fit nowhere else; we see that later."""
    has_fit = vector.given["args"].get("nodeFit", True)
    return has_fit and field.partition(" ")[2] in ("evicted", "numbers")


def ranked(vector: Vector) -> Fields:
    given = vector.given
    weights = given.get("weights") or {"cpu": 1.0, "memory": 1.0}
    args = convert(
        {
            "podSelectors": [{"selector": {"matchLabels": given["selected"]}}],
            "resources": list(weights),
            "resourceWeights": weights,
        },
        ScaleDownBinPackArgs,
    )
    cluster = AskedRound(given, [Unmovable(given)])
    plugin = ScaleDownBinPack(args)
    nodes = plugin.ranked(plugin.table(cluster), cluster, [])
    found: Object = {"order": [pod.view.key for node in nodes for pod in node.pods]}
    for node in nodes:
        for pod in node.pods:
            found[pod.view.key] = pytest.approx(node.score, rel=1e-9)
    return found


def recorded_ranks(recorded: Object) -> Fields:
    found: Object = {"order": [key for key, _ in recorded["ranks"]]}
    return found | {key: float(score) for key, score in recorded["ranks"]}


def nodes_of_one_score_come_in_any_order(
    vector: Vector, field: str, here: Fields, there: Fields
) -> bool:
    """Their scores differ by an error of rounding."""
    if field != "order" or sorted(here["order"]) != sorted(there["order"]):
        return False
    return all(
        here[mine] == there[other] for mine, other in zip(here[field], there[field], strict=True)
    )


def test_the_same_pods_make_nodes_more_even() -> None:
    differences = (any_of_equal_pods_goes, rounds_find_a_place)
    replay("descheduler_fragmentation", uneven, recorded_uneven, differences)


def test_pods_have_the_same_ranks() -> None:
    differences = (nodes_of_one_score_come_in_any_order,)
    replay("descheduler_bin_packing", ranked, recorded_ranks, differences)


def test_the_same_pods_go_to_cheaper_nodes() -> None:
    differences = (pods_that_would_come_back_stay,)
    replay("descheduler_custom_priority", moved, recorded_moves, differences)
