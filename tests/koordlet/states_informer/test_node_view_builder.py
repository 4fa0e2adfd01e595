from pathlib import Path
from typing import Any

import pytest
import yaml
from koord_model import keys
from koord_model.allocation import ResourceAllocation
from koord_model.node import Kernel, NamedPool, NodeView, SharedPool
from koord_model.node_slo import CPUPolicy
from koord_model.pod import Pod
from koord_model.qos import QoSClass
from koordlet.states_informer.cpu_manager_state import StateSnapshot
from koordlet.states_informer.node_view_builder import (
    NO_RULES,
    NodeViewBuilder,
    numa_cpus,
    parse_rules,
)
from koordlet.states_informer.state.share_pools import ReservedCPUs

from tests.support.node import FakeKernel

STATE = "/var/lib/kubelet/cpu_manager_state"
SLO = """\
kind: NodeSLO
spec:
  resourceQOSStrategy:
    policies: {cpuPolicy: coreSched}
    lsClass: {cpuQOS: {enable: true, groupIdentity: %s}}
"""


def identity(rules: Any) -> int:
    found: int = rules.slo.of(QoSClass.LS).cpu.group_identity
    return found


class TestTheFile:
    def test_three_documents_distinguished_by_their_kind(self):
        topology = """\
---
kind: Node
metadata: {annotations: {node.koordinator.sh/cpu-normalization-ratio: "1.5"}}
---
kind: NodeResourceTopology
metadata:
  annotations:
    node.koordinator.sh/cpu-shared-pools: '[{"node": 0, "cpuset": "0-3"}]'
"""
        rules = parse_rules((SLO % 1) + topology)
        assert rules.slo.cpu_policy is CPUPolicy.CORE_SCHED
        assert identity(rules) == 1
        assert rules.normalization_ratio == 1.5
        assert rules.topology is not None
        assert rules.topology.shared_pools == (SharedPool(0, "0-3"),)
        assert rules.problems == ()

    def test_an_empty_one_has_no_rules(self):
        assert parse_rules("---\n---\n") == NO_RULES

    def test_cpus_that_the_node_does_not_have_are_left_out(self):
        pools = '[{"node": 0, "cpuset": "0-3"}, {"node": 1, "cpuset": "64"}]'
        text = f"""\
kind: NodeResourceTopology
metadata: {{annotations: {{node.koordinator.sh/cpu-shared-pools: '{pools}'}}}}
"""
        rules = parse_rules(text, "0-15")
        assert rules.topology is not None
        assert rules.topology.shared_pools == (SharedPool(0, "0-3"),)
        assert len(rules.problems) == 1

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            ("a: [", "is not valid YAML: while parsing a flow node"),
            ("a: b: c", "is not valid YAML: mapping values are not allowed"),
            ("kind: Pod", 'has a document of kind "Pod"; expected one of NodeSLO, Node'),
            ("just words", 'has a document of kind ""'),
            ("- kind: NodeSLO", 'has a document of kind ""'),
        ],
    )
    def test_what_is_no_rules_file_is_one_line(self, text, reason):
        with pytest.raises(ValueError, match=r"^[^\n]*$") as found:
            parse_rules(text)
        assert str(found.value).startswith(reason)


@pytest.fixture
def rules_file(tmp_path: Path) -> Path:
    file = tmp_path / "rules.yaml"
    file.write_text(SLO % 1)
    return file


def views(
    rules_file: Path | str = "",
    node: FakeKernel | None = None,
    kept: StateSnapshot | None = None,
) -> NodeViewBuilder:
    return NodeViewBuilder(
        node or FakeKernel(), NodeView(), Kernel, rules_file=str(rules_file), kept_cpus=kept
    )


def snapshot(folder: Path, boot: str = "b1") -> StateSnapshot:
    return StateSnapshot(str(folder / "kubelet_cpus.json"), boot)


def owners_known(made: NodeViewBuilder) -> bool:
    assert made.current.topology is not None
    return made.current.topology.owners_known


