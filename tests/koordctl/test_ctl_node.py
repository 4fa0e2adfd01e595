"""``koordctl node``."""

from __future__ import annotations

import datetime

import pytest
from koordctl.koordlet_documents import (
    CollectorRow,
    CPUWeights,
    JobRow,
    NodeDocument,
    ReportRow,
    StateRow,
)
from koordctl.node import node_lines
from koordctl.output.tables import plain

from tests.koordctl.conftest import Run


def test_a_busy_node(koordlet: str, run: Run) -> None:
    text = run("node", "--address", koordlet)
    for words in (
        "machine   Fake CPU @ 2.50GHz, 16 CPUs, 8 cores, 2 sockets, 2 NUMA nodes, SMT on\n",
        "CPU       14.07 of 16.00 cores (88 %), of which system 0.70\n",
        "peak      prod: 11.20 cores, 24.0 GiB predicted\n",
        "of 4096 series, 11.8 MiB of memory, 2.2 MiB on disk, 3 samples refused\n",
        "NodeSLO  812 s  API server: connection refused\n",
    ):
        assert words in text
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in text.splitlines() if line}
    reported = {name: " ".join(words.split()) for name, words in rows.items()}
    assert reported["podresource"] == "works 1 s 12.3 ms 80"
    assert reported["cpi"].startswith("off 60 s – –")
    assert reported["REPORT"] == "CHANNEL AGE SENT FAILED PROBLEM"
    assert reported["NodeMetric"] == "direct 10.0.0.7:9443 41 s 30 3"
    assert reported["NodeResourceTopology"] == "object 2 s 4 0"
    assert reported["Device"] == "– – 0 7 devices: 403 Forbidden"
    assert reported["JOB"] == "STATE AGE DEADLINE TARGET OWNER"
    assert reported["traffic"] == "waiting 1 s 30 s – –"
    group = "kubepods/besteffort/poduid-spark-exec-17"
    assert reported["memory.reclaim"] == f"running 2 s 30 s {group} memory_offload"
    assert reported["coldmemory"].endswith("no kidled here")


def test_a_node_of_which_nothing_is_known() -> None:
    lines = plain(node_lines(NodeDocument("", 0.0), datetime.UTC))
    assert lines[0] == "this node at 1970-01-01 00:00:00"
    assert "CPU       – of – cores (–), of which system –" in lines
    assert lines[-1] == "No collectors."
    assert not [one for one in lines if one.startswith("weights ")], "cgroup v1 has none"


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (
            CPUWeights("quadratic", "kubepods/podu1/c1", 512, 59),
            ["quadratic", "59", "512", "kubepods/podu1/c1"],
        ),
        (CPUWeights(), ["not known yet", "linear"]),
    ],
)
def test_how_the_runtime_makes_weights(weights: CPUWeights, words: list[str]) -> None:
    lines = plain(node_lines(NodeDocument("", 0.0, cpu_weights=weights), datetime.UTC))
    [line] = [one for one in lines if one.startswith("weights ")]
    assert all(word in line for word in words)


def test_words_from_elsewhere_cannot_drive_the_terminal() -> None:
    node = NodeDocument(
        "n",
        0.0,
        collectors=[CollectorRow("a\x1b[2J", "works", reason="x\ny")],
        states={"s\x07": StateRow(None, "gone\x1b[2J")},
        reports={"r\x07": ReportRow("\x1b[2J", "\x07", problem="\x1b")},
        jobs=[JobRow("j\x07", "t\x1b", "o\x1b", "\x1b")],
    )
    text = "\n".join(plain(node_lines(node, datetime.UTC)))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "x y" in text
