"""Random inputs of the functions that plugins of a scheduler share."""

from __future__ import annotations

from random import Random

from tests.support.clusters.nodes import node, taints, tolerations
from tests.support.clusters.pods import bound_pod, pending_pod
from tests.support.clusters.selectors import Object, chance, label_selector, pod_labels

SUFFIXES = ["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "u", "n", "e3", "E-2", "e0"]


def quantity(rng: Random) -> str:
    """A quantity, mostly a valid one."""
    number = rng.choice(["0", "1", "7", "100", "1500", "0.5", "1.1", ".25", "3.", "123456789.987"])
    sign = "-" if chance(rng, 0.05) else ""
    broken = rng.choice(["", " ", "x", "."]) if chance(rng, 0.08) else ""
    return f"{sign}{number}{broken}{rng.choice(SUFFIXES)}"


def port(rng: Random) -> list[object]:
    address = rng.choice(["", "0.0.0.0", "127.0.0.1", "10.0.0.1"])
    return [address, rng.choice(["TCP", "TCP", "UDP", ""]), rng.choice([0, 80, 80, 8080])]


def random_function_input(rng: Random) -> Object:
    """An input in plain JSON; ``f`` names its function."""
    kind = rng.choices(
        ["requests", "nodeaffinity", "selector", "taints", "quantity", "ports"],
        weights=[12, 9, 6, 8, 4, 2],
    )[0]
    if kind == "requests":
        return {"f": kind, "pod": bound_pod(rng, 0, ["n1"], {"resources"})}
    if kind == "nodeaffinity":
        pod = pending_pod(rng, ["n1", "n2"], {"nodeAffinity"})
        spec = {key: one for key, one in pod["spec"].items() if key in {"affinity", "nodeSelector"}}
        one = node(rng, rng.choice(["n1", "n2"]), set())
        return {"f": kind, "pod": {"spec": spec}, "node": {"metadata": one["metadata"]}}
    if kind == "selector":
        return {"f": kind, "selector": label_selector(rng), "labels": pod_labels(rng)}
    if kind == "taints":
        comparing = chance(rng, 0.3)
        one = {"f": kind, "taints": taints(rng), "tolerations": tolerations(rng, comparing)}
        return {**one, "comparing": True} if comparing else one
    if kind == "quantity":
        return {"f": kind, "quantity": quantity(rng)}
    used = [port(rng) for _ in range(rng.randint(0, 4))]
    return {"f": kind, "used": used, "wanted": port(rng)}
