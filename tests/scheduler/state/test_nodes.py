"""Columns say of each node what its last Node object and its pods say."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_model.label_selector import LabelSelector, Operator, Requirement
from koord_scheduler.objects.metadata import AnnotatedMeta
from koord_scheduler.objects.node import (
    ContainerImage,
    Node,
    NodeSpec,
    NodeStatus,
    Taint,
    read_node,
)
from koord_scheduler.objects.node_selector import NodeRequirement, RequiredNodes
from koord_scheduler.objects.requests import PodRequests
from koord_scheduler.plugins.image_locality.columns import ImageColumns
from koord_scheduler.plugins.image_locality.plugin import ImageLocality
from koord_scheduler.plugins.node_declared_features import NodeDeclaredFeatures
from koord_scheduler.state.cluster_state import ClusterState
from koord_scheduler.state.coded_sets import SetValues
from koord_scheduler.state.domains import NodeScope
from koord_scheduler.state.pod_counts import AffinitySelector, SpreadSelector
from koord_scheduler.state.pod_labels import pod_labels
from koord_scheduler.state.ports import ANY_ADDRESS, HostPort

from tests.support.prepared import prepared

NAMES = [f"n{number}" for number in range(6)]
TAINTS = [Taint("gpu", "", "NoSchedule"), Taint("slow", "yes", "PreferNoSchedule")]
IN_WEB = Requirement("app", Operator.IN, frozenset({"web"}))
NOT_DB = Requirement("app", Operator.NOT_IN, frozenset({"db"}))
NOTHING = LabelSelector()
SELECTORS = [
    SpreadSelector("a", LabelSelector((IN_WEB,))),
    SpreadSelector("a", LabelSelector((NOT_DB,))),
    SpreadSelector("b", LabelSelector(())),
    AffinitySelector(((None, LabelSelector((IN_WEB,))),)),
    AffinitySelector(((frozenset("a"), LabelSelector((IN_WEB,))), (frozenset("ab"), NOTHING))),
]
SCOPES = [
    NodeScope(("zone",), None, None),
    NodeScope(None, None, None),
    NodeScope(("zone", "disks"), RequiredNodes((NodeRequirement("zone", "In", ("a", "c")),)), ()),
]
IMAGES = ["web:1", "web:latest", "db:2"]
AMOUNTS = {
    ("cpu", "4"): 4000,
    ("cpu", "3900m"): 3900,
    ("memory", "8Gi"): 8 << 30,
    ("pods", "110"): 110,
    ("example.com/gpu", "2"): 2,
    ("example.com/gpu", "8"): 8,
}
REQUIREMENTS = [
    NodeRequirement("zone", "In", ("a", "c")),
    NodeRequirement("zone", "NotIn", ("a",)),
    NodeRequirement("zone", "Exists"),
    NodeRequirement("zone", "DoesNotExist"),
    NodeRequirement("disks", "Gt", ("1",)),
    NodeRequirement("disks", "Lt", ("2",)),
    NodeRequirement("nobody", "NotIn", ("a",)),
]

labels = st.fixed_dictionaries(
    {}, optional={"zone": st.sampled_from("abc"), "disks": st.sampled_from(["1", "2", "many"])}
)
image_names = st.lists(st.sampled_from(IMAGES), unique=True)
nodes = st.builds(
    Node,
    st.builds(AnnotatedMeta, name=st.sampled_from(NAMES), labels=labels | st.none()),
    st.builds(NodeSpec, st.lists(st.sampled_from(TAINTS), unique=True) | st.none(), st.booleans()),
    st.builds(
        NodeStatus,
        st.fixed_dictionaries(
            {"cpu": st.sampled_from(["4", "3900m"]), "pods": st.just("110")},
            optional={"memory": st.just("8Gi"), "example.com/gpu": st.sampled_from("28")},
        ),
        st.lists(
            st.builds(ContainerImage, st.sets(st.sampled_from(IMAGES)).map(list), st.integers(1, 9))
        ),
    ),
)
PORTS = [
    HostPort("TCP", 80, ANY_ADDRESS),
    HostPort("TCP", 80, "10.0.0.1"),
    HostPort("UDP", 80, "10.0.0.2"),
]
pods = st.tuples(
    st.builds(
        PodRequests,
        st.fixed_dictionaries(
            {"cpu": st.integers(0, 2000)}, optional={"example.com/nic": st.just(2)}
        ),
        st.integers(100, 2000),
        st.integers(200, 4000),
    ),
    st.lists(st.sampled_from(PORTS), unique=True).map(tuple),
    st.builds(
        pod_labels,
        st.sampled_from("ab"),
        st.fixed_dictionaries({}, optional={"app": st.sampled_from(["web", "db"])}),
        is_leaving=st.booleans(),
    ),
)
changes = st.lists(
    st.tuples(st.just("set"), nodes)
    | st.tuples(st.just("remove"), st.sampled_from(NAMES))
    | st.tuples(st.just("add"), st.tuples(st.sampled_from(NAMES), pods))
    | st.tuples(st.just("drop"), st.integers(0, 20)),
    max_size=40,
)


def is_counted(node: Node, scope: NodeScope) -> bool:
    is_free = scope.tolerations is None or Taint("gpu", "", "NoSchedule") not in (
        node.spec.taints or ()
    )
    has_keys = all(key in node.labels for key in scope.keys or ())
    return has_keys and is_free and (scope.required is None or node.labels.get("zone") in set("ac"))


class Cluster:
    """The same changes, in columns and in lists."""

    def __init__(self) -> None:
        self.columns = prepared([ImageLocality()], length=2)
        self.nodes: dict[str, Node] = {}
        self.pods: list[tuple[str, Any]] = []

    def change(self, what: str, subject: Any) -> str:
        """The name of the node that has changed, "" if none has."""
        columns = self.columns
        if what == "set":
            self.nodes[subject.name] = subject
            columns.set(subject)
            return str(subject.name)
        if what == "remove" and subject in self.nodes:
            del self.nodes[subject]
            columns.remove(subject)
            return str(subject)
        if what == "add":
            self.pods.append(subject)
            columns.add_pod(subject[0], columns.usage(*subject[1]))
            return str(subject[0])
        if what == "drop" and subject < len(self.pods):
            name, pod = self.pods.pop(subject)
            columns.remove_pod(name, columns.usage(*pod))
            return name
        return ""

    def check(self) -> None:
        columns = self.columns
        rows = {name: columns.row(name) for name in NAMES}
        used = {name: row for name, row in rows.items() if row is not None}
        assert used.keys() == self.nodes.keys() | {name for name, _ in self.pods}
        assert len(set(used.values())) == len(used)
        assert [columns.name(row) for row in used.values()] == list(used)
        assert columns.is_node.sum() == len(self.nodes)
        for name, row in used.items():
            node = self.nodes.get(name, Node())
            assert columns.is_node[row] == (name in self.nodes)
            assert columns.labels.of(row) == node.labels
            assert columns.taints.of(row) == tuple(node.spec.taints or ())
            assert columns.unschedulable[row] == node.spec.unschedulable
            here = [pod for other, pod in self.pods if other == name]
            self.check_amounts(row, node, [request for request, _, _ in here])
            for selector in SELECTORS:
                matching = sum(selector.matches(labels) for _, _, labels in here)
                assert columns.pods.counter(selector).rows[row] == matching
            for port in PORTS:
                taken = {one for _, ports, _ in here for one in ports if one[:2] == port[:2]}
                if port.address != ANY_ADDRESS:
                    taken &= {port, port._replace(address=ANY_ADDRESS)}
                assert (row in columns.ports.in_conflict(port)) == bool(taken)
            for image in IMAGES:
                has = any(image in one.names for one in node.status.images or ())
                state = columns.use(ImageColumns).get(image)
                assert (state is not None and row in state.rows) == has
            for requirement in REQUIREMENTS:
                matches = columns.labels.matches([requirement])
                assert matches[row] == requirement.allows(node.labels.get(requirement.key))
        for scope in SCOPES:
            self.check_domains(scope)

    def check_domains(self, scope: NodeScope) -> None:
        columns = self.columns
        counted = {name: node for name, node in self.nodes.items() if is_counted(node, scope)}
        zones = {name: node.labels.get("zone", "") for name, node in counted.items()}
        domains = columns.domains("zone", scope)
        values = columns.labels.column("zone").values or [""]
        present = [values[code] for code in domains.present]
        assert sorted(present) == sorted(set(zones.values()))
        everywhere = [node.labels.get("zone") for node in self.nodes.values()]
        assert domains.are_of_all == (scope.keys is None or None not in everywhere)
        for selector in SELECTORS:
            found = columns.pods.counter(selector).in_domains(domains).by_code
            meant = [name for name, (_, _, labels) in self.pods if selector.matches(labels)]
            pods = [zones[name] for name in meant if name in zones]
            assert found[-1] == 0
            for code, value in enumerate(values[: domains.number]):
                assert found[code] == pods.count(value)

    def check_amounts(self, row: int, node: Node, pods: list[PodRequests]) -> None:
        resources = self.columns.resources
        has = node.status.allocatable or {}
        for number, name in enumerate(resources.names):
            amount = AMOUNTS[name, has[name]] if name in has else 0
            assert resources.allocatable[number, row] == amount
            asked = [one.amounts.get(name, 1 if name == "pods" else 0) for one in pods]
            assert resources.requested[number, row] == sum(asked)
        assert resources.scored[0, row] == sum(one.scored_cpu for one in pods)
        assert resources.scored[1, row] == sum(one.scored_memory for one in pods)


@given(changes)
def test_columns_are_what_nodes_and_pods_say(changes: list[tuple[str, Any]]) -> None:
    cluster = Cluster()
    for selector in SELECTORS[:1]:  # the others are asked for when there may be pods already
        cluster.columns.pods.counter(selector)
    for change in changes[: len(changes) // 2]:
        cluster.change(*change)
    for change in changes[len(changes) // 2 :]:
        seen, length = cluster.columns.journal.position, len(cluster.columns)
        before = {name: cluster.columns.row(name) for name in NAMES}
        name = cluster.change(*change)
        changed = cluster.columns.journal.changed_since(seen)
        row = (
            cluster.columns.row(name)
            if cluster.columns.row(name) is not None
            else before[name]
            if name
            else None
        )
        assert list(changed) == ([] if row is None else [row])
        assert (cluster.columns.generation > 0) == (len(cluster.columns) > 2)
        assert len(cluster.columns) >= length
        cluster.check()
    while cluster.pods:
        cluster.change("drop", 0)
    for name in [*cluster.nodes]:
        cluster.change("remove", name)
    cluster.check()
    assert not cluster.columns.resources.requested.any()


@pytest.mark.parametrize(
    ("changed", "version", "journal"),
    [
        ({}, 0, 0),
        ({"status": NodeStatus({"cpu": "9"})}, 0, 0),
        ({"metadata": AnnotatedMeta(name="n1", labels={"zone": "b"})}, 1, 1),
        ({"spec": NodeSpec(TAINTS)}, 1, 1),
        ({"spec": NodeSpec(unschedulable=True)}, 0, 1),
        ({"status": NodeStatus(images=[ContainerImage(["web:1"], 7)])}, 0, 1),
        ({"status": NodeStatus(declared_features=["a"])}, 0, 1),
    ],
)
def test_what_nodes_say_often_costs_little(
    changed: dict[str, Any], version: int, journal: int
) -> None:
    columns = prepared([ImageLocality(), NodeDeclaredFeatures()])
    node = Node(AnnotatedMeta(name="n1", labels={"zone": "a"}))
    row = columns.set(node)
    before = columns.version, columns.node_journal.position
    columns.set(msgspec.structs.replace(node, **changed))
    after = columns.version, columns.node_journal.position
    assert after == (before[0] + version, before[1] + journal)
    assert columns.journal.changed_since(columns.journal.position - 1) == [row]


def test_equal_scores_go_to_one_node_the_same_for_a_seed() -> None:
    def best(seed: int) -> list[str]:
        columns = ClusterState(seed)
        for name in NAMES:
            columns.set(Node(AnnotatedMeta(name=name)))
        ties = columns.tie_break[columns.is_node]
        assert len(set(ties)) == len(NAMES)
        assert (ties >= 0).all()
        assert (ties < 1).all()
        return sorted(NAMES, key=lambda name: columns.tie_break[columns.row(name)])

    assert best(1) == best(1)
    assert len({tuple(best(seed)) for seed in range(5)}) > 1


def test_what_is_asked_of_sets_of_taints_is_asked_once_for_each() -> None:
    columns = ClusterState()
    for number in range(20):
        taints = TAINTS[: number % 3]
        columns.set(Node(AnnotatedMeta(name=f"n{number}"), NodeSpec(taints)))
    asked: list[int] = []

    def count(taints: tuple[Taint, ...]) -> float:
        asked.append(len(taints))
        return len(taints)

    rows = np.array([columns.row("n1"), columns.row("n5"), columns.row("n3")])
    values = SetValues(columns.taints, count)
    assert list(values.of(rows)) == [1, 2, 0]
    columns.set(Node(AnnotatedMeta(name="n3"), NodeSpec([*TAINTS, *TAINTS])))
    assert list(values.of(rows)) == [1, 2, 2 * len(TAINTS)]
    assert asked == [0, 1, 2, 2 * len(TAINTS)]


@pytest.mark.parametrize("length", [0, 1, 8])
def test_a_label_is_known_from_the_first_question_on(length: int) -> None:
    columns = ClusterState(length=8)
    for number in range(length):
        columns.set(Node(AnnotatedMeta(name=f"n{number}", labels={"zone": "ab"[number % 2]})))
    zone = columns.labels.column("zone")
    assert zone.values == ["a", "b"][:length]
    columns.set(Node(AnnotatedMeta(name="late", labels={"zone": "late"})))
    zone = columns.labels.column("zone")
    assert zone.values[-1] == "late"
    row = columns.row("late")
    assert (zone.codes == len(zone.values) - 1).nonzero()[0].tolist() == [row]
    assert columns.labels.matches([NodeRequirement("zone", "In", ("late",))], np.array([row]))[0]


def test_the_size_of_an_image_is_that_on_the_first_node_that_has_it() -> None:
    columns = prepared([ImageLocality()])

    def node(name: str, *sizes: int) -> Node:
        images = [ContainerImage(["web:1"], size) for size in sizes]
        return Node(AnnotatedMeta(name=name), NodeSpec(), NodeStatus(images=images))

    def image() -> tuple[int, list[str]]:
        state = columns.use(ImageColumns).get("web:1")
        assert state is not None
        names = sorted(columns.name(int(row)) for row in state.mask(len(columns)).nonzero()[0])
        assert state.number == len(names)
        return state.size, names

    columns.set(node("a", 5, 6))
    columns.set(node("b", 7))
    columns.set(node("a", 8))
    assert image() == (5, ["a", "b"])
    columns.set(node("a"))
    columns.remove("b")
    assert columns.use(ImageColumns).get("web:1") is None
    columns.set(node("b", 9))
    assert image() == (9, ["b"])
    columns.set(node("b", 3))
    assert image() == (3, ["b"])


def test_images_are_bounded_in_bytes() -> None:
    columns, rng = ImageColumns(ClusterState(), most_bytes=20_000), Random(1)
    reported: list[str] = []
    for _ in range(200):
        row, first = rng.randrange(5), rng.randrange(60)
        names = [f"registry.example.com/{number}" for number in range(first, first + 30)]
        columns.set(row, [ContainerImage([name], 7) for name in names[: rng.randrange(31)]])
        assert 0 <= columns.size <= 20_000
        reported += columns.take_warnings()
    [line] = reported
    assert "nodeStatusMaxImages" in line
    for row in range(5):
        columns.set(row, [])
    assert columns.size == 0
    columns.set(0, [ContainerImage(["web:1"], 7)])
    assert columns.get("web:1") is not None


def test_nodes_share_the_names_of_their_images() -> None:
    image = {"names": ["registry.example.com/web:1"], "sizeBytes": 7}
    raw = msgspec.json.encode({"metadata": {"name": "n"}, "status": {"images": [image]}})
    first, second = ((read_node(raw).status.images or [])[0].names for _ in range(2))
    assert first is not None
    assert second is not None
    assert first[0] is second[0]
