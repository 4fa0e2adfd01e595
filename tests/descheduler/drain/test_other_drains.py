"""A drain knows the nodes and places of those that are under way, and of no others."""

from __future__ import annotations

from typing import Any

import pytest
from koord_descheduler.drain.drain_objects import FINALIZER
from koord_descheduler.drain.other_drains import other_drains

PODS = [{"namespace": "ns", "name": "p", "targetNode": "m"}, {"namespace": "ns", "name": "q"}]


def drain(name: str, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "metadata": {"name": name, "uid": f"uid-{name}"},
        "spec": {"nodeName": name, **spec},
    }
    return found if status is None else found | {"status": status}


def test_nodes_and_places_of_all_but_oneself() -> None:
    placed = {"phase": "Waiting", "pods": PODS, "nodeName": "first"}
    documents = [drain("own", placed), drain("a", placed), drain("new")]
    documents[1]["metadata"]["finalizers"] = [FINALIZER]
    found = other_drains("own", {each["metadata"]["name"]: each for each in documents})
    assert found.nodes == {"first", "new"}
    assert found.settled == {"ns/p": "m"}
    assert found.claimants == {"uid-own", "uid-a", "uid-new"}


@pytest.mark.parametrize(
    "other",
    [
        drain("a", {"phase": "Failed", "pods": PODS}),
        drain("a", {"phase": "Aborted", "pods": PODS}),
        drain("a", {"phase": "Waiting", "pods": PODS}, dryRun=True),
    ],
)
def test_those_that_have_ended_or_show_a_plan_only_do_not_count(other: dict[str, Any]) -> None:
    found = other_drains("own", {"a": other})
    assert (found.nodes, found.settled) == (frozenset(), {})
    assert found.claimants == {"uid-a"}, "a node may still be theirs"