class TestChanges:
    def test_the_same_is_the_same_object(self, rules_file):
        made = views(rules_file)
        first, _ = made.refresh(())
        assert made.refresh(())[0] is first is made.current
        assert identity(first) == 1

    def test_a_change_is_seen_with_the_next_round(self, rules_file):
        made = views(rules_file)
        made.refresh(())
        rules_file.write_text(SLO % -1)
        assert identity(made.refresh(())[0]) == -1

    @pytest.mark.parametrize(
        ("spoil", "reason"),
        [
            (lambda file: file.write_text("a: ["), "is not valid YAML"),
            (lambda file: file.write_bytes(b"\xff"), "cannot be read: 'utf-8' codec"),
            (lambda file: file.unlink(), "cannot be read: No such file"),
        ],
    )
    def test_the_last_good_rules_stay_and_the_reason_is_reported_once(
        self, rules_file, spoil, reason
    ):
        made = views(rules_file)
        good, _ = made.refresh(())
        spoil(rules_file)
        view, [line] = made.refresh(())
        assert view is good
        assert line.startswith(f"{rules_file} {reason}")
        assert line.endswith("(the last good rules stay in force)")
        assert made.refresh(()) == (good, ())
        rules_file.write_text(SLO % 0)
        assert identity(made.refresh(())[0]) == 0

    def test_a_field_that_cannot_be_used_is_reported_once(self, rules_file):
        rules_file.write_text(SLO % '"much"')
        made = views(rules_file)
        view, [line] = made.refresh(())
        assert line.startswith(f"{rules_file}: NodeSLO ")
        assert identity(view) == 2
        assert made.refresh(()) == (view, ())

    def test_without_a_file_the_defaults_hold(self):
        view, problems = views().refresh(())
        assert (view.slo, problems) == (NO_RULES.slo, ())


