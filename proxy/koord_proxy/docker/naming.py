"""Kubernetes' marks in docker's names, labels and cgroup parents.

Docker knows neither pods nor annotations, and with the systemd cgroup driver no
cgroup paths. cri-dockerd, as dockershim before it, puts them into the names and
labels of containers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from koord_proxy.rules.records import RecordKind

TYPE_LABEL = "io.kubernetes.docker.type"
SANDBOX_LABEL = "io.kubernetes.sandbox.id"
ANNOTATION_PREFIX = "annotation."

OWN_LABELS = frozenset(
    {TYPE_LABEL, SANDBOX_LABEL, "io.kubernetes.container.logpath", "io.kubernetes.container.name"}
)
"""Labels that cri-dockerd sets itself, whatever is asked for, and goes by."""

_KINDS = {"podsandbox": RecordKind.POD, "container": RecordKind.CONTAINER}
_PREFIX = "k8s"
_SLICE, _ROOT_SLICE = ".slice", "-.slice"
_ATTEMPT = re.compile(r"0*([0-9]{1,10})")


class Name(NamedTuple):
    """Parts of a container's name; ``attempt`` is the sandbox's own if it is one."""

    container: str
    pod: str
    namespace: str
    uid: str
    attempt: int


def parse_name(name: str) -> Name | None:
    """Read ``k8s_<container>_<pod>_<namespace>_<uid>_<attempt>``; None for any other name.

    After a name conflict cri-dockerd appends a random token, and in docker's answers
    names begin with a slash.
    """
    prefix, *tokens = name.removeprefix("/").split("_")
    if prefix != _PREFIX or len(tokens) not in (5, 6):
        return None
    attempt = _ATTEMPT.fullmatch(tokens[4])
    if attempt is None or int(attempt[1]) >= 1 << 32:
        return None
    return Name(tokens[0], tokens[1], tokens[2], tokens[3], int(attempt[1]))


def kind_of(labels: Mapping[str, str]) -> RecordKind | None:
    """Return the kind of container that labels describe; None if it is not of Kubernetes.

    The name alone does not decide: anybody can choose such a name. cri-dockerd labels all
    it makes and lists by that label only, so that what has none, or another value, does
    not exist for the kubelet.
    """
    return _KINDS.get(labels.get(TYPE_LABEL, ""))


def split_labels(labels: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Labels and annotations, from docker's labels."""
    plain: dict[str, str] = {}
    annotations: dict[str, str] = {}
    for name, value in labels.items():
        if name.startswith(ANNOTATION_PREFIX):
            annotations[name.removeprefix(ANNOTATION_PREFIX)] = value
        else:
            plain[name] = value
    return plain, annotations


def expanded_parent(parent: str) -> str:
    """A cgroup parent as the kubelet says it: a path, from the slice's name if docker has that.

    Its form shows the driver: docker takes a bare ``….slice`` for systemd only. The slice
    ``a-b.slice`` lies in ``a.slice``.
    """
    if not _is_slice(parent):
        return parent
    if parent == _ROOT_SLICE:
        return "/"
    parts = parent.removesuffix(_SLICE).split("-")
    if not all(parts):
        # No name that systemd knows; docker will say so.
        return parent
    return "".join(f"/{'-'.join(parts[:count])}{_SLICE}" for count in range(1, len(parts) + 1))


def docker_parent(desired: str, given: str) -> str:
    """A cgroup parent that a hook sets, as docker takes it in place of the one given.

    Without one, the form of the hook's value shows the driver.
    """
    if _is_slice(given) or (not given and desired.endswith(_SLICE)):
        return desired.rstrip("/").rpartition("/")[2] or _ROOT_SLICE
    return desired


def _is_slice(parent: str) -> bool:
    return parent.endswith(_SLICE) and "/" not in parent and parent != _SLICE
