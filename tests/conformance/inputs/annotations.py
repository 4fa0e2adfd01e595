"""Inputs for the readers of annotations: their texts, good and bad.

Where something is wrong with one, ``faults`` says what and where: the annotation, and the path
in it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

Object = dict[str, Any]

NUMBER = 3000
STATUS = "scheduling.koordinator.sh/resource-status"
DEVICES = "scheduling.koordinator.sh/device-allocated"
EXTENDED = "node.koordinator.sh/extended-resource-spec"
RESERVATION = "node.koordinator.sh/reservation"
SYSTEM = "node.koordinator.sh/system-qos-resource"
POOLS = "node.koordinator.sh/cpu-shared-pools"
BE_POOLS = "node.koordinator.sh/be-cpu-shared-pools"
POLICY = "kubelet.koordinator.sh/cpu-manager-policy"
RATIO = "node.koordinator.sh/cpu-normalization-ratio"
INFO = "node.koordinator.sh/cpu-basic-info"
RATIOS = "node.koordinator.sh/resource-amplification-ratio"
RAW = "node.koordinator.sh/raw-allocatable"
_TEXTS = ("", "x", "{", "[[]]", "5", '"x"', "true", '{"a":1}x', "{'a':1}", "\\u0000")
_LISTS = ("0-3", "2,1,0", "0-1,4-5", "5", "0,1,2,3", "3,3", "0-15", "")
_NO_LISTS = ("x", "3-1", "1-", "-1", "0;1", "1,,2", "0-1-2", "0x1", "1.5")
_NOT = {
    "text": (5, True, [], {}),
    "quantity": (True, "x", [], {}, "", "1 Gi", "0x10", "1Kii", "--1"),
    "number": ("0", 1.5, True, [], 1 << 40),
    "flag": ("true", 1, []),
    "object": (5, "x", [], True),
    "list": (5, "x", {"a": 1}, True),
}


class Text:
    """One annotation as it is made; of each leaf it draws whether that is as it should be."""

    def __init__(self, random: Random, bad: float, key: str, faults: list[Any]) -> None:
        self._random, self._bad, self._key, self._faults = random, bad, key, faults

    def value(self, kind: str, good: Any, *path: str | int) -> Any:
        """The good value, or another and a word about it."""
        if self._random.random() >= self._bad:
            return good
        return self.fault(kind, self._random.choice(_NOT[kind]), *path)

    def cpus(self, *path: str | int) -> Any:
        """A CPU list."""
        if self._random.random() < self._bad:
            return self.fault("CPU list", self._random.choice(_NO_LISTS), *path)
        return self.value("text", self._random.choice(_LISTS), *path)

    def amount(self, good: tuple[Any, ...], *path: str | int) -> Any:
        """A quantity."""
        if self._key != RESERVATION and self._random.random() < self._bad / 2:
            return self.fault("range", self._random.choice(("-1", "-500m", "-1500m", -7)), *path)
        if self._random.random() < self._bad / 2:
            return self.fault("null", None, *path)
        return self.value("quantity", self._random.choice(good), *path)

    def fault(self, kind: str, value: Any, *path: str | int) -> Any:
        """Something is wrong here."""
        self._faults.append([kind, self._key, *path])
        return value


def one(random: Random) -> Object:
    """One input."""
    reader = random.choice(tuple(_READERS))
    found: Object = {"reader": reader, "annotations": {}, "faults": []}
    if reader == "amplified":
        return found | _amplified(random)
    bad = random.choice((0, 0, 0.05, 0.15))
    for key, make in _READERS[reader].items():
        if random.random() < 0.1:
            continue
        faults: list[Any] = []
        given = make(random, Text(random, bad, key, faults))
        text = given if key == RATIO else json.dumps(given)
        if random.random() < 0.06:
            text, faults = random.choice(_TEXTS), [["annotation", key]]
        found["annotations"][key] = text
        found["faults"] += faults
    return found


def _status(random: Random, text: Text) -> Object:
    found: Object = {}
    if random.random() < 0.6:
        found["cpuset"] = text.cpus("cpuset")
    if random.random() < 0.7:
        names = {"cpu": _CPU, "kubernetes.io/batch-cpu": _BATCH, "memory": ("1Gi",), "x/y": ("1",)}
        listed = [
            {
                "node": text.value("number", node, "numaNodeResources", place, "node"),
                "resources": text.value(
                    "object",
                    {
                        name: text.amount(amounts, "numaNodeResources", place, "resources", name)
                        for name, amounts in names.items()
                        if random.random() < 0.3
                    },
                    "numaNodeResources",
                    place,
                    "resources",
                ),
            }
            for place, node in enumerate(random.sample((0, 1, 2, 3), random.randint(0, 3)))
        ]
        found["numaNodeResources"] = text.value("list", listed, "numaNodeResources")
    return found


_CPU = ("2", 2, "0", "1500m", "0.0001", 0.5, "1e3")
_BATCH = ("1000", 1500, "2k", "0", "1500.5", "1m", "1e3", 3.0)
_BYTES = ("1Gi", "1G", 123456789, "1.5Gi", "0", "1e9", "100m", "1.1Ki")


def _extended(random: Random, text: Text) -> Object:
    def amounts(*path: str | int) -> Any:
        ways: Object = {"kubernetes.io/batch-cpu": _BATCH, "kubernetes.io/batch-memory": _BYTES}
        found = {
            name: text.amount(each, *path, name)
            for name, each in ways.items()
            if random.random() < 0.8
        }
        return text.value("object", found, *path)

    def container(name: str) -> Any:
        groups = [group for group in ("requests", "limits") if random.random() < 0.85]
        found = {group: amounts("containers", name, group) for group in groups}
        return text.value("object", found, "containers", name)

    names = [f"c{place}" for place in range(random.randint(0, 3))]
    found = {"containers": {name: container(name) for name in names}}
    return found if random.random() < 0.95 else {"containers": random.choice(_NOT["object"])}


def _devices(random: Random, text: Text) -> Object:
    def gpu(place: int, minor: int) -> Object:
        ways: Object = {
            "koordinator.sh/gpu-core": ("50", 100, "12.5"),
            "koordinator.sh/gpu-memory-ratio": ("50", 100),
            "koordinator.sh/gpu-memory": _BYTES,
        }
        resources = {
            name: text.amount(each, "gpu", place, "resources", name)
            for name, each in ways.items()
            if random.random() < 0.8
        }
        return {
            "minor": text.value("number", minor, "gpu", place, "minor"),
            "resources": text.value("object", resources, "gpu", place, "resources"),
        }

    def rdma(place: int) -> Object:
        found: Object = {
            "minor": place,
            "id": text.value("text", f"0000:0{place}:00.0", "rdma", place, "id"),
        }
        if random.random() < 0.5:
            vfs = [
                {
                    "minor": vf,
                    "busID": text.value(
                        "text",
                        f"0000:0{place}:00.{vf}",
                        "rdma",
                        place,
                        "extension",
                        "vfs",
                        vf,
                        "busID",
                    ),
                }
                for vf in range(random.randint(0, 2))
            ]
            listed = text.value("list", vfs, "rdma", place, "extension", "vfs")
            found["extension"] = text.value("object", {"vfs": listed}, "rdma", place, "extension")
        return found

    found: Object = {}
    if random.random() < 0.8:
        minors = random.sample(range(8), random.randint(0, 3))
        found["gpu"] = text.value("list", [gpu(*each) for each in enumerate(minors)], "gpu")
    if random.random() < 0.5:
        found["rdma"] = text.value(
            "list", [rdma(place) for place in range(random.randint(0, 2))], "rdma"
        )
    return found


def _reservation(random: Random, text: Text) -> Object:
    found: Object = {}
    if random.random() < 0.7:
        ways: Object = {
            "cpu": ("1", 2, "1500m", "0", "3", "7", "15", "16", "17", "100", "10m", "-1"),
            "memory": _BYTES,
        }
        resources = {
            name: text.amount(each, "resources", name)
            for name, each in ways.items()
            if random.random() < 0.8
        }
        found["resources"] = text.value("object", resources, "resources")
    if random.random() < 0.5:
        found["reservedCPUs"] = text.cpus("reservedCPUs")
    if random.random() < 0.3:
        found["applyPolicy"] = text.value("text", "ReservedCPUsOnly", "applyPolicy")
    return found


def _system(random: Random, text: Text) -> Object:
    found: Object = {}
    if random.random() < 0.8:
        found["cpuset"] = text.cpus("cpuset")
    if random.random() < 0.4:
        found["cpusetExclusive"] = text.value("flag", random.random() < 0.5, "cpusetExclusive")
    return found


def _pools(random: Random, text: Text) -> Any:
    listed = [
        {
            "socket": 0,
            "node": text.value("number", node, node, "node"),
            "cpuset": text.cpus(node, "cpuset"),
        }
        for node in range(random.randint(0, 3))
    ]
    return text.value("list", listed)


def _policy(random: Random, text: Text) -> Object:
    found: Object = {"policy": text.value("text", random.choice(("none", "static", "")), "policy")}
    return found | ({"options": {"full-pcpus-only": "true"}} if random.random() < 0.3 else {})


def _ratio(random: Random, text: Text) -> str:
    del text
    ways = ("1.00", "1.15", "2.3", "0.9", "1e1", ".5", "5.", "+1.5", "99.99", "100", *_NO_RATIOS)
    return random.choice(ways)


_NO_RATIOS = (
    "x",
    "-1",
    "0",
    "",
    "1_0",
    " 1.5",
    "1.5 ",
    "\u0661",
    "1,5",
    "101",
    "inf",
    "nan",
    "0x1p1",
    "1e400",
)


def _info(random: Random, text: Text) -> Object:
    found: Object = {"cpuModel": text.value("text", random.choice(("XEON", "EPYC")), "cpuModel")}
    for name in ("hyperThreadEnabled", "turboEnabled"):
        if random.random() < 0.7:
            found[name] = text.value("flag", random.random() < 0.5, name)
    return found


def _amplified(random: Random) -> Object:
    cpus, sizes = ("4", "3333m", "7900m"), ("16Gi", "1001", "32657108Ki", "1500M")

    def amounts() -> Object:
        return {"cpu": random.choice(cpus), "memory": random.choice(sizes), "pods": "110"}

    annotations: Object = {}
    ratio = ("1.5", "2.00", "1.00", "0.50", "1.37", "3.14")
    if random.random() < 0.85:
        names = [name for name in ("cpu", "memory", "pods") if random.random() < 0.7]
        each = ",".join(f'"{name}":{random.choice(ratio)}' for name in names)
        annotations[RATIOS] = f"{{{each}}}"
        if random.random() < 0.06:
            annotations[RATIOS] = random.choice(("", "x", "[]", '{"cpu":"2"}', "null"))
    now = amounts()
    old = now if random.random() < 0.6 else amounts()
    if random.random() < 0.6:
        annotations[RAW] = json.dumps(
            {name: one for name, one in amounts().items() if name != "pods"}
        )

    def node(allocatable: Object) -> Object:
        return {
            "metadata": {"name": "n", "annotations": dict(annotations)},
            "status": {"allocatable": allocatable},
        }

    return {"node": node(now), "old": node(old)}


_READERS: dict[str, dict[str, Callable[[Random, Text], Any]]] = {
    "status": {STATUS: _status},
    "extended": {EXTENDED: _extended},
    "devices": {DEVICES: _devices},
    "node": {RESERVATION: _reservation, SYSTEM: _system},
    "topology": {POOLS: _pools, BE_POOLS: _pools, SYSTEM: _system, POLICY: _policy},
    "ratio": {RATIO: _ratio},
    "info": {INFO: _info},
    "amplified": {},
}
_BY_FIELD = ("devices", "extended", "node", "topology")


def _without(given: Object, kinds: tuple[str, ...]) -> None:
    """Take out what is wrong."""
    if given["reader"] not in _BY_FIELD:
        return
    while wrong := [one for one in given["faults"] if one[0] in kinds]:
        _, key, *path = wrong[0]
        # A device without its number, and a pool without its node or CPUs, is none.
        if (key, path[-1:]) in _NEEDED:
            path = path[:-1]
        _take_out(given["annotations"], key, path)
        left = (_moved(one, [key, *path]) for one in given["faults"])
        given["faults"] = [one for one in left if one]


_NEEDED = [(DEVICES, ["minor"])]
_NEEDED += [(key, [name]) for key in (POOLS, BE_POOLS) for name in ("node", "cpuset")]


def _moved(fault: list[Any], taken: list[Any]) -> list[Any]:
    """Where a fault is after something was taken out; empty if it was in that."""
    _, *where = fault
    if where[: len(taken)] == taken:
        return []
    last = len(taken) - 1
    behind = where[:last] == taken[:last] and isinstance(taken[last], int) and len(where) > last
    if behind and where[last] > taken[last]:
        return [*fault[: last + 1], where[last] - 1, *fault[last + 2 :]]
    return fault


def _take_out(annotations: Object, key: str, path: list[Any]) -> None:
    if not path:
        annotations.pop(key, None)
        return
    try:
        inside = document = json.loads(annotations[key])
        for part in path[:-1]:
            inside = inside[part]
        del inside[path[-1]]
    except (TypeError, KeyError, IndexError):
        return  # in something that is wrong as a whole
    annotations[key] = json.dumps(document)


def bad_fields(given: Object) -> None:
    """A field of a wrong type costs itself, or what cannot be without it."""
    _without(given, tuple(_NOT))


def bad_annotations(given: Object) -> None:
    """A text that is no JSON costs itself."""
    if given["reader"] in ("node", "topology"):
        _without(given, ("annotation",))


def bad_lists(given: Object) -> None:
    """A CPU list that is none costs itself, or the pool."""
    _without(given, ("CPU list",))


def out_of_range(given: Object) -> None:
    """An amount below 0 is none."""
    _without(given, ("range",))


def nulls(given: Object) -> None:
    """Null is as if it were not there."""
    _without(given, ("null",))


def unread_names(given: Object) -> None:
    """Of a placement by NUMA node only amounts of CPU are looked at."""
    if given["reader"] != "status" or STATUS not in given["annotations"]:
        return
    unread = [one for one in given["faults"] if str(one[-1]) in ("memory", "x/y")]
    for _, key, *path in unread:
        _take_out(given["annotations"], key, path)


DECISIONS: dict[str, Callable[[Object], None]] = {
    "bad annotations": bad_annotations,
    "bad fields": bad_fields,
    "bad lists": bad_lists,
    "out of range": out_of_range,
    "nulls": nulls,
    "unread names": unread_names,
}
