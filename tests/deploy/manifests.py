"""The objects that deploy/ gives a cluster, read as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tools import deploy_files

# Written in C, where that was built: what is installed is read for each value of the chart.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
NAMESPACE = "koordinator-system"

Object = dict[str, Any]
Id = tuple[str, str, str]
"""Kind, namespace and name."""


def load(text: str) -> list[Any]:
    """The documents of a YAML stream."""
    return [given for given in yaml.load_all(text, _LOADER) if given]


def read(texts: Iterable[str]) -> dict[Id, Object]:
    """The objects of YAML streams; one that is there twice is refused."""
    found: dict[Id, Object] = {}
    for text in texts:
        for given in load(text):
            assert identity(given) not in found, identity(given)
            found[identity(given)] = given
    return found


def identity(given: Mapping[str, Any]) -> Id:
    meta = given["metadata"]
    return given["kind"], meta.get("namespace", ""), meta["name"]


def installed(*components: str) -> dict[Id, Object]:
    """What the kustomization installs, and what components add to it."""
    texts = list(deploy_files.sources().values())
    for name in components:
        texts += deploy_files.component(name).texts.values()
    return read(texts)


def everything() -> dict[Id, Object]:
    """What is installed with all components."""
    return installed(*deploy_files.components())


def examples() -> dict[Id, Object]:
    """The objects of examples; one is a patch of an object that is installed."""
    files = sorted((DEPLOY / "examples").glob("*.yaml"))
    return read(file.read_text() for file in files if file.name != "rollout.yaml")


def containers(objects: Mapping[Id, Object]) -> Iterator[tuple[Object, Object]]:
    """Each pod's spec with each of its containers."""
    for given in objects.values():
        if given["kind"] in ("Deployment", "DaemonSet"):
            spec = given["spec"]["template"]["spec"]
            for container in spec["containers"]:
                yield spec, container


_FIELDS = {
    "metadata.name": "pod-1",
    "metadata.namespace": NAMESPACE,
    "status.podIP": "10.0.0.1",
    "spec.nodeName": "node-1",
}


def environ(container: Object) -> dict[str, str]:
    """As the program in a pod finds it."""
    found: dict[str, str] = {}
    for one in container["env"]:
        field = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        text = _FIELDS[field] if field else one["value"]
        found[one["name"]] = re.sub(r"\$\((\w+)\)", lambda match: found[match[1]], text)
    return found
