"""``koordctl top``, printed once and drawn live on a terminal."""

from __future__ import annotations

import datetime
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import msgspec
import pytest
from koord_service.status import StatusServer
from koordctl.koordlet_documents import Capacity, ClassRow, NodeRow, PodRow, TopDocument
from koordctl.output.tables import plain
from koordctl.top import chosen, head_lines, pod_lines
from koordlet.http_api.routes import pages

from tests.koordctl.conftest import Run
from tests.support.observed import ObservedNode, busy_node
from tests.support.processes import PATIENCE

LIVE = [sys.executable, "-c", "from koordctl.main import main; main()", "top"]


def test_once(koordlet: str, run: Run) -> None:
    lines = run("top", "--address", koordlet).splitlines()
    assert lines[0].startswith("node-1  ")
    assert lines[0].endswith("  8 pods")
    assert re.search(
        r"CPU +█+.+ 88 %  14\.07 of 16\.00 cores, requested 113 %, predicted", lines[1]
    )
    assert lines[3].startswith("PSI     CPU 4.9 %, memory 0.1 % (all tasks 0.0 %), IO 2.6 %")
    header = next(i for i, line in enumerate(lines) if line.startswith("POD"))
    assert lines[header].split()[-4:] == ["PSI", "CPU", "MEM", "IO"]
    assert lines[header + 1].split()[:3] == ["shop/orders-db-0", "LSR", "3.21"]
    assert len(lines) == header + 9


@pytest.mark.parametrize(
    ("flags", "names"),
    [
        (["--class", "be"], ["spark-exec-18", "spark-exec-17", "train-resnet-5"]),
        (["--class=BE", "--sort=memory", "-n1"], ["train-resnet-5"]),
        (["--sort=psi", "-n", "2"], ["train-resnet-5", "spark-exec-18"]),
        (["--class=SYSTEM"], []),
    ],
)
def test_which_pods(koordlet: str, run: Run, flags: list[str], names: list[str]) -> None:
    shown = json.loads(run("top", "--json", f"--address={koordlet}", *flags))
    assert [pod["name"] for pod in shown["pods"]] == names
    assert shown["node"]["name"] == "node-1"


def test_pods_of_which_nothing_is_known_come_last() -> None:
    pods = [PodRow(name="a"), PodRow(name="b", cpu=0.0), PodRow(name="c", cpu=2.0, psi_io=1.0)]
    top = TopDocument(0.0, NodeRow(), pods=pods)
    assert [pod.name for pod in chosen(top, "cpu")] == ["c", "b", "a"]
    assert [pod.name for pod in chosen(top, "psi")] == ["c", "a", "b"]


def test_delays_have_columns_where_they_are_measured() -> None:
    waiting = PodRow(name="a", sched_wait=1234.5, tcp_retransmits=0.0125)
    header, *rows = plain(pod_lines([waiting, PodRow(name="b")]))
    assert header.split()[-3:] == ["WAIT", "CPU", "RESENT"]
    assert [row.split()[-4:] for row in rows] == [["1234", "ms/s", "1.25", "%"], ["–"] * 4]
    top = TopDocument(0.0, NodeRow(), pods=[PodRow(name="b"), waiting])
    assert [pod.name for pod in chosen(top, "wait")] == ["a", "b"]


def test_a_node_of_which_nothing_is_known() -> None:
    lines = plain(head_lines(TopDocument(0.0, NodeRow()), datetime.UTC))
    assert lines[0] == "this node  00:00:00  0 pods"
    assert lines[1] == f"CPU     {'·' * 24}      –  – of – cores, requested –"
    assert plain(pod_lines([])) == ["No pods to show."]


