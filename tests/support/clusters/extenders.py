"""Random extenders: how they are configured, what they answer, and a small cluster for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import yaml

from tests.support.clusters.selectors import Object, chance

VERBS = ("filter", "prioritize", "preempt", "bind")
URL = "http://extender"
"""Stands for the address at which a test's extender listens."""
GPU, FPGA = "example.com/gpu", "example.com/fpga"
_RESOURCES = [GPU, FPGA, "vendor.io/card"]
_NO_RESOURCES = ["cpu", "gpu", "requests.example.com/gpu", "foo.kubernetes.io/gpu", "a b/c", ""]
_FAILED = ("FailedNodes", "FailedAndUnresolvableNodes")
_ODD = ["", "null", "[]", "{}", "{", '"x"', "7", "<html>", "{} trailing", '{"error": null}']
_REASONS = ["no gpu", "too far away", "busy, really", ""]


def random_extenders(rng: Random) -> Object:
    """A case in plain JSON: the ``config``, a cluster as for the scheduler, and ``answers``.

    An answer is the ``status`` and ``body`` that any request to this path gets; or, of a filter,
    which nodes are ``passing`` and the reasons of others: see ``filter_result``. Without a
    ``pod`` the configuration alone is of interest.
    """
    if chance(rng, 0.25):
        return {"config": _config(rng, wrong=0.12)}
    names = [f"n{place}" for place in range(1, rng.choice([1, 2, 3, 3, 4, 5]) + 1)]
    config = _config(rng, wrong=0.0)
    pods = [_bound(rng, place, names) for place in range(rng.choice([0, 3, 8, 14]))]
    return {
        "config": config,
        "nodes": [_node(rng, name) for name in names],
        "pods": pods,
        "pod": _waiting(rng, names),
        "answers": dict(_answers(rng, yaml.safe_load(config)["extenders"], names, pods)),
    }


def _answers(
    rng: Random, extenders: list[Object], names: list[str], pods: list[Object]
) -> Iterator[tuple[str, Object]]:
    """By path. Most let no node pass that one before has rejected."""
    left = names
    for one in sorted(extenders, key=lambda one: bool(one.get("ignorable"))):
        path = one["urlPrefix"].removeprefix(URL).rstrip("/")
        for verb in (verb for verb in VERBS if one.get(f"{verb}Verb")):
            if verb == "filter":
                passing = [name for name in left if chance(rng, rng.choice([0, 0.6, 0.6, 1]))]
                left = passing if chance(rng, 0.9) else left
                if chance(rng, 0.85):
                    yield f"{path}/{verb}", _filter_rule(rng, names, passing)
                    continue
                made = _filter_result(rng, names, passing, has_cache="nodeCacheCapable" in one)
            elif verb == "prioritize":
                made = _priorities(rng, names)
            elif verb == "preempt":
                made = _preemption_result(rng, names, pods)
            else:
                made = {"Error": rng.choice(["", "", "it is taken"])}
            yield f"{path}/{verb}", _answer(rng, made)


def _config(rng: Random, wrong: float) -> str:
    binder = rng.choice([0, 1, None, None, None])
    number = rng.choice([1, 1, 2, 3])
    document: Object = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "extenders": [
            _extender(rng, place, wrong, binds=place == binder) for place in range(number)
        ],
    }
    if chance(rng, 0.2):
        args = {"ignoredResources": [rng.choice(_RESOURCES)]}
        config = [{"name": "NodeResourcesFit", "args": args}]
        document["profiles"] = [{"schedulerName": "default-scheduler", "pluginConfig": config}]
    if wrong and chance(rng, wrong):
        _spoil(rng, rng.choice(document["extenders"]))
    return str(yaml.safe_dump(document, sort_keys=False))