class TestPools:
    def pools(self, made: NodeViewBuilder, *pods: Pod) -> list[str]:
        topology = made.refresh(pods)[0].topology
        assert topology is not None
        return [pool.cpuset for pool in topology.shared_pools]

    def test_they_shrink_with_a_pod_that_has_cpus_of_its_own_and_widen_after_it(self):
        made = views()
        labels = {keys.LABEL_QOS: "LSE"}
        status = {keys.ANNOTATION_RESOURCE_STATUS: '{"cpuset": "2-3"}'}
        assert self.pools(made) == ["0-7", "8-15"]
        assert self.pools(made, Pod("p", "n", "u", labels, status)) == ["0-1,4-7", "8-15"]
        assert self.pools(made) == ["0-7", "8-15"]

    def test_exclusive_cpus_of_a_resource_plugin_are_taken_at_once_and_shown_before_that(self):
        made = views()
        pod = Pod("p", "n", "u", {keys.LABEL_QOS: "LSR"})
        assert self.pools(made, pod) == ["0-7", "8-15"]
        found = {"u": {"main": {"cpu": ResourceAllocation("CpusetCpus", "2-3")}}}
        made.allocations = lambda: found
        assert made.newest.allocations is found
        assert self.pools(made, pod) == ["0-1,4-7", "8-15"]
        assert made.newest is made.current

    def test_the_kubelet_s_static_manager_takes_cpus_too(self):
        node = FakeKernel()
        made = views(node=node)
        node.plain.texts[STATE] = (
            '{"policyName": "static", "defaultCpuSet": "1-15", "entries": {"u": {"main": "0"}}}'
        )
        assert self.pools(made) == ["1-7", "8-15"]
        assert made.current.topology is not None
        assert made.current.topology.kubelet_policy == "static"

    def test_a_state_that_cannot_be_read_gives_no_cpus_away(self):
        node = FakeKernel()
        node.plain.texts[STATE] = "{"
        assert self.pools(views(node=node)) == ["0-7", "8-15"]

    @pytest.mark.parametrize("text", [None, "{", OSError(24, "Too many open files")])
    def test_a_failed_read_of_the_state_changes_nothing(self, text, words):
        node = FailingKernel()
        node.plain.texts[STATE] = STATIC_STATE
        made = views(node=node)
        assert self.pools(made) == ["1-7", "8-15"]
        before = made.current.topology
        node.fail(STATE, text)
        for _ in range(3):
            made.refresh([])
            assert made.current.topology == before
        [(_, fields)] = words("cannot read the node's state")
        assert fields["reason"].endswith("(the last good state stays in force)")
        node.fail(STATE, STATIC_STATE.replace('"0"', '"0-1"'))
        assert self.pools(made) == ["2-7", "8-15"]

    def test_a_state_that_was_never_read_is_not_that_of_a_kubelet_without_cpus(self):
        node = FailingKernel()
        node.fail(STATE, OSError(24, "Too many open files"))
        assert self.pools(views(node=node)) == []

    @pytest.mark.parametrize("text", [None, "{", OSError(24, "Too many open files")])
    @pytest.mark.parametrize(
        ("boot", "pools"), [("b1", ["1-7", "8-15"]), ("b2", ["0-7", "8-15"])], ids=["run", "boot"]
    )
    def test_what_the_kubelet_said_last_counts_after_a_restart(self, tmp_path, text, boot, pools):
        node = FailingKernel()
        node.plain.texts[STATE] = STATIC_STATE
        assert self.pools(views(node=node, kept=snapshot(tmp_path))) == ["1-7", "8-15"]
        node.fail(STATE, text)
        found = self.pools(views(node=node, kept=snapshot(tmp_path, boot)))
        # Whether there is a file is not known: nothing is shared out for now.
        assert found == ([] if isinstance(text, OSError) else pools)

    def test_no_cpus_are_shared_out_before_reservations_are_known(self, rules_file):
        made, of_rules = views(), views(rules_file)
        rules_file.write_text(POOLS)
        aside: ReservedCPUs | None = None
        made.set_aside = of_rules.set_aside = lambda: aside
        assert self.pools(made) == []
        self.pools(of_rules)
        assert not owners_known(made)
        assert not owners_known(of_rules)
        aside = ReservedCPUs(frozenset({0, 1}))
        assert self.pools(made) == ["2-7", "8-15"]
        self.pools(of_rules)
        assert owners_known(made)
        assert owners_known(of_rules)
        aside = None
        assert self.pools(made) == ["2-7", "8-15"]

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("cpu/online", None),
            ("cpu/online", ""),
            ("cpu/online", OSError(5, "Input/output error")),
            ("node/node1/cpulist", "x"),
            ("node/node1/cpulist", OSError(5, "Input/output error")),
        ],
    )
    def test_a_failed_read_of_cpus_changes_nothing(self, path, text):
        node = FailingKernel()
        made = views(node=node)
        before = self.pools(made)
        node.fail(f"/sys/devices/system/{path}", text)
        assert self.pools(made) == before == ["0-7", "8-15"]

    def test_pools_stay_while_it_is_not_known_who_runs(self):
        made = views()
        assert self.pools(made) == ["0-7", "8-15"]
        made.refresh(None)
        assert made.current.topology.shared_pools

    def test_a_document_s_pools_go_before(self, rules_file):
        rules_file.write_text(POOLS)
        assert self.pools(views(rules_file)) == ["2-5"]

    def test_a_document_s_pools_lack_what_somebody_has_for_himself(self, rules_file):
        rules_file.write_text(POOLS)
        node = FakeKernel()
        node.plain.texts[STATE] = STATIC_STATE.replace('"0"', '"5"')
        made = views(rules_file, node)
        named = (NamedPool("spark", "3"),)
        made.set_aside = lambda: ReservedCPUs(claims={"cpu_pools": frozenset({3})}, named=named)
        made.refresh(None)  # nobody lists pods yet: the document stands for it
        topology = made.current.topology
        assert topology is not None
        assert topology.shared_pools == (SharedPool(0, "2,4"),)
        assert (topology.named_pools, topology.kubelet_policy) == (named, "static")
        found = {"u": {"main": {"cpu": ResourceAllocation("CpusetCpus", "4")}}}
        made.allocations = lambda: found
        lsr = {keys.LABEL_QOS: "LSR"}
        assert self.pools(made, Pod("p", "n", "u", lsr)) == ["2"]
        status = {keys.ANNOTATION_RESOURCE_STATUS: '{"cpuset": "2"}'}
        assert self.pools(made, Pod("p", "n", "u", lsr, status)) == [""]