def test_requests_that_nobody_knows_are_not_none() -> None:
    capacity = Capacity(4.0, 1 << 30)
    unknown = TopDocument(0.0, NodeRow(capacity=capacity), classes=[ClassRow(qos="BE", pods=2)])
    assert [line.endswith(", requested –") for line in plain(head_lines(unknown))[1:3]] == [
        True
    ] * 2
    known = [*unknown.classes, ClassRow(qos="LS", pods=1, cpu_request=0.0, memory_request=1 << 29)]
    lines = plain(head_lines(msgspec.structs.replace(unknown, classes=known)))
    assert lines[1].endswith(", requested 0 %")
    assert lines[2].endswith(", requested 50 %")


def test_peaks_by_what_they_are_of() -> None:
    node = NodeRow(peaks={"prod": {"cpu": 2.0}, "mid": {"cpu": 1.0}}, capacity=Capacity(4.0))
    lines = plain(head_lines(TopDocument(0.0, node), datetime.UTC))
    assert lines[1].endswith("predicted peak prod 2.00, mid 1.00")
    assert "peak" not in lines[2]


def test_names_cannot_drive_the_terminal() -> None:
    [_, line] = plain(pod_lines([PodRow(name="a\x1b[2J", namespace="b\nc", qos="LS")]))
    assert line.startswith("b c/a�[2J")


class Terminal:
    """koordctl on a terminal of its own."""

    def __init__(self, *flags: str) -> None:
        self.keyboard, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (20, 100))
        self.program = subprocess.Popen([*LIVE, *flags], stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        self.seen = ""

    def until(self, words: str) -> None:
        deadline = time.monotonic() + PATIENCE
        self.seen = ""
        while words not in self.seen:
            assert time.monotonic() < deadline, self.seen
            ready, _, _ = select.select([self.keyboard], [], [], 0.2)
            if ready:
                try:
                    self.seen += os.read(self.keyboard, 65536).decode(errors="replace")
                except OSError:  # it has ended
                    assert words in self.seen, self.seen
                    return

    def press(self, key: str) -> None:
        os.write(self.keyboard, key.encode())

    def close(self) -> int:
        self.program.terminate()
        os.close(self.keyboard)
        return self.program.wait(PATIENCE)


@pytest.mark.parametrize("no_color", ["", "1"])
def test_once_on_a_terminal(
    koordlet: str, monkeypatch: pytest.MonkeyPatch, *, no_color: str
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", no_color)
    terminal = Terminal("--once", "--address", koordlet)
    try:
        terminal.until("THROTTLED")
        assert ("\x1b[1mCLASS" in terminal.seen) != bool(no_color)
    finally:
        terminal.close()


@pytest.mark.parametrize("end", ["q", "Ctrl-C"])
def test_live(koordlet: str, end: str) -> None:
    terminal = Terminal("--address", koordlet)
    try:
        terminal.until("sorted by cpu")
        assert "\x1b[?1049h" in terminal.seen
        assert "more below" in terminal.seen
        terminal.press("xm")
        terminal.until("sorted by memory")
        lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.seen).splitlines()
        assert max(map(len, lines)) <= 100
        if end == "q":
            terminal.press("q")
        else:
            terminal.program.send_signal(signal.SIGINT)
        terminal.until("\x1b[?25h\x1b[?1049l")
        assert "Traceback" not in terminal.seen
        assert terminal.program.wait(PATIENCE) == 0
    finally:
        terminal.close()


def test_live_through_a_restart_of_koordlet(tmp_path: Path) -> None:
    address = f"unix://{tmp_path}/s"

    def serve(node: ObservedNode) -> StatusServer:
        server = StatusServer(address, pages(node.observed()))
        server.start()
        return server

    server = serve(busy_node(60))
    terminal = Terminal("--address", address)
    try:
        terminal.until("sorted by cpu")
        server.stop()
        terminal.press("t")
        terminal.until("no answer from")
        assert "orders-db-0" in terminal.seen, "what was seen last stays"
        server = serve(busy_node(60))
        terminal.press("c")
        terminal.until("sorted by cpu")
        terminal.press("q")
        terminal.until("\x1b[?1049l")
    finally:
        server.stop()
        terminal.close()