def _extender(rng: Random, place: int, wrong: float, *, binds: bool) -> Object:
    found: Object = {"urlPrefix": f"{URL}/{place}" + rng.choice(["", "", "/", "//"])}
    for verb, often in (("filter", 0.75), ("prioritize", 0.5), ("preempt", 0.45)):
        if chance(rng, often):
            found[f"{verb}Verb"] = verb
    if binds or chance(rng, wrong):
        found["bindVerb"] = "bind"
    if "prioritizeVerb" in found or chance(rng, 0.2):
        found["weight"] = rng.choice([0, -1]) if chance(rng, wrong) else rng.choice([1, 2, 5, 10])
    if chance(rng, 0.5):
        found["nodeCacheCapable"] = True
    if chance(rng, 0.3):
        found["ignorable"] = True
    if chance(rng, 0.4):
        names = rng.sample(_RESOURCES, rng.choice([1, 1, 2])) if wrong else [_RESOURCES[place]]
        if chance(rng, wrong):
            names.append(rng.choice([*_NO_RESOURCES, *_RESOURCES]))
        managed: list[Object] = [{"name": name} for name in names]
        for one in managed:
            if chance(rng, 0.5):
                one["ignoredByScheduler"] = True
        found["managedResources"] = managed
    if chance(rng, 0.1):
        found["httpTimeout"] = rng.choice(["5s", "1m", "0s", "2500ms"])
    return found


def _spoil(rng: Random, extender: Object) -> None:
    """Something that is refused as a rule."""
    name, value = rng.choice(
        [
            ("weight", "1"),
            ("weight", 1.5),
            ("bindverb", "bind"),
            ("httpTimeout", "soon"),
            ("managedResources", {"name": GPU}),
            ("managedResources", [{"name": GPU, "ignored": True}]),
            ("tlsConfig", {"insecure": True, "caData": "YWJj"}),
            ("tlsConfig", {"certData": "YWJj"}),
            ("tlsConfig", {"keyFile": "/no/such/file"}),
            ("tlsConfig", {"caFile": "/no/such/file"}),
            ("tlsConfig", {"caData": "no base64!"}),
            ("tlsConfig", {"serverName": "extender.example.com"}),
            ("tlsConfig", {"insecure": True}),
            ("enableHTTPS", True),
            ("enableHttps", True),
            ("nodeCacheCapable", "yes"),
        ]
    )
    extender[name] = value


def _node(rng: Random, name: str) -> Object:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    for resource in (GPU, FPGA):
        if chance(rng, 0.7):
            amounts[resource] = "4"
    found: Object = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": amounts},
    }
    if chance(rng, 0.12):
        found["spec"]["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    return found


def _pod(name: str, requests: Object, priority: int) -> Object:
    container = {"name": "c", "image": "registry.example.com/i:1", "resources": {}}
    if requests:
        container["resources"] = {"requests": requests}
    return {
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}"},
        "spec": {
            "containers": [container],
            "priority": priority,
            "schedulerName": "default-scheduler",
        },
        "status": {},
    }


def _bound(rng: Random, place: int, names: list[str]) -> Object:
    pod = _pod(f"b{place}", {"cpu": rng.choice(["500m", "1", "2"])}, rng.choice([0, 0, 5]))
    pod["spec"]["nodeName"] = rng.choice(names)
    pod["status"] = {"startTime": f"2026-01-01T00:{place:02}:00Z"}
    return pod


def _waiting(rng: Random, names: list[str]) -> Object:
    requests = {"cpu": rng.choice(["100m", "1", "3"])}
    for resource in (GPU, FPGA):
        if chance(rng, 0.5):
            requests[resource] = rng.choice(["0", "1", "2"])
    pod = _pod("web", requests, rng.choice([0, 10, 10]))
    if GPU in requests and chance(rng, 0.2):
        init = {"name": "i", "image": "registry.example.com/i:1"}
        resources = {GPU: requests.pop(GPU)}
        pod["spec"]["initContainers"] = [
            {**init, "resources": {"requests": resources, "limits": resources}}
        ]
    if chance(rng, 0.1):
        pod["status"]["nominatedNodeName"] = rng.choice(names)
    return pod


