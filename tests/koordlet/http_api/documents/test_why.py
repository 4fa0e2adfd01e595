"""/v1/why: decisions, their history, wishes and strategies."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from koord_host.resource_executor.journal import (
    ChangeEntry,
    Event,
    HookAnswerEntry,
    Journal,
    PluginAnswerEntry,
)
from koord_service.status import Query, QueryError
from koordlet.http_api import journal as events
from koordlet.http_api.documents.why import DecisionSources
from koordlet.http_api.journal import JournalPages
from koordlet.http_api.routes import pages
from koordlet.qos_manager.core.decision_log import DecisionRecord
from koordlet.qos_manager.core.strategy import Decision, StrategyMode, Term
from koordlet.qos_manager.journal_line import line

from tests.support.decided import BE, STATES, WISHES, DecidedNode, busy_decisions, suppressed
from tests.support.observed import NOW, busy_node

OBSERVED = busy_node(0).observed()
BUSY = busy_decisions()


def why(query: str = "", decided: DecidedNode | None = BUSY, journal: str = "") -> dict[str, Any]:
    kept = JournalPages(journal) if journal else None
    served = pages(OBSERVED, decided.decided() if decided else None, kept)
    found = json.loads(served["/v1/why"](Query.parse(query)).body)
    assert isinstance(found, dict)
    return found


def past(found: dict[str, Any]) -> list[tuple[float, str, float | None]]:
    return [(NOW - one["at"], one["outcome"], one["until"]) for one in found["history"]]


def test_what_stands_with_its_arithmetic() -> None:
    found = why("strategy=cpu_suppress")
    assert (found["node"], found["at"], found["decides"]) == ("node-1", NOW, True)
    assert found["decisions"] == [
        {
            "strategy": "cpu_suppress",
            "mode": "on",
            "aspect": "",
            "pod": "",
            "group": BE,
            "outcome": "best-effort pods get 4 CPUs",
            "formula": "capacity × threshold − used by others",
            "given": [
                {"name": "capacity", "value": 16.0, "unit": "cores", "shown": "16 cores"},
                {"name": "threshold", "value": 65, "unit": "%", "shown": "65 %"},
                {"name": "used by others", "value": 5.9, "unit": "cores", "shown": "5.9 cores"},
            ],
            "since": NOW - 30,
            "said_at": NOW,
        }
    ]
    assert past(found) == [
        (30, "best-effort pods get 4 CPUs", None),
        (40, "best-effort pods get 5 CPUs", NOW - 30),
        (60, "best-effort pods get 6 CPUs", NOW - 40),
    ]


@pytest.mark.parametrize(
    ("query", "decisions", "history"),
    [
        ("", 0, 0),
        ("strategy=cpu_suppress,cpu_burst", 3, 5),
        ("strategy=cpu_suppress&history=1", 1, 1),
        ("strategy=cpu_suppress&history=0", 1, 0),
        ("pod=web", 1, 1),
        ("pod=shop/web", 1, 1),
        ("pod=cart", 0, 0),
        ("evicted=", 0, 1),
        ("evicted=spark-exec-9", 0, 1),
        ("evicted=shop/web", 0, 0),
        ("group=kubepods", 2, 4),
        (f"group=/{BE}/", 1, 3),
        (f"group={BE}/podu/c1", 1, 3),
        ("group=other", 0, 0),
    ],
)
def test_what_is_asked_for(query: str, decisions: int, history: int) -> None:
    found = why(query)
    assert (len(found["decisions"]), len(found["history"])) == (decisions, history)
    assert [one["name"] for one in found["strategies"]] == [one.name for one in STATES]


def test_desired_values_of_a_group() -> None:
    assert why(f"group={BE}")["wishes"] == WISHES
    assert why("group=kubepods")["wishes"] == []
    assert why("pod=web")["wishes"] == []
    nobody = DecisionSources(BUSY.decisions)
    found = json.loads(pages(OBSERVED, nobody)["/v1/why"](Query.parse(f"group={BE}")).body)
    assert (found["wishes"], found["strategies"]) == ([], [])


def test_pods_that_run_and_are_called_so() -> None:
    assert why("pod=orders-db-0")["pods"] == ["shop/orders-db-0"]
    assert why("evicted=batch/spark-exec-17")["pods"] == ["batch/spark-exec-17"]
    assert why("evicted=")["pods"] == []
    assert why("pod=spark-exec-9")["pods"] == []


def test_strategies_with_their_newest_outcome() -> None:
    suppress, burst, evict, off = why()["strategies"]
    assert suppress["latest"]["outcome"] == "best-effort pods get 4 CPUs"
    assert burst["mode"] == "shadow"
    assert burst["latest"]["strategy"] == "cpu_burst"
    assert (evict["latest"], evict["decisions"]) == (None, 0)
    assert (off["enabled"], off["mode"], off["latest"]) == (False, "off", None)
    assert off["reason"] == "its gate BlkIOReconcile is off"


@pytest.mark.parametrize("query", ["", "pod=web", "group=kubepods", "evicted="])
def test_koordlet_that_decides_nothing_says_so(query: str) -> None:
    found = why(query, decided=None)
    assert found["decides"] is False
    assert found["reason"].startswith("koordlet decides nothing on this node")


def test_numbers_that_json_has_not_and_very_many_decisions() -> None:
    node = DecidedNode()
    given = (Term("a", float("nan")), Term("b", None, "cores"), Term("c", 3 << 30, "bytes"))
    many = [("m", StrategyMode.ON, Decision("o", pod=f"n/{number}")) for number in range(400)]
    node.decisions.keep(NOW, [("s", StrategyMode.ON, Decision("o", given=given)), *many])
    [one] = why("strategy=s", node)["decisions"]
    assert [each["value"] for each in one["given"]] == ["nan", None, 3 << 30]
    assert [each["shown"] for each in one["given"]] == ["nan", "unknown", "3 GiB"]
    assert len(why("strategy=m", node)["decisions"]) == 400


def kept(path: Path, node: DecidedNode, *entries: DecisionRecord) -> str:
    """A journal with earlier decisions, changes, and what is in memory too."""
    journal = Journal(f"{path}/j", pytest.fail)
    for entry in (*entries, *reversed(node.decisions.find(lambda _: True).history)):
        journal.add(line(entry))
        journal.add(ChangeEntry("t", "hooks", BE, "", "cpu.idle", 0, 1, ""))
    journal.close()
    return f"{path}/j"


def earlier(ago: float, cpus: int) -> DecisionRecord:
    return DecisionRecord(NOW - ago, "cpu_suppress", StrategyMode.ON, suppressed(cpus, 1.0))


def test_what_is_older_is_in_the_journal(tmp_path: Path) -> None:
    journal = kept(tmp_path, BUSY, earlier(300, 9), earlier(200, 8))
    assert past(why("strategy=cpu_suppress", journal=journal)) == [
        (30, "best-effort pods get 4 CPUs", None),
        (40, "best-effort pods get 5 CPUs", NOW - 30),
        (60, "best-effort pods get 6 CPUs", NOW - 40),
        (200, "best-effort pods get 8 CPUs", NOW - 60),
        (300, "best-effort pods get 9 CPUs", NOW - 200),
    ]
    for query, number in {
        "strategy=cpu_suppress&history=4": 4,
        "strategy=cpu_suppress&history=3": 3,
        "strategy=cpu_suppress&journal=0": 3,
        "": 0,
        "pod=web": 1,
    }.items():
        assert len(why(query, journal=journal)["history"]) == number, query


def test_after_a_restart_the_journal_alone_remembers(tmp_path: Path) -> None:
    journal = kept(tmp_path, BUSY)
    [one] = why("evicted=spark-exec-9", DecidedNode(), journal)["history"]
    assert (one["outcome"], one["at"], one["until"]) == (
        "evicted: memory is short",
        NOW - 40,
        None,
    )
    assert one["given"][0]["shown"] == "60 GiB"


@pytest.fixture(scope="module")
def full_journal(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A journal with all that is decided, among very many lines that are no decision."""
    path = str(tmp_path_factory.mktemp("journal") / "all")
    journal = Journal(path, pytest.fail)
    for entry in reversed(BUSY.decisions.find(lambda _: True).history):
        journal.add(line(entry))
    for number in range(20_000):
        journal.add(ChangeEntry("t", "hooks", f"{BE}/g{number}", "shop/web", "cpu.idle", 0, 1, ""))
    journal.close()
    return path


