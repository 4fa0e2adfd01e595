"""Traffic shaped for real: in a network namespace that a thread of the test is in."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from koord_host import host_traffic as netlink_module
from koord_host.host_traffic import HostTraffic, TrafficReport, run_command
from koord_host.network.classify import Classifier, CommandResult, FilterCommand, Iptables, Nft
from koord_host.planning.jobs import CancelToken
from koord_model.traffic import Traffic, TrafficClass, TrafficMember

from tests.support.processes import PATIENCE

T = TypeVar("T")
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000
M = 1_000_000
IPTABLES = ("iptables", "ip6tables", "iptables-restore", "ip6tables-restore", "ipset")


class Namespace:
    """A network of its own, with a mount table of its own, gone with its thread."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self.do(self._enter)

    def _enter(self) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET | CLONE_NEWNS) != 0:
            pytest.skip(f"no network namespace can be made: {os.strerror(ctypes.get_errno())}")
        assert libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0
        # Its neighbour discovery would be counted among the packets.
        ipv6 = Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
        if ipv6.exists():
            ipv6.write_text("1")

    def do(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call it in the namespace."""
        return self._thread.submit(function, *arguments).result(timeout=30)

    def run(self, *words: str) -> str:
        done = self.do(lambda: run_command(FilterCommand(words)))
        assert done.status == 0, (words, done.error)
        return done.output

    def close(self) -> None:
        self._thread.shutdown()


@pytest.fixture
def namespace() -> Iterator[Namespace]:
    pytest.importorskip("pyroute2", reason="needs pyroute2 (extra koordlet)")
    if os.geteuid() != 0:
        pytest.skip("needs root, for a network namespace")
    if not shutil.which("ip") or not shutil.which("tc"):
        pytest.skip("needs iproute2")
    made = Namespace()
    yield made
    made.close()


def veth(namespace: Namespace, name: str = "up0", metric: int = 100, number: int = 103) -> None:
    """An interface with a default route, its other end in the same namespace."""
    namespace.run("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}peer")
    for one in (name, f"{name}peer"):
        namespace.run("ip", "link", "set", one, "up")
    namespace.run("ip", "addr", "add", f"10.{number}.0.1/24", "dev", name)
    namespace.run("ip", "addr", "add", f"10.{number}.0.7/24", "dev", name)
    gateway = f"10.{number}.0.2"
    namespace.run("ip", "neigh", "add", gateway, "lladdr", "02:00:00:00:00:02", "dev", name)
    namespace.run(
        "ip", "route", "add", "default", "via", gateway, "dev", name, "metric", str(metric)
    )


@pytest.fixture
def node(namespace: Namespace) -> Namespace:
    veth(namespace)
    probe = namespace.do(
        run_command,
        FilterCommand(("tc", "qdisc", "add", "dev", "up0", "root", "handle", "9:", "htb")),
    )
    if probe.status != 0:
        pytest.skip(f"the kernel has no HTB (module sch_htb): {probe.error.strip()}")
    namespace.run("tc", "qdisc", "del", "dev", "up0", "root")
    return namespace


def traffic(
    *more: TrafficClass, ls: int = 40 * M, members: tuple[TrafficMember, ...] = ()
) -> Traffic:
    return Traffic(
        100 * M,
        (
            TrafficClass("system", 2, 1, 30 * M, 100 * M, default=True),
            TrafficClass("ls", 3, 2, ls, 80 * M, members=members),
            TrafficClass("be", 4, 3, 20 * M, 50 * M),
            *more,
        ),
    )


class Recorder:
    def __init__(self) -> None:
        self.lines: list[tuple[str, str, str, str]] = []

    def __call__(self, what: str, old: str, new: str, why: str) -> None:
        self.lines.append((what, old, new, why))


class Silent:
    """No packet filter at all."""

    name = "silent"

    def reading(self) -> tuple[FilterCommand, ...]:
        return ()

    def plan(self, rules: object, found: object) -> tuple[FilterCommand, ...]:
        return ()

    def removal(self, found: object) -> tuple[FilterCommand, ...]:
        return ()


def host(record: Recorder, classifier: Classifier | None = None, **more: Any) -> HostTraffic:
    return HostTraffic(record, classifier=classifier or Silent(), **more)


def classes(namespace: Namespace, interface: str = "up0") -> set[str]:
    """Each class as tc shows it, without burst."""
    lines = namespace.run("tc", "class", "show", "dev", interface).splitlines()
    return {line.split(" burst")[0].removeprefix("class htb ") for line in lines}


EXPECTED = {
    "1:1 root rate 100Mbit ceil 100Mbit",
    "1:2 parent 1:1 prio 1 rate 30Mbit ceil 100Mbit",
    "1:3 parent 1:1 prio 2 rate 40Mbit ceil 80Mbit",
    "1:4 parent 1:1 prio 3 rate 20Mbit ceil 50Mbit",
}


def test_classes_are_made_once_and_reported(node: Namespace) -> None:
    record = Recorder()
    shaped = host(record)
    assert node.do(shaped.reconcile, traffic(), "netQOSPolicy tc") == TrafficReport("up0", 5)
    assert classes(node) == EXPECTED
    assert "qdisc htb 1: root" in node.run("tc", "qdisc", "show", "dev", "up0")
    assert record.lines[0] == (
        "qdisc on up0",
        "noqueue 0: default 0",
        "htb 1: default 2",
        "netQOSPolicy tc",
    )
    assert record.lines[3] == (
        "class 1:3 on up0",
        "",
        "parent 1:1 prio 2 rate 40000000bit ceil 80000000bit",
        "netQOSPolicy tc",
    )
    assert node.do(shaped.reconcile, traffic()) == TrafficReport("up0", 0)
    assert node.do(host(record).reconcile, traffic()) == TrafficReport("up0", 0), (
        "nor after a restart"
    )
    assert len(record.lines) == 5


def test_what_changed_is_changed_and_what_is_not_wanted_goes(node: Namespace) -> None:
    record = Recorder()
    shaped = host(record)
    own = TrafficClass("pod shop/db", 0xBEEF, 2, 8000, 5 * M)
    assert node.do(shaped.reconcile, traffic(own)).changed == 6
    assert "1:beef parent 1:1 prio 2 rate 8Kbit ceil 5Mbit" in classes(node)
    before = len(record.lines)
    assert node.do(shaped.reconcile, traffic(ls=35 * M)) == TrafficReport("up0", 2)
    assert [line[:2] for line in record.lines[before:]] == [
        ("class 1:beef on up0", "parent 1:1 prio 2 rate 8000bit ceil 5000000bit"),
        ("class 1:3 on up0", "parent 1:1 prio 2 rate 40000000bit ceil 80000000bit"),
    ]
    assert "1:3 parent 1:1 prio 2 rate 35Mbit ceil 80Mbit" in classes(node)
    assert not any(one.startswith("1:beef") for one in classes(node))


def test_faster_than_thirty_two_bits_can_say(node: Namespace) -> None:
    fast = Traffic(400_000 * M, (TrafficClass("system", 2, 1, 400_000 * M, 400_000 * M),))
    shaped = host(Recorder())
    assert node.do(shaped.reconcile, fast) == TrafficReport("up0", 3)
    assert "1:2 parent 1:1 prio 1 rate 400Gbit ceil 400Gbit" in classes(node)
    assert node.do(shaped.reconcile, fast) == TrafficReport("up0", 0)


def test_undone_the_kernels_own_qdisc_is_back(node: Namespace) -> None:
    before = node.run("tc", "qdisc", "show", "dev", "up0")
    record = Recorder()
    shaped = host(record)
    node.do(shaped.reconcile, traffic())
    assert node.do(shaped.reconcile, None, "koordlet stops") == TrafficReport("up0", 1)
    assert record.lines[-1] == ("qdisc on up0", "htb 1: default 2", "", "koordlet stops")
    assert node.run("tc", "qdisc", "show", "dev", "up0") == before
    assert node.do(shaped.reconcile, None) == TrafficReport()


@pytest.mark.parametrize(
    "words", ["handle 1: htb default 30", "tbf rate 1mbit burst 9k latency 1s"]
)
def test_what_somebody_chose_is_left_alone(node: Namespace, words: str) -> None:
    node.run("tc", "qdisc", "add", "dev", "up0", "root", *words.split())
    before = node.run("tc", "qdisc", "show", "dev", "up0")
    record = Recorder()
    [error] = node.do(host(record).reconcile, traffic()).errors
    assert "not made by pykoord" in error
    assert node.do(host(record).reconcile, None) == TrafficReport()
    assert node.run("tc", "qdisc", "show", "dev", "up0") == before
    assert record.lines == []


def test_the_default_route_moves_and_the_classes_with_it(node: Namespace) -> None:
    veth(node, "second", metric=50, number=104)
    shaped = host(Recorder())
    assert node.do(shaped.reconcile, traffic()).interface == "second", "it has the better metric"
    node.run("ip", "route", "del", "default", "dev", "second")
    assert node.do(shaped.reconcile, traffic()) == TrafficReport("up0", 6)
    assert classes(node, "second") == set()
    assert classes(node) == EXPECTED
    node.run("ip", "link", "del", "up0")
    assert node.do(shaped.reconcile, traffic()).errors == [
        "no interface has the default route (traffic is not shaped)"
    ]
    node.run("ip", "route", "add", "default", "dev", "second")
    assert node.do(shaped.reconcile, traffic()) == TrafficReport("second", 5)


def test_a_missing_kernel_module_is_reported_and_the_rest_is_done(node: Namespace) -> None:
    shaped = host(Recorder(), net_cls=True)
    report = node.do(shaped.reconcile, traffic())
    filters = node.run("tc", "filter", "show", "dev", "up0", "parent", "1:")
    if "cgroup" in filters:
        assert report == TrafficReport("up0", 6)
        assert node.do(shaped.reconcile, traffic()) == TrafficReport("up0", 0)
    else:
        [error] = report.errors
        assert error.startswith("filter on up0: add: [Errno 2]")
        assert "cls_cgroup" in error
        assert report.changed == 5


def test_without_a_packet_filter_it_says_so(
    node: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    shaped = HostTraffic(Recorder())
    [error] = node.do(shaped.reconcile, traffic()).errors
    assert error.startswith("neither nft nor iptables with ipset is installed")
    assert node.do(shaped.reconcile, None) == TrafficReport("up0", 1)


def test_a_program_that_fails_is_reported_in_its_words(node: Namespace) -> None:
    def run(*_: object) -> CommandResult:
        return CommandResult(1, error="Error: Could not process rule:\n  Operation not permitted\n")

    report = node.do(host(Recorder(), Nft(), run=run).reconcile, traffic())
    [error] = report.errors
    assert error.startswith("nft -f -: Error: Could not process rule: Operation not permitted (")


def test_it_works_where_uvloop_is_everybodys_event_loop(
    node: Namespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    uvloop = pytest.importorskip("uvloop")
    monkeypatch.setattr("asyncio.new_event_loop", uvloop.new_event_loop)
    assert node.do(host(Recorder()).reconcile, traffic()) == TrafficReport("up0", 5)
    gc.collect()  # what is left open warns


def test_without_pyroute2_it_says_so(namespace: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyroute2", None)
    [error] = namespace.do(host(Recorder()).reconcile, traffic()).errors
    assert error.startswith("pyroute2 cannot be loaded: ")


def test_a_program_that_is_not_there_has_failed() -> None:
    answer = run_command(FilterCommand(("/nonexistent/nft",)))
    assert answer.status != 0
    assert "/nonexistent/nft" in answer.error


class TestStopping:
    """A program that hangs is killed when it is to stop."""

    HANGS = FilterCommand(("sh", "-c", "echo begun >&2; exec sleep 1000"))

    @staticmethod
    def alive(words: str) -> bool:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                found.append(path.read_bytes().replace(b"\0", b" "))
        return any(words.encode() in one for one in found)

    def test_one_that_runs_is_killed_when_it_is_cancelled(self) -> None:
        token = CancelToken(time.monotonic, 1000.0)
        command = FilterCommand(("sleep", "987654"))
        with ThreadPoolExecutor(1) as thread:
            answer = thread.submit(run_command, command, token)
            while not self.alive("sleep 987654"):
                time.sleep(0.01)
            token.cancel()
            assert answer.result(PATIENCE) == CommandResult(1, error="killed: it was cancelled")
        assert not self.alive("sleep 987654")

    @pytest.mark.parametrize(("deadline", "most"), [(0.2, 10.0), (1000.0, 0.2)])
    def test_or_at_the_deadline_or_after_ten_seconds_whatever_that_is(
        self, monkeypatch: pytest.MonkeyPatch, deadline: float, most: float
    ) -> None:
        monkeypatch.setattr(netlink_module, "_COMMAND_SECONDS", most)
        answer = run_command(self.HANGS, CancelToken(time.monotonic, deadline))
        assert answer == CommandResult(1, error="killed: it took longer than 0.2 s")

    def test_one_whose_child_has_its_output_is_not_waited_for(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(netlink_module, "_KILLED_SECONDS", 0.1)
        token = CancelToken(time.monotonic, 0.5)
        answer = run_command(FilterCommand(("sh", "-c", "sleep 5; true")), token)
        assert answer.error == "killed: it took longer than 0.5 s"

    @pytest.mark.parametrize("words", [("cat",), ("sh", "-c", "sleep 0.3; cat")])
    def test_what_is_said_and_read_is_whole(self, words: tuple[str, ...]) -> None:
        text = "x" * (1 << 20)
        assert run_command(FilterCommand(words, text)) == CommandResult(0, text)

    def test_no_program_is_started_and_no_class_changed_after_that(
        self, node: Namespace, tmp_path: Path
    ) -> None:
        token = CancelToken(time.monotonic, 1000.0)
        token.cancel()
        answer = run_command(FilterCommand(("touch", str(tmp_path / "file"))), token)
        assert answer.error == "not run: it was cancelled"
        assert not (tmp_path / "file").exists()
        report = node.do(host(Recorder()).reconcile, traffic(), "", token)
        assert report.changed == 0
        assert report.errors == ["qdisc on up0: not changed: it was cancelled"]
        assert node.do(host(Recorder()).reconcile, traffic()).changed == 5


class TestPackets:
    """Packets sent for real are counted in the class they are wanted in."""

    @pytest.fixture(params=[Nft, Iptables], ids=["nft", "iptables"])
    def classifier(self, node: Namespace, request: pytest.FixtureRequest) -> Classifier:
        for program in ("nft",) if request.param is Nft else IPTABLES:
            if shutil.which(program) is None:
                pytest.skip(f"needs {program}")
        made: Classifier = request.param()
        return made

    def test_an_address_decides(self, node: Namespace, classifier: Classifier) -> None:
        record = Recorder()
        shaped = host(record, classifier)
        member = TrafficMember("shop/db", "10.103.0.7", "kubepods/pod1")
        wanted = traffic(members=(member,))
        report = node.do(shaped.reconcile, wanted, "a pod came")
        assert report.errors == []
        assert node.do(shaped.reconcile, wanted) == TrafficReport("up0", 0)
        before = sent(node)
        node.do(send, "10.103.0.7", 20)
        node.do(send, "10.103.0.1", 3)
        after = sent(node)
        assert after["1:3"] - before["1:3"] == 20
        assert after["1:2"] - before["1:2"] == 3

        # Another class for the pod: the rules are made anew.
        own = TrafficClass("pod shop/db", 0xBEEF, 2, 8000, 50 * M, members=(member,))
        assert node.do(shaped.reconcile, traffic(own)).errors == []
        assert node.do(shaped.reconcile, traffic(own)) == TrafficReport("up0", 0)
        node.do(send, "10.103.0.7", 5)
        assert sent(node)["1:beef"] == 5
        assert sent(node)["1:3"] == after["1:3"]

    def test_a_cgroup_decides(self, node: Namespace, classifier: Classifier) -> None:
        root = node.do(v2_cgroups)
        group = root / "pykoord-test-traffic"
        node.do(lambda: (group / "pod1").mkdir(parents=True))
        try:
            member = TrafficMember("kube-system/proxy", "", "pykoord-test-traffic/pod1")
            gone = TrafficMember("kube-system/gone", "", "pykoord-test-traffic/pod2")
            shaped = host(Recorder(), classifier, cgroup_root=str(root))
            report = node.do(shaped.reconcile, traffic(members=(member, gone)))
            assert report.errors == []
            before = sent(node)
            node.do(send_from_cgroup, group / "pod1", 7)
            node.do(send, "10.103.0.1", 3)
            after = sent(node)
            assert after["1:3"] - before["1:3"] == 7
            assert after["1:2"] - before["1:2"] == 3
        finally:
            node.do((group / "pod1").rmdir)
            node.do(group.rmdir)

    def test_undone_nothing_of_ours_is_left(self, node: Namespace, classifier: Classifier) -> None:
        shaped = host(Recorder(), classifier)
        members = (
            TrafficMember("shop/db", "10.103.0.7", "kubepods/pod1"),
            TrafficMember("shop/six", "fd00::7", "kubepods/pod2"),
        )
        assert node.do(shaped.reconcile, traffic(members=members)).errors == []
        restarted = host(Recorder(), classifier)
        undone = node.do(restarted.reconcile, None)
        assert undone.errors == []
        assert undone.changed > 1
        assert classes(node) == set()
        if isinstance(classifier, Nft):
            assert "pykoord" not in node.run("nft", "list", "ruleset")
        else:
            assert "PYKOORD" not in node.run("iptables", "-t", "mangle", "-S")
            assert "PYKOORD" not in node.run("ip6tables", "-t", "mangle", "-S")
            assert node.run("ipset", "list", "-n") == ""
        assert node.do(restarted.reconcile, None) == TrafficReport()


def sent(namespace: Namespace) -> dict[str, int]:
    """Packets sent by class."""
    lines = namespace.run("tc", "-s", "class", "show", "dev", "up0").splitlines()
    counted, name = {}, ""
    for line in lines:
        words = line.split()
        if words[:2] == ["class", "htb"]:
            name = words[2]
        elif words[:1] == ["Sent"]:
            counted[name] = int(words[3])
    return counted


def send(source: str, count: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.bind((source, 0))
        for _ in range(count):
            udp.sendto(b"x" * 100, ("192.0.2.1", 9))


def send_from_cgroup(group: Path, count: int) -> None:
    """A program that is in the group before it opens its socket."""
    script = (
        "import socket, sys; open(sys.argv[1] + '/cgroup.procs', 'w').write('0');"
        "udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM);"
        f"[udp.sendto(b'x', ('192.0.2.1', 9)) for _ in range({count})]"
    )
    subprocess.run([sys.executable, "-c", script, str(group)], check=True)


def v2_cgroups() -> Path:
    """The v2 hierarchy at /sys/fs/cgroup, as nft wants it: here, in our own mount table."""
    root = Path("/sys/fs/cgroup")
    if not (root / "cgroup.controllers").exists():
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.mount(b"cgroup2", bytes(root), b"cgroup2", 0, None) != 0:
            pytest.skip(f"no v2 cgroups: {os.strerror(ctypes.get_errno())}")
    return root