def _answer(rng: Random, made: Any) -> Object:
    if chance(rng, 0.08):
        return {"status": rng.choice([500, 404, 201, 204]), "body": "{}"}
    if chance(rng, 0.06):
        return {"status": 200, "body": rng.choice(_ODD)}
    return {"status": 200, "body": json.dumps(_in_any_case(rng, made))}


def _in_any_case(rng: Random, value: Any) -> Any:
    """Fields of the structures as people in other languages write them."""
    if chance(rng, 0.8) or not isinstance(value, dict):
        return value
    style = rng.choice([str.lower, str.upper, lambda name: name[0].lower() + name[1:]])
    return {style(name): one for name, one in value.items()}


def filter_result(rule: Object, arguments: Object) -> Object:
    """What an extender answers that is asked about some nodes, and sends back the objects."""
    names, nodes = arguments["NodeNames"], arguments["Nodes"]
    asked = names if names is not None else [one["metadata"]["name"] for one in nodes["items"]]
    passing = [name for name in asked if name in rule["passing"]]
    reasons = {
        field: {name: why for name, why in rule[field].items() if name in asked}
        for field in _FAILED
    }
    if names is not None:
        return {"NodeNames": passing, **reasons}
    items = [one for one in nodes["items"] if one["metadata"]["name"] in passing]
    return {"Nodes": {"items": items}, **reasons}


def _filter_rule(rng: Random, names: list[str], passing: list[str]) -> Object:
    others = [name for name in names if name not in passing]
    reasons = {
        field: {name: rng.choice(_REASONS) for name in others if chance(rng, 0.6)}
        for field in _FAILED
    }
    return {"passing": passing, **reasons}


def _filter_result(rng: Random, names: list[str], passed: list[str], *, has_cache: bool) -> Object:
    if chance(rng, 0.06):
        return {"Error": "out of order"}
    passed = list(passed)
    others = [name for name in names if name not in passed]
    if chance(rng, 0.03):
        passed.append("stranger")
    found: Object = {}
    if has_cache != chance(rng, 0.04):
        found["NodeNames"] = passed
    else:
        found["Nodes"] = {"items": [{"metadata": {"name": name}} for name in passed]}
    for field in _FAILED:
        chosen = [name for name in others if chance(rng, 0.6)]
        if chosen or chance(rng, 0.1):
            found[field] = {name: rng.choice(_REASONS) for name in chosen}
    return found


def _priorities(rng: Random, names: list[str]) -> Any:
    listed = [{"Host": name, "Score": rng.choice([0, 1, 5, 9, 10, 12])} for name in names]
    if chance(rng, 0.1):
        listed[0]["Score"] = rng.choice([1.5, "7", None, -3])
    if chance(rng, 0.2):
        listed = [rng.choice([one, _in_any_case(rng, one)]) for one in listed]
    if chance(rng, 0.1):
        listed.append({"Host": rng.choice([*names, "stranger"]), "Score": 4})
    return [one for one in listed if chance(rng, 0.9)]


def _preemption_result(rng: Random, names: list[str], pods: list[Object]) -> Object:
    by_node: Object = {}
    for name in names:
        on = [one for one in pods if one["spec"]["nodeName"] == name]
        if chance(rng, 0.6):
            chosen = [one for one in on if chance(rng, 0.6)]
            victims: list[Object] = [{"UID": one["metadata"]["uid"]} for one in chosen]
            if chance(rng, 0.04):
                victims.append({"UID": "stranger"})
            if victims or chance(rng, 0.15):
                by_node[name] = {"Pods": victims, "NumPDBViolations": rng.choice([0, 0, 0, 1])}
    if chance(rng, 0.03):
        by_node["stranger"] = {"Pods": []}
    return {"NodeNameToMetaVictims": by_node}
