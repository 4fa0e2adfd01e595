"""Shaping the traffic of the interface with the default route: the IO.

Speaks netlink through pyroute2, and runs the packet filter's programs. Calls block, and
want a thread that runs no event loop; each opens what it needs and leaves nothing open. Between
two steps they can be stopped, and so can a program that runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from asyncio import SelectorEventLoop
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from koord_model.traffic import DEFAULT_MINOR, MAJOR, Traffic, handle

from koord_host.network.classify import (
    Classifier,
    CommandResult,
    FilterCommand,
    FilterRules,
    choose,
    rules_of,
)
from koord_host.network.traffic import (
    ROOT,
    HTBClass,
    InterfaceShaping,
    Qdisc,
    TrafficChange,
    TrafficObject,
    TrafficVerb,
    changes,
    refusal,
    undoing,
)
from koord_host.planning.jobs import CancelToken, uncancelled

Record = Callable[[str, str, str, str], None]
"""Called for each change: what, the old value, the new one, why."""

_COMMAND_SECONDS = 10.0
_ASK_SECONDS = 0.1
"""Between two checks whether a running program is to be stopped."""
_KILLED_SECONDS = 1.0
"""A program that was killed is waited for so long: it may hang in the kernel."""
_CGROUP_ROOT = "/sys/fs/cgroup"

_TO_ROOT = 0xFFFFFFFF  # TC_H_ROOT: the parent of a root qdisc, and of a class below none
_FILTER_INFO = 1 << 16 | 0x0300  # priority 1; ETH_P_ALL in network byte order
_MOST_QUANTUM = 200_000  # bytes; the kernel complains about more
_LEAST_QUANTUM = 1600  # one packet of an Ethernet


@dataclass(slots=True)
class TrafficReport:
    """Result of traffic shaping: number of changes, and lines about those that failed.

    ``interface`` is "" where none was found. ``errors`` are about the node, ``ignored``
    about pods.
    """

    interface: str = ""
    changed: int = 0
    errors: list[str] = field(default_factory=list)
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NetworkInterface:
    """A network interface."""

    index: int
    name: str


class HostTraffic:
    """The traffic classes of this host, brought to what is wanted.

    ``net_cls`` is whether cgroups have ``net_cls.classid`` here (v1). ``cgroup_root`` is
    where v2 cgroups are; nft itself expects them at /sys/fs/cgroup. ``classifier``
    is found out where it is not given.
    """

    def __init__(
        self,
        record: Record,
        *,
        net_cls: bool = False,
        cgroup_root: str = _CGROUP_ROOT,
        classifier: Classifier | None = None,
        run: Callable[[FilterCommand, CancelToken], CommandResult] | None = None,
    ) -> None:
        self._record = record
        self._net_cls = net_cls
        self._cgroup_root = Path(cgroup_root)
        self._classifier = classifier or choose(lambda name: shutil.which(name) is not None)
        self._run_command = run or run_command
        self._cancel = uncancelled()
        self._shaped: NetworkInterface | None = None

    def reconcile(
        self, wanted: Traffic | None, why: str = "", cancel: CancelToken | None = None
    ) -> TrafficReport:
        """Bring the host to these classes, or for ``None`` to nothing of ours; again does nothing.

        What was made on an interface that has lost the default route since is taken
        back; after a restart, what was made before is known by the packet filter's
        rules. What the kernel or a program refuses is a line in the report, and so is
        what was not done because it was cancelled.
        """
        self._cancel = cancel or uncancelled()
        report = TrafficReport()
        if wanted is None and self._shaped is None and not self._removal():
            return report
        try:
            with _netlink() as netlink:
                interface = netlink.default_interface()
                report.interface = interface.name if interface else ""
                if wanted is None:
                    self._undo(netlink, interface, why, report)
                else:
                    self._shape(netlink, interface, wanted, why, report)
        except ImportError as error:
            report.errors.append(f"pyroute2 cannot be loaded: {error} (traffic is not shaped)")
        except OSError as error:
            report.errors.append(f"netlink: {error} (traffic is not shaped)")
        return report

    def _shape(
        self,
        netlink: _Netlink,
        interface: NetworkInterface | None,
        wanted: Traffic,
        why: str,
        report: TrafficReport,
    ) -> None:
        if interface is None:
            report.errors.append("no interface has the default route (traffic is not shaped)")
            return
        if self._shaped not in (None, interface):
            self._leave(netlink, self._shaped, "it has no default route now", report)
        found = netlink.shaping(interface)
        if refused := refusal(found.root, interface.name):
            report.errors.append(refused)
            return
        self._shaped = interface
        planned = changes(wanted, found, by_cgroup=self._net_cls)
        if self._apply(netlink, interface, planned, why, report):
            self._classify(wanted, why, report)

    def _undo(
        self, netlink: _Netlink, interface: NetworkInterface | None, why: str, report: TrafficReport
    ) -> None:
        for shaped in {interface, self._shaped}:
            self._leave(netlink, shaped, why, report)
        self._execute(self._removal(), "none", why, report)

    def _removal(self) -> Sequence[FilterCommand]:
        """The commands that leave no rules of ours; none where there are none."""
        if self._classifier is None:
            return ()
        found = [self._run(command) for command in self._classifier.reading()]
        return self._classifier.removal(found)

    def _leave(
        self, netlink: _Netlink, interface: NetworkInterface | None, why: str, report: TrafficReport
    ) -> None:
        if interface is None:
            return
        try:
            found = netlink.shaping(interface)
        except OSError:
            found = None  # the interface is gone, and its classes with it
        if found is None or self._apply(netlink, interface, undoing(found), why, report):
            self._shaped = None if self._shaped == interface else self._shaped

    def _apply(
        self,
        netlink: _Netlink,
        interface: NetworkInterface,
        planned: Sequence[TrafficChange],
        why: str,
        report: TrafficReport,
    ) -> bool:
        """Make the changes; whether the classes are there then."""
        for change in planned:
            subject = f"{change.subject} on {interface.name}"
            if self._cancel.cancelled():
                report.errors.append(f"{subject}: not changed: {self._cancel.reason}")
                return False
            try:
                netlink.apply(interface, change)
            except OSError as error:
                report.errors.append(f"{subject}: {change.verb}: {error}{_way_out(change)}")
                return change.kind is TrafficObject.FILTER
            report.changed += 1
            self._record(subject, _shown(change.found), _shown(change.wanted), why)
        return True

    def _classify(self, wanted: Traffic, why: str, report: TrafficReport) -> None:
        rules = rules_of(wanted, self._identity())
        report.ignored = rules.ignored
        if self._classifier is None:
            report.errors.append(
                "neither nft nor iptables with ipset is installed; expected one of them"
                " (packets of pods stay in the default class)"
            )
            return
        found = [self._run(command) for command in self._classifier.reading()]
        self._execute(self._classifier.plan(rules, found), _counted(rules), why, report)

    def _execute(
        self, commands: Sequence[FilterCommand], shown: str, why: str, report: TrafficReport
    ) -> None:
        for command in commands:
            answer = self._run(command)
            if answer.status != 0:
                reason = " ".join(answer.error.split()) or f"ended with {answer.status}"
                report.errors.append(f"{command}: {reason} (packets are not classified anew)")
                return
            report.changed += 1
            self._record(f"packet filter: {command}", "", shown, why)

    def _run(self, command: FilterCommand) -> CommandResult:
        return self._run_command(command, self._cancel)

    def _identity(self) -> Callable[[str], int] | None:
        root = self._cgroup_root
        if self._net_cls or not (root / "cgroup.controllers").exists():
            return None
        return lambda path: (root / path).stat().st_ino


def _shown(value: object) -> str:
    return "" if value is None else str(value)


def _counted(rules: FilterRules) -> str:
    addresses = sum(len(pairs) for pairs in rules.addresses.values())
    return f"{addresses} addresses, {len(rules.cgroups)} cgroups, mark {rules.mark}"


def _way_out(change: TrafficChange) -> str:
    if change.verb is TrafficVerb.ADD and change.kind is TrafficObject.QDISC:
        return "; is the kernel's module sch_htb there? (traffic is not shaped)"
    if change.kind is TrafficObject.FILTER:
        return (
            "; is the kernel's module cls_cgroup there? (pods on the host's network stay in the"
            " default class)"
        )
    return " (the next round tries again)"


def run_command(command: FilterCommand, cancel: CancelToken | None = None) -> CommandResult:
    """Run it, for ten seconds at most and until cancelled; what cannot be run has failed."""
    token = cancel or uncancelled()
    if token.cancelled():
        return CommandResult(1, error=f"not run: {token.reason}")
    pipe, given = subprocess.PIPE, _readable(command.text)
    try:
        program = subprocess.Popen(  # noqa: S603 - words are ours, not a shell's
            command.words, stdin=given, stdout=pipe, stderr=pipe, text=True
        )
    except OSError as error:
        return CommandResult(1, error=str(error))
    finally:
        os.close(given)
    return _answer(program, token)


def _readable(text: str) -> int:
    """A descriptor from which the text is read: ``communicate`` can be given input but once."""
    descriptor = os.memfd_create("input")
    data = text.encode()
    while data:
        data = data[os.write(descriptor, data) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _answer(program: subprocess.Popen[str], token: CancelToken) -> CommandResult:
    """Return a program's output, or the reason why it was killed."""
    until = time.monotonic() + _COMMAND_SECONDS
    while not token.cancelled():
        left = until - time.monotonic()
        if left <= 0:
            return _killed(program, f"it took longer than {_COMMAND_SECONDS:g} s")
        try:
            output, error = program.communicate(timeout=min(_ASK_SECONDS, left))
        except subprocess.TimeoutExpired:
            continue
        return CommandResult(program.returncode, output, error)
    return _killed(program, token.reason)


