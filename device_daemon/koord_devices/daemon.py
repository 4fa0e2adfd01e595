"""The loop: look at the PCI bus, ask the vendors, write down what is known."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue

from koord_host.devices import pci
from koord_host.devices.pci import PCIFunction
from koord_host.devices.rdma import RDMAReader
from koord_host.kernel_files.interface import FileTree
from koord_model.node_info import RDMADevices
from koord_service import logs, systemd
from koord_service.log_deduplicator import LogDeduplicator
from koord_service.whole_file import write_whole

from koord_devices.config import DeviceDaemonSettings
from koord_devices.contract import AnyVendor, NodeAccess
from koord_devices.core.accelerator import Accelerator
from koord_devices.core.document import Document, Expiry, document, encode, states_of
from koord_devices.core.inventory import VendorState, answered, failed
from koord_devices.core.labels import features, labels
from koord_devices.core.table import table
from koord_devices.prober import Answer, Event, Prober, Stop

RETRY_SECONDS = 60.0
"""Until a vendor that failed is asked again."""
SETTLE_SECONDS = 2.0
"""After an event of the kernel: a driver needs a moment, and events come in crowds."""
HOLDS_FOR_ROUNDS = 3
"""After so many intervals nobody has confirmed the file, and koordlet no longer believes it."""

log = logs.get_log("koord_devices")


@dataclass(slots=True)
class Report:
    """What the daemon knows, for its pages; replaced whole after each change."""

    states: Mapping[str, VendorState] = field(default_factory=dict)
    answers: Mapping[str, Answer] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)
    rdma: RDMADevices = field(default_factory=lambda: RDMADevices(()))
    switches: Mapping[str, str] = field(default_factory=dict)
    """Of RDMA devices the switch that each is behind, by address."""
    written_at: float = 0.0
    write_error: str = ""

    @property
    def accelerators(self) -> list[Accelerator]:
        """All of all vendors."""
        return [one for name in sorted(self.states) for one in self.states[name].accelerators]


class Daemon:
    """Looks at devices once or until it is stopped.

    ``events`` are those of ``prober``. ``on_labels`` gets the node's labels when they change.
    """

    def __init__(
        self,
        settings: DeviceDaemonSettings,
        tree: FileTree,
        vendors: Mapping[str, AnyVendor],
        make_node: Callable[[], NodeAccess],
        on_labels: Callable[[Mapping[str, str]], None] | None = None,
    ) -> None:
        self.settings = settings
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.report = Report()
        self._tree = tree
        self._vendors = vendors
        self._rdma = RDMAReader(tree, settings.sys_fs_root_dir)
        self._prober = Prober(vendors, make_node, self.events, time.monotonic)
        self._states: dict[str, VendorState] = {}
        self._answers: dict[str, Answer] = {}
        self._failures: dict[str, int] = {}
        self._deadlines: dict[str, float] = {}
        self._logged = LogDeduplicator()
        self._printed = ""
        self._labels: dict[str, str] | None = None
        self._on_labels = on_labels

    def run(self) -> int:
        """Look until asked to stop, or once; the exit status.

        Once: 1 if a vendor did not answer, or the file cannot be written.
        """
        self._states = self._remembered()
        while self._look() and not self.settings.oneshot:
            if not self._rest():
                break
        ailing = any(state.error for state in self._states.values())
        return int(self.settings.oneshot and (ailing or bool(self.report.write_error)))

    def _look(self) -> bool:
        """One round; False if asked to stop meanwhile."""
        self._start()
        while self._deadlines:
            left = min(self._deadlines.values()) - time.monotonic()
            try:
                event = self.events.get(timeout=max(left, 0.0))
            except Empty:
                self._give_up()
                continue
            if isinstance(event, Stop):
                return False
            if isinstance(event, Answer):
                self._merge(event)
        self._publish()
        return True

    def _rest(self) -> bool:
        """Wait for the next round, or for an event; False if asked to stop."""
        until = time.monotonic() + self._pause()
        beat = systemd.watchdog_interval() or float("inf")
        while (left := until - time.monotonic()) > 0:
            systemd.notify("WATCHDOG=1")
            try:
                event = self.events.get(timeout=min(left, beat))
            except Empty:
                continue
            if isinstance(event, Stop):
                return False
            if isinstance(event, Answer):  # of one that was given up
                self._merge(event)
                self._publish()
            else:
                log.info("looks at the devices again", because=event.why)
                until = min(until, time.monotonic() + SETTLE_SECONDS)
        return True

    def _pause(self) -> float:
        failing = any(state.error for state in self._states.values())
        return min(self.settings.sleep_interval, RETRY_SECONDS if failing else float("inf"))

    def _start(self) -> None:
        """Start the probes of the vendors that have a device, or had one."""
        functions = self._functions()
        for name, vendor in self._vendors.items():
            try:
                own = [one for one in functions if not one.virtual and vendor.owns(one)]
            except Exception as error:
                self._fail(
                    name, "VendorFailed", " ".join(f"{type(error).__name__}: {error}".split())
                )
                continue
            if own:
                if not self._prober.start(name, own):
                    self._fail(name, "Timeout", "its last probe still hangs")
                    continue
                self._deadlines[name] = time.monotonic() + self.settings.probe_timeout
            elif name in self._states:
                self._states[name] = answered(self._states[name], (), time.time())

    def _functions(self) -> list[PCIFunction]:
        try:
            return list(pci.functions(self._tree, self.settings.sys_fs_root_dir))
        except OSError as error:
            if self._logged.is_new("pci", str(error)):
                log.info("this node has no PCI bus", error=str(error))
            return []

    def _give_up(self) -> None:
        """Count vendors as hung whose time is over."""
        now = time.monotonic()
        for name in [name for name, until in self._deadlines.items() if until <= now]:
            del self._deadlines[name]
            seconds = self.settings.probe_timeout
            self._fail(name, "Timeout", f"it has not answered for {seconds:g} s")

    def _merge(self, answer: Answer) -> None:
        self._deadlines.pop(answer.vendor, None)
        self._answers[answer.vendor] = answer
        if answer.reason:
            self._fail(answer.vendor, answer.reason, answer.error)
            return
        state = answered(
            self._states.get(answer.vendor, VendorState()), answer.accelerators, answer.at
        )
        self._states[answer.vendor] = state
        for line in state.unnamed:
            if self._logged.is_new("unnamed", line):
                log.warning("left out a device that was never seen whole", device=line)

    def _fail(self, name: str, reason: str, error: str) -> None:
        self._failures[name] = self._failures.get(name, 0) + 1
        self._states[name] = failed(self._states.get(name, VendorState()), reason, error)
        if self._logged.is_new(name, reason, error):
            log.warning("vendor does not answer", vendor=name, reason=reason, error=error)

    def _publish(self) -> None:
        """Write what is known, where anything is, or was."""
        rdma, _ = self._rdma.read()
        now = time.time()
        holds = HOLDS_FOR_ROUNDS * self.settings.sleep_interval
        expiry = None if self.settings.no_timestamp else Expiry(now, holds)
        report = Report(
            dict(self._states),
            dict(self._answers),
            dict(self._failures),
            rdma,
            dict(self._switches(rdma)),
            now,
        )
        try:
            self._write(document(self._states, expiry))
            self._label(report, expiry)
        except OSError as error:
            report.write_error = f"{error.filename}: {error.strerror}"
            log.error("cannot write", file=error.filename, error=error.strerror)
        self._print(report)
        self.report = report

    def _switches(self, rdma: RDMADevices) -> Iterator[tuple[str, str]]:
        for one in rdma.devices:
            try:
                place = pci.place(self._tree, self.settings.sys_fs_root_dir, one.bus)
            except (OSError, ValueError):
                continue  # it is being taken away
            yield one.bus, place.switch

    def _write(self, found: Document) -> None:
        if not found or not self.settings.prints_output_file:
            return
        path = Path(self.settings.prints_output_file)
        # Koordinator's koordlet reads each file of the directory, so a part is none of them.
        write_whole(
            path,
            encode(found),
            mode=0o644,
            directory_mode=0o755,
            sync=False,
            part=path.parent / f"{path.name}-tmp" / path.name,
        )

    def _label(self, report: Report, expiry: Expiry | None) -> None:
        found = labels(report.accelerators, len(report.rdma.devices))
        if self.settings.features_file and (found or self._labels):
            text = features(found, expiry).encode()
            path = Path(self.settings.features_file)
            write_whole(path, text, mode=0o644, directory_mode=None, sync=False)
        if self._on_labels is not None and found != self._labels:
            self._on_labels(found)
        self._labels = found

    def _print(self, report: Report) -> None:
        form = self.settings.format or ("" if self.settings.prints_output_file else "json")
        if form == "table":
            text = table(report.accelerators, report.rdma, report.switches)
        else:
            text = encode(document(report.states, None)).decode() if form else ""
        if text != self._printed:
            sys.stdout.write(text)
            sys.stdout.flush()
        self._printed = text

    def _remembered(self) -> dict[str, VendorState]:
        """What the file says that an earlier run left."""
        if not self.settings.prints_output_file:
            return {}
        try:
            text = Path(self.settings.prints_output_file).read_bytes()
        except OSError:
            return {}
        found = states_of(text, "NotFound", "its vendor is not asked any more")
        return {name: state for name, state in found.items() if name in self._vendors}