POOLS = """\
kind: NodeResourceTopology
metadata: {annotations: {node.koordinator.sh/cpu-shared-pools: '[{"node": 0, "cpuset": "2-5"}]'}}
"""
STATIC_STATE = '{"policyName": "static", "defaultCpuSet": "1-15", "entries": {"u": {"main": "0"}}}'


class FailingKernel(FakeKernel):
    """Some of its files cannot be read, or say something else."""

    def fail(self, path: str, text: str | OSError | None) -> None:
        self.failing = {path: text} if isinstance(text, OSError) else {}
        if text is None:
            self.plain.texts.pop(path, None)
        elif isinstance(text, str):
            self.plain.texts[path] = text

    def read(self, path: str) -> str:
        if path in getattr(self, "failing", {}):
            raise self.failing[path]
        return super().read(path)


class TestCpusByNumaNode:
    def test_nodes_without_cpus_and_cpus_offline_are_left_out(self):
        node = FakeKernel()
        node.plain.texts["/sys/devices/system/cpu/online"] = "0-5,8-15\n"
        node.plain.texts["/sys/devices/system/node/node2/cpulist"] = "\n"
        node.plain.texts["/sys/devices/system/node/power/control"] = "auto\n"
        found = numa_cpus(node)
        assert found == {0: frozenset(range(6)), 1: frozenset(range(8, 16))}

    def test_a_kernel_that_knows_of_no_nodes_has_one(self):
        node = FakeKernel()
        for name in (0, 1):
            del node.plain.texts[f"/sys/devices/system/node/node{name}/cpulist"]
        node.plain.texts["/sys/devices/system/node/online"] = "0\n"
        node.plain.texts["/sys/devices/system/node/power/control"] = "auto\n"
        assert numa_cpus(node) == {0: frozenset(range(16))}

    def test_no_sysfs_at_all(self):
        node = FakeKernel()
        node.plain.texts.clear()
        assert numa_cpus(node) == {}


def bandwidth(text: str) -> dict[str, Any]:
    return {"spec": {"systemStrategy": {"totalNetworkBandwidth": text}}}


RATIO = {keys.ANNOTATION_CPU_NORMALIZATION_RATIO: "2"}


def test_documents_of_the_api_server_count_instead_of_the_files(tmp_path):
    file = tmp_path / "rules.yaml"
    documents = [{"kind": "NodeSLO", **bandwidth("1G")}]
    documents.append({"kind": "Node", "metadata": {"annotations": RATIO}})
    file.write_text(yaml.safe_dump_all(documents))
    made = views(file)
    made.refresh([])
    made.update_object("NodeSLO", bandwidth("3G"))
    view, problems = made.refresh([])
    assert (view.slo.total_network_bandwidth, view.cpu_normalization_ratio) == (3 * 10**9, 2.0)
    assert problems == ()
    made.update_object("NodeSLO", bandwidth("much"))
    assert len(made.refresh([])[1]) == 1
    assert made.refresh([])[1] == ()
    made.update_object("NodeSLO", None)
    assert made.refresh([])[0].slo.total_network_bandwidth == 10**9


def test_the_node_s_document_and_the_node_slo_are_apart():
    made = views()
    made.update_object("NodeSLO", bandwidth("3G"))
    # As the API server's state has it: without the kind, which lists do not have either.
    made.update_object("Node", {"metadata": {"annotations": RATIO}})
    view, problems = made.refresh([])
    assert (view.slo.total_network_bandwidth, view.cpu_normalization_ratio) == (3 * 10**9, 2.0)
    assert problems == ()