def _killed(program: subprocess.Popen[str], reason: str) -> CommandResult:
    program.kill()
    try:
        program.communicate(timeout=_KILLED_SECONDS)
    except subprocess.TimeoutExpired:
        # In the kernel, or a child of its own has what it writes to: nobody waits for that.
        for stream in (program.stdout, program.stderr):
            if stream is not None:
                stream.close()
        program.poll()
    return CommandResult(1, error=f"killed: {reason}")


@contextmanager
def _netlink() -> Iterator[_Netlink]:
    # Here, because it costs 23 MB, and most nodes shape no traffic.
    from pyroute2 import IPRoute

    _know_cgroup_filters()
    # Its own choice would be uvloop's where that is installed, which knows no netlink.
    with closing(SelectorEventLoop()) as loop:
        with IPRoute(use_event_loop=loop) as route:
            yield _Netlink(route)
        # One more turn, in which the transport lets go of its socket.
        loop.run_until_complete(loop.shutdown_asyncgens())


def _know_cgroup_filters() -> None:
    """Teach pyroute2 the one kind of filter that it lacks."""
    from pyroute2.netlink import nla
    from pyroute2.netlink.rtnl.tcmsg import plugins

    if "cgroup" in plugins:
        return

    class Options(nla):  # type: ignore[misc] # untyped
        nla_map = (
            ("TCA_CGROUP_UNSPEC", "none"),
            ("TCA_CGROUP_ACT", "hex"),
            ("TCA_CGROUP_POLICE", "hex"),
            ("TCA_CGROUP_EMATCHES", "hex"),
        )

    # All the kernel asks for is that there be options.
    plugins["cgroup"] = SimpleNamespace(
        options=Options, get_parameters=lambda _: {"attrs": []}, parent=ROOT
    )


