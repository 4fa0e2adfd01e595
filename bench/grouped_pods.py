"""Pods without containers for the benches' nodes: cgroups, listed as a kubelet lists pods.

Processes of the node join the cgroups: the image of the demo has no more than a shell.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from koordctl.errors import AskError
from koordctl.koordlet_client import ADDRESS
from koordctl.status_client import KOORDLET, ask

from tests.support.pod_cases import PodCase
from tests.vm import managed, slices


def make(cases: Iterable[PodCase]) -> dict[str, Path]:
    """Make the kubelet's tree with these pods; the containers' cgroups, by the pods' names."""
    slices.make_tree()
    groups = {}
    for case in cases:
        parent = slices.make_pod(case, case.name)
        groups[case.name] = slices.CGROUP / parent.strip("/") / f"cri-containerd-{case.name}.scope"
        groups[case.name].mkdir()
    return groups


def give(cases: Iterable[PodCase], spec: Mapping[str, Any]) -> None:
    """Write the pods and the NodeSLO where koordlet reads them."""
    put_in_force(spec)
    items = [_listed(case) for case in cases]
    Path(managed.LISTED).write_text(json.dumps({"kind": "PodList", "items": items}))


def put_in_force(spec: Mapping[str, Any]) -> None:
    """Write the NodeSLO, as an editor writes a file."""
    path = Path(managed.RULES)
    path.parent.mkdir(exist_ok=True)
    aside = path.with_suffix(".new")
    aside.write_text(json.dumps({"kind": "NodeSLO", "spec": spec}))
    aside.rename(path)


def _listed(case: PodCase) -> dict[str, Any]:
    status = {
        "name": "main",
        "containerID": f"containerd://{case.name}",
        "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}},
    }
    return {
        "metadata": {
            "name": case.name,
            "namespace": "ns",
            "uid": case.name,
            "labels": dict(case.labels),
        },
        "spec": managed.spec(case),
        "status": {
            "phase": "Running",
            "qosClass": str(case.kube_qos),
            "containerStatuses": [status],
        },
    }


def asked(page: str) -> dict[str, Any]:
    """One of koordlet's pages; nothing while it starts."""
    try:
        found: dict[str, Any] = json.loads(ask(ADDRESS, page, KOORDLET))
    except AskError:
        return {}
    return found


def aggregated(kind: str, seconds: float, pick: str, **labels: str) -> dict[str, float]:
    """Values that koordlet has measured, by pod."""
    more = "".join(f"&{name}={value}" for name, value in labels.items())
    page = f"/v1/metrics/query?kind={kind}&window={seconds:.0f}s&aggregation={pick}{more}"
    series = asked(page).get("series", [])
    return {found["labels"]["pod_uid"]: found["values"][pick] for found in series}