@pytest.mark.parametrize(
    "query",
    [
        *("pod=nobody", "pod=shop/nobody", "pod=web", "pod=shop/web"),
        *("group=kubepods/nothing", "group=kubepods", f"group={BE}", f"group={BE}/below/it"),
        *("strategy=nobody", "strategy=cpu_suppress"),
        *("evicted=", "evicted=nobody", "evicted=spark-exec-9", "evicted=batch/spark-exec-9"),
    ],
)
def test_the_journal_s_search_finds_all_and_decodes_little(
    full_journal: str, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    decoded: list[bytes] = []
    decode = events.journal.decode

    def counted(text: bytes) -> Event | None:
        decoded.append(text)
        return decode(text)

    monkeypatch.setattr(events.journal, "decode", counted)
    found = past(why(query, DecidedNode(), full_journal))
    assert [one[:2] for one in found] == [one[:2] for one in past(why(query))]
    assert len(decoded) < 200


def answer(hook: str, time: str, pod: str = "shop/web") -> HookAnswerEntry:
    plugin = PluginAnswerEntry("batchresource", "because", (("cpu_shares", 2, 512),))
    return HookAnswerEntry(time, hook, "NRI", pod, "main", (plugin,), ("a note",))


@pytest.mark.parametrize("pod", ["web", "shop/web"])
def test_hook_answers_of_an_earlier_run(tmp_path: Path, pod: str) -> None:
    journal = Journal(f"{tmp_path}/j", pytest.fail)
    for one in (
        answer("PreCreateContainer", "2026-01-31T12:00:00.000Z"),
        answer("PreCreateContainer", "2026-01-31T12:00:05.000Z"),
        answer("PreUpdateContainerResources", "2026-01-31T12:00:03.000Z"),
        answer("PreCreateContainer", "2026-01-31T12:00:06.000Z", "shop/other"),
        answer("PreCreateContainer", "some time ago"),
    ):
        journal.add(one)
    journal.close()
    updated, created = why(f"pod={pod}", journal=f"{tmp_path}/j")["hooks"]
    assert updated["hook"] == "PreUpdateContainerResources"
    fields = [{"field": "cpu_shares", "requested": 2, "answered": 512}]
    assert created == {
        "at": 1769860805.0,
        "since": 1769860805.0,
        "times": 1,
        "hook": "PreCreateContainer",
        "transport": "NRI",
        "pod": "shop/web",
        "container": "main",
        "plugins": [{"plugin": "batchresource", "why": "because", "fields": fields}],
        "notes": ["a note"],
    }
    for query in (f"pod={pod}&journal=0", "pod=nobody"):
        assert why(query, journal=f"{tmp_path}/j")["hooks"] == []


def test_a_journal_that_cannot_be_read_leaves_what_is_remembered(tmp_path: Path) -> None:
    journal = Path(kept(tmp_path, BUSY))
    with journal.open("a") as file:
        file.write('{"time":"x","strategy":"cpu_suppress","mode":"new","outcome":"o"}\n')
    for path in (tmp_path, tmp_path / "none", journal):
        assert len(why("strategy=cpu_suppress", journal=str(path))["history"]) == 3


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("pod=a&group=b", 'parameters "pod" and "group" cannot be given together'),
        ("strategy=a&evicted=", 'parameters "strategy" and "evicted" cannot be given together'),
        ("pod=", 'parameter "pod" is empty'),
        ("group=/", 'parameter "group" is empty'),
        ("strategy=,", 'parameter "strategy" is empty'),
        ("history=501", 'parameter "history" is "501"; expected 0 to 500'),
        ("journal=yes", 'parameter "journal" is "yes"'),
    ],
)
def test_what_cannot_be_asked(query: str, words: str) -> None:
    with pytest.raises(QueryError, match=re.escape(words)):
        why(query)