@contextmanager
def _kernel_errors() -> Iterator[None]:
    """pyroute2's errors, as the errno they carry."""
    from pyroute2.netlink.exceptions import NetlinkError

    try:
        yield
    except NetlinkError as error:
        code = abs(error.code)
        raise OSError(code, os.strerror(code)) from None


class _Netlink:
    """Our requests to netlink; raises ``OSError`` with the kernel's errno."""

    def __init__(self, route: Any) -> None:
        self._route = route

    def default_interface(self) -> NetworkInterface | None:
        """The interface of the default route with the best metric, IPv4's before IPv6's."""
        from socket import AF_INET, AF_INET6

        with _kernel_errors():
            for family in (AF_INET, AF_INET6):
                routes = list(self._route.get_default_routes(family=family))
                found = [(route.get("priority") or 0, _outgoing(route)) for route in routes]
                for _, index in sorted(pair for pair in found if pair[1]):
                    [link] = self._route.get_links(index)
                    return NetworkInterface(index, link.get("ifname"))
        return None

    def shaping(self, interface: NetworkInterface) -> InterfaceShaping:
        """Return the interface's present shaping."""
        with _kernel_errors():
            root = self._root(interface.index)
            if root.handle != ROOT:
                return InterfaceShaping(root)
            classes = {
                htb_class["handle"] & 0xFFFF: _shape(htb_class)
                for htb_class in self._route.get_classes(interface.index)
                if htb_class["handle"] >> 16 == MAJOR and htb_class.get_attr("TCA_KIND") == "htb"
            }
            filters = self._route.get_filters(interface.index, parent=ROOT)
            by_cgroup = any(
                filter_.get_attr("TCA_KIND") == "cgroup" and filter_["handle"]
                for filter_ in filters
            )
        return InterfaceShaping(root, classes, by_cgroup)

    def _root(self, index: int) -> Qdisc:
        for qdisc in self._route.get_qdiscs(index):
            if qdisc["parent"] == _TO_ROOT:
                kind, default = qdisc.get_attr("TCA_KIND"), 0
                if kind == "htb":
                    default = qdisc.get_attr("TCA_OPTIONS").get_attr("TCA_HTB_INIT")["defcls"]
                return Qdisc(kind, qdisc["handle"], default)
        return Qdisc("none", 0)

    def apply(self, interface: NetworkInterface, change: TrafficChange) -> None:
        """Make one change."""
        with _kernel_errors():
            if change.kind is TrafficObject.QDISC:
                self._qdisc(interface.index, change.verb)
            elif change.kind is TrafficObject.FILTER:
                self._filter(interface.index)
            elif isinstance(change.wanted, HTBClass):
                self._class(interface.index, change.verb, change.minor, change.wanted)
            else:
                self._route.tc("del-class", index=interface.index, handle=handle(change.minor))

    def _qdisc(self, index: int, verb: TrafficVerb) -> None:
        if verb is TrafficVerb.DELETE:
            self._route.tc("del", index=index, handle=ROOT, parent=_TO_ROOT)
        else:
            self._route.tc("add", "htb", index, handle=ROOT, default=DEFAULT_MINOR)

    def _class(self, index: int, verb: TrafficVerb, minor: int, shape: HTBClass) -> None:
        self._route.tc(
            f"{verb}-class",
            "htb",
            index,
            handle=handle(minor),
            parent=handle(shape.parent),
            prio=shape.priority,
            rate=shape.rate,
            ceil=shape.ceil,
            burst=_burst(shape.rate),
            cburst=_burst(shape.ceil),
            quantum=min(max(shape.rate // 10, _LEAST_QUANTUM), _MOST_QUANTUM),
        )

    def _filter(self, index: int) -> None:
        self._route.tc("add-filter", "cgroup", index, handle=1, parent=ROOT, info=_FILTER_INFO)


def _outgoing(route: Any) -> int:
    """The index of a route's interface; of several, the first. 0 for none."""
    hops = route.get_attr("RTA_MULTIPATH") or ()
    return route.get_attr("RTA_OIF") or next((hop["oif"] for hop in hops), 0)


def _burst(rate: int) -> int:
    """Bytes that may go at once: a millisecond's, and a packet."""
    return rate // 1000 + _LEAST_QUANTUM


def _shape(htb_class: Any) -> HTBClass:
    options = htb_class.get_attr("TCA_OPTIONS")
    parms = options.get_attr("TCA_HTB_PARMS")
    # The older fields have 32 bits, and are full where that is not enough.
    return HTBClass(
        parent=0 if htb_class["parent"] == _TO_ROOT else htb_class["parent"] & 0xFFFF,
        priority=parms["prio"],
        rate=options.get_attr("TCA_HTB_RATE64") or parms["rate"],
        ceil=options.get_attr("TCA_HTB_CEIL64") or parms["ceil"],
    )
