"""``koordctl why``."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from koord_hooks.runner import load
from koord_hooks.stages import Stage
from koord_host.resource_executor.journal import Journal
from koord_model.keys import ANNOTATION_EXTENDED_RESOURCE_SPEC, BATCH_CPU
from koord_model.node import NodeView
from koord_model.pod import Container, Pod
from koord_service.status import Query, StatusServer
from koordctl.koordlet_documents import (
    CgroupRow,
    CurrentDecisionRow,
    DesiredValueRow,
    HookAnswerRow,
    KnobRow,
    PastDecisionRow,
    StrategyRow,
    WhyDocument,
)
from koordctl.output.tables import plain
from koordctl.why import cgroup_lines, pod_lines, strategy_lines, why_lines
from koordlet.http_api.journal import JournalPages
from koordlet.http_api.routes import pages
from koordlet.qos_manager.core.decision_log import DecisionRecord
from koordlet.qos_manager.core.strategy import StrategyMode
from koordlet.qos_manager.core.strategy_runner import StrategyState
from koordlet.qos_manager.journal_line import line
from koordlet.runtime_hooks.hook_answers import HookAnswers, Transport

from tests.koordctl.conftest import Failing, Run
from tests.support.decided import BE, DecidedNode, busy_decisions, suppressed
from tests.support.observed import NOW, busy_node

Serve = Callable[..., str]


@pytest.fixture
def serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """The address of a koordlet that has decided something."""
    monkeypatch.setenv("TZ", "UTC")
    servers: list[StatusServer] = []

    def start(node: DecidedNode | None, journal: str = "", hooks: HookAnswers | None = None) -> str:
        decided = node.decided() if node is not None else None
        observed = busy_node(0).observed()
        kept = JournalPages(journal) if journal else None
        server = StatusServer(f"unix://{tmp_path}/s", pages(observed, decided, kept, hooks))
        server.start()
        servers.append(server)
        return server.address

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def busy(serve: Serve) -> str:
    return serve(busy_decisions())


def reported(run: Run, address: str, *argv: str) -> str:
    return run("why", *argv, "--address", address)


def lines_of(found: WhyDocument, *nothing: str) -> list[str]:
    return plain(why_lines(found, nothing, datetime.UTC))


def test_why_suppress(busy: str, run: Run) -> None:
    lines = reported(run, busy, "suppress").splitlines()
    assert lines[:6] == [
        "best-effort pods get 4 CPUs",
        "  cpu_suppress, about kubepods/besteffort",
        "  capacity × threshold − used by others",
        "    capacity         16  cores",
        "    threshold        65  %",
        "    used by others  5.9  cores",
    ]
    assert lines[6].startswith("  since 2027-01-15 ")
    assert "(30 s), inputs of " in lines[6]
    assert lines[7] == "  earlier"
    assert lines[8].endswith("  best-effort pods get 5 CPUs")
    assert lines[9].endswith("  best-effort pods get 6 CPUs")
    assert len(lines) == 10


def test_how_much_of_the_past(serve: Serve, tmp_path: Path, run: Run) -> None:
    journal = Journal(f"{tmp_path}/j", pytest.fail)
    journal.add(
        line(DecisionRecord(NOW - 900, "cpu_suppress", StrategyMode.ON, suppressed(9, 1.0)))
    )
    journal.close()
    address = serve(busy_decisions(), f"{tmp_path}/j")
    assert reported(run, address, "suppress").endswith("best-effort pods get 9 CPUs\n")
    assert "earlier" not in reported(run, address, "suppress", "--history", "0")
    assert len(reported(run, address, "suppress", "--history=2").splitlines()) == 9


def test_why_pod(busy: str, run: Run) -> None:
    text = reported(run, busy, "pod", "web")
    assert text.splitlines()[:2] == [
        "the quota is raised",
        "  cpu_burst, about shop/web kubepods/w; mode shadow: not carried out",
    ]
    assert reported(run, busy, "pod", "shop/web") == text


NO_DECISION = (
    "No hook call about shop/orders-db-0 is recorded.\n\n"
    "No strategy has made a decision about shop/orders-db-0.\n"
)


@pytest.mark.parametrize(
    ("node", "argv", "words"),
    [
        (busy_decisions(), "pod orders-db-0", NO_DECISION),
        (busy_decisions(), "cgroup kubepods/x", "No value of kubepods/x is desired.\n"),
        (DecidedNode(), "suppress", "No decision about the CPU of best-effort pods.\n"),
        (DecidedNode(), "evicted", "No eviction is recorded.\n"),
        (DecidedNode(), "strategies", "koordlet has no strategies.\n"),
    ],
)
def test_nothing_to_show(serve: Serve, run: Run, node: DecidedNode, argv: str, words: str) -> None:
    assert reported(run, serve(node), *argv.split()) == words


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("pod shop/cart", "No pod shop/cart is known here"),
        ("evicted cart", "No eviction of cart is recorded"),
        ("evicted search-0", "No eviction of search-0 is recorded; shop/search-0 is running"),
    ],
)
def test_what_is_not_there_is_a_failure(
    serve: Serve, failing: Failing, argv: str, words: str
) -> None:
    code, line = failing("why", *argv.split(), "--address", serve(busy_decisions()))
    assert (code, words in line) == (1, True)


@pytest.mark.parametrize(
    "argv", [["suppress"], ["pod", "web"], ["evicted"], ["cgroup", "kubepods"], ["strategies"]]
)
def test_koordlet_that_decides_nothing(serve: Serve, run: Run, argv: list[str]) -> None:
    text = reported(run, serve(None), *argv)
    assert text.startswith("koordlet decides nothing on this node: ")
    assert text.count("\n") == 1


def answered(times: int = 1) -> HookAnswers:
    """What koordlet answered about a batch pod, a minute ago."""
    answers = HookAnswers(clock=lambda: NOW - 60)
    spec = json.dumps({"containers": {"main": {"limits": {BATCH_CPU: "500"}}}})
    annotations = {ANNOTATION_EXTENDED_RESOURCE_SPEC: spec}
    labels = {"koordinator.sh/qosClass": "BE"}
    main = Container(Pod("job-1", "batch", "u1", labels, annotations), "main")
    runner = load(["batchresource"])
    for _ in range(times):
        outcome = runner.run(Stage.PRE_CREATE_CONTAINER, main, NodeView())
        answers.keep(Transport.HOOK_PROTOCOL, Stage.PRE_CREATE_CONTAINER, main, outcome)
    return answers


@pytest.mark.parametrize(("times", "counted"), [(1, False), (3, True)])
def test_why_pod_shows_what_hooks_changed(
    serve: Serve, run: Run, times: int, counted: bool
) -> None:
    text = reported(run, serve(DecidedNode(), hooks=answered(times)), "pod", "job-1")
    first, when, plugin, *fields = text.splitlines()
    assert first == "Changes by hooks for batch/job-1"
    assert (", 3 times the same since " in when) == counted
    assert when.partition(", 3 times")[0].endswith(
        " (1 min ago)  PreCreateContainer of main (hook protocol)"
    )
    assert plugin.startswith("    batchresource: ")
    rows = [line.split() for line in fields if "→" in line]
    assert ["cpu_quota", "–", "→", "50000"] in rows
    assert text.endswith("\n\nNo strategy has made a decision about batch/job-1.\n")
    assert text.count("PreCreateContainer") == 1


def test_what_a_pod_s_cgroups_hold() -> None:
    knobs = [
        KnobRow("cpu.shares", 2, "", 512, "hooks", "batch-cpu 500m"),
        KnobRow("cpuset.cpus", ""),
        KnobRow("cpu.bvt_warp_ns", None, "no such file", -1, "hooks"),
    ]
    groups = [
        CgroupRow("kubepods/p/c", "b/j", "main", knobs),
        CgroupRow("kubepods/p/gone", "b/j", "side"),
    ]
    why = WhyDocument(NOW, True, pods=["b/j"], cgroups=groups)
    lines = plain(pod_lines(why, "j", datetime.UTC))
    assert "Cgroup of container main now: kubepods/p/c" in lines
    rows = [line.split() for line in lines]
    assert ["cpu.shares", "2", "512", "hooks", "batch-cpu", "500m"] in rows
    assert ["cpuset.cpus", '""', "–", "–"] in rows
    assert ["cpu.bvt_warp_ns", "(no", "such", "file)", "-1", "hooks"] in rows
    assert "Cgroup of container side does not exist: kubepods/p/gone" in lines


def test_katalysts_words_without_effect() -> None:
    observed = busy_node(0).observed()
    [web] = [record for record in observed.pods() if record.pod.name == "orders-db-0"]
    words = {"katalyst.kubewharf.io/qos_level": "reclaimed_cores"}
    labels = {**web.pod.labels, "koordinator.sh/qosClass": "LS"}
    odd = replace(web, pod=replace(web.pod, labels=labels, annotations=words))
    sources = replace(observed, pods=lambda: (odd,))
    page = pages(sources, busy_decisions().decided(), None)["/v1/why"](
        Query.parse("pod=orders-db-0")
    )
    found = msgspec.json.decode(page.body, type=WhyDocument)
    lines = plain(pod_lines(found, "orders-db-0", datetime.UTC))
    place = lines.index("Katalyst's words of shop/orders-db-0 that have no effect")
    assert lines[place + 1].startswith("  annotation katalyst.kubewharf.io/qos_level is reclaimed")


def test_what_was_wrong_with_hooks_and_hostile_words() -> None:
    answer = HookAnswerRow(
        "PreRunPodSandbox", NOW, NOW, 1, "b/j", "", "NRI", [], ["ignored: x\x1by"]
    )
    lines = plain(pod_lines(WhyDocument(NOW, True, hooks=[answer]), "j", datetime.UTC))
    assert lines[1].endswith("PreRunPodSandbox (NRI)")
    assert lines[2:4] == ["    no changes", "    ignored: x�y"]


def test_why_evicted(busy: str, run: Run) -> None:
    lines = reported(run, busy, "evicted", "batch/spark-exec-9").splitlines()
    assert lines[:5] == [
        "evicted: memory is short",
        "  memory_evict (evicted), about batch/spark-exec-9",
        "  used − lower",
        "    used   60  GiB",
        "    lower  56  GiB",
    ]
    assert "(40 s ago), ended " in lines[5]
    assert reported(run, busy, "evicted").splitlines() == lines


def test_why_cgroup(busy: str, run: Run) -> None:
    lines = reported(run, busy, "cgroup", f"/sys/fs/cgroup/cpu,cpuacct/{BE}/").splitlines()
    assert lines[:5] == [
        "KNOB         DESIRED  OWNER         REASON",
        "cpuset.cpus  0-3      cpu_suppress  so",
        "cpu.idle     1        hooks         group identity -1; conflict: operator wants 0",
        "",
        "best-effort pods get 4 CPUs",
    ]


@pytest.mark.parametrize(
    "path", [BE, f"/{BE}", f"/sys/fs/cgroup/{BE}", f"/sys/fs/cgroup/memory/{BE}/"]
)
def test_a_cgroup_by_any_of_its_paths(busy: str, run: Run, path: str) -> None:
    assert "cpuset.cpus" in reported(run, busy, "cgroup", path)


def test_strategies(busy: str, run: Run) -> None:
    header, suppress, burst, evict, off = reported(run, busy, "strategies").splitlines()
    assert header.split()[:4] == ["STRATEGY", "MODE", "GATE", "RUNS"]
    assert suppress.split()[:7] == [*("cpu_suppress", "on", "BECPUSuppress", "60", "0", "0", "2.1")]
    assert suppress.endswith("best-effort pods get 4 CPUs")
    assert burst.split()[1] == "shadow"
    assert burst.endswith("(and 1 more)")
    assert evict.endswith("no decision")
    assert off.split()[:3] == ["blkio", "off", "BlkIOReconcile"]
    assert off.endswith("its gate BlkIOReconcile is off")


@pytest.mark.parametrize(
    ("argv", "key"),
    [
        (["suppress"], "decisions"),
        (["pod", "web"], "decisions"),
        (["evicted"], "history"),
        (["cgroup", BE], "wishes"),
        (["strategies"], "strategies"),
    ],
)
def test_as_json(busy: str, run: Run, argv: list[str], key: str) -> None:
    found = json.loads(reported(run, busy, *argv, "--json"))
    assert found["at"] == NOW
    assert found[key]


def test_strategies_that_are_off_are_why_nothing_is_decided(serve: Serve, run: Run) -> None:
    gate = "its gate G is off"
    off = StrategyState("cpu_suppress", "G", StrategyMode.OFF, enabled=False, reason=gate)
    on = StrategyState("pressure_suppress", "H", StrategyMode.ON, enabled=True)
    assert reported(run, serve(DecidedNode(states=(off, on))), "suppress").splitlines() == [
        "No decision about the CPU of best-effort pods.",
        "cpu_suppress is off: its gate G is off.",
    ]


def test_several_blocks_are_apart_and_hostile_words_are_cleaned() -> None:
    found = WhyDocument(
        at=100.0,
        decides=True,
        decisions=[
            CurrentDecisionRow("s\x1b[2J", "a\nb", "on", since=float("1e300"), said_at=100.0),
            CurrentDecisionRow("t", "c", "new", "x", since=99.9),
        ],
    )
    assert lines_of(found) == [
        "a b",
        "  s�[2J, about the node",
        "  since – (0 s), inputs of 1970-01-01 00:01:40",
        "",
        "c",
        "  t (x), about the node; mode new: not carried out",
        "  since 1970-01-01 00:01:39 (0 s)",
    ]


def test_what_is_over_with_what_was_before() -> None:
    found = WhyDocument(
        at=90_000.0,
        decides=True,
        history=[
            PastDecisionRow("s", "b", "on", at=10.0),
            PastDecisionRow("s", "a", "shadow", at=5.0, until=10.0),
        ],
    )
    assert lines_of(found) == [
        "b",
        "  s, about the node",
        "  decided 1970-01-01 00:00:10 (1 d 59 min ago)",
        "  earlier",
        "    1970-01-01 00:00:05  a (shadow)",
    ]


def test_desired_values() -> None:
    wishes = [
        DesiredValueRow("a", "x" * 99),
        DesiredValueRow("b", ""),
        DesiredValueRow("c", None, "o", "w\x1b"),
    ]
    rows = plain(cgroup_lines(WhyDocument(1.0, True, wishes=wishes), "g"))[1:]
    assert [" ".join(row.split()) for row in rows] == [f"a {'x' * 59}…", 'b ""', "c – o w�"]


def test_a_koordlet_of_another_release_may_say_less() -> None:
    _, row = plain(
        strategy_lines(WhyDocument(1.0, True, strategies=[StrategyRow("s")]), datetime.UTC)
    )
    assert row.split() == ["s", "0", "0", "0", "–", "–", "no", "decision"]
    assert plain(cgroup_lines(WhyDocument(1.0, False), "g")) == [
        "koordlet makes no decisions on this node."
    ]
