"""The loop: look at the PCI bus, ask the vendors, merge what they answer, have it written down."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from queue import Empty, SimpleQueue

from koord_host.devices import pci
from koord_host.devices.pci import PCIFunction
from koord_host.devices.rdma import RDMAReader
from koord_host.kernel_files.interface import FileTree
from koord_model.node_info import RDMADevices
from koord_service import logs, systemd
from koord_service.log_deduplicator import LogDeduplicator

from koord_devices.config import DeviceDaemonSettings
from koord_devices.contract import AnyVendor, NodeAccess
from koord_devices.core.inventory import VendorState, answered, failed
from koord_devices.prober import Answer, Event, Prober, Stop, Wake
from koord_devices.publisher import OnLabels, Publisher
from koord_devices.report import Report

RETRY_SECONDS = 60.0
"""Until a vendor that failed is asked again."""
PATIENCE_SECONDS = 5.0
"""Time to wait for a vendor that has not answered before the others' devices are written."""
SETTLE_SECONDS = 2.0
"""After an event of the kernel: a driver needs a moment, and events come in crowds."""

_NEVER = float("inf")
_LONGEST_WAIT = 3600.0

log = logs.get_log("koord_devices")


class Daemon:
    """Looks at devices once or until it is stopped; ``events`` say what happened meanwhile."""

    def __init__(
        self,
        settings: DeviceDaemonSettings,
        tree: FileTree,
        vendors: Mapping[str, AnyVendor],
        make_node: Callable[[], NodeAccess],
        on_labels: OnLabels | None = None,
    ) -> None:
        self.settings = settings
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.report = Report()
        self._tree = tree
        self._vendors = vendors
        self._rdma = RDMAReader(tree, settings.sys_fs_root_dir)
        self._prober = Prober(vendors, make_node, self.events, time.monotonic)
        self._publisher = Publisher(settings, on_labels)
        self._states: dict[str, VendorState] = {}
        self._answers: dict[str, Answer] = {}
        self._failures: dict[str, int] = {}
        self._deadlines: dict[str, float] = {}
        self._logged = LogDeduplicator()
        self._changed = True

    def run(self) -> int:
        """Look until asked to stop, or once; the exit status.

        Once: 1 if a vendor did not answer, or the file cannot be written.
        """
        known = self._publisher.remembered()
        self._states = {name: state for name, state in known.items() if name in self._vendors}
        while self._round():
            pass
        ailing = any(state.error for state in self._states.values())
        return int(self.settings.oneshot and (ailing or bool(self.report.write_error)))

    def _round(self) -> bool:
        """Ask, and merge answers until the next round is due; False if this was the last."""
        began = time.monotonic()
        self._start()
        self._changed = True
        until = began + (_NEVER if self.settings.oneshot else self.settings.sleep_interval)
        while True:
            now = time.monotonic()
            self._give_up(now)
            if self._changed and (not self._deadlines or now >= began + PATIENCE_SECONDS):
                self._publish()
                until = min(until, now + self._pause())
            if self.settings.oneshot and not self._deadlines:
                return False
            if now >= until:
                return True
            waiting = [began + PATIENCE_SECONDS] if self._changed else []
            event = self._next(min(until, *waiting, *self._deadlines.values(), now + _beat()) - now)
            if isinstance(event, Stop):
                return False
            if isinstance(event, Answer):
                self._merge(event)
            elif isinstance(event, Wake):
                log.info("looks at the devices again", because=event.why)
                until = min(until, time.monotonic() + SETTLE_SECONDS)

    def _next(self, seconds: float) -> Event | None:
        systemd.notify("WATCHDOG=1")
        try:
            return self.events.get(timeout=min(max(seconds, 0.0), _LONGEST_WAIT))
        except Empty:
            return None

    def _pause(self) -> float:
        """Until the next round, if not a whole interval."""
        failing = any(state.error for state in self._states.values())
        return RETRY_SECONDS if failing and not self.settings.oneshot else _NEVER

    def _start(self) -> None:
        """Start the probes of the vendors that have a device, or had one."""
        functions = self._functions()
        for name, vendor in self._vendors.items():
            if name in self._deadlines:
                continue  # it is being asked
            try:
                own = [
                    function
                    for function in functions
                    if not function.virtual and vendor.owns(function)
                ]
            except Exception as error:
                line = " ".join(f"{type(error).__name__}: {error}".split())
                self._fail(name, "VendorFailed", line)
                continue
            if not own:
                if name in self._states:
                    self._states[name] = answered(self._states[name], (), time.time())
            elif self._prober.start(name, own):
                self._deadlines[name] = time.monotonic() + self.settings.probe_timeout
            else:
                self._fail(name, "Timeout", "its last probe still hangs")

    def _functions(self) -> list[PCIFunction]:
        try:
            return list(pci.functions(self._tree, self.settings.sys_fs_root_dir))
        except OSError as error:
            if self._logged.is_new("pci", str(error)):
                log.info("this node has no PCI bus", error=str(error))
            return []

    def _give_up(self, now: float) -> None:
        """Count vendors as hung whose time is over."""
        for name in [name for name, until in self._deadlines.items() if until <= now]:
            del self._deadlines[name]
            seconds = self.settings.probe_timeout
            self._fail(name, "Timeout", f"it has not answered for {seconds:g} s")

    def _merge(self, answer: Answer) -> None:
        """Take over an answer; also one that comes after it was given up."""
        self._deadlines.pop(answer.vendor, None)
        self._answers[answer.vendor] = answer
        if answer.reason:
            self._fail(answer.vendor, answer.reason, answer.error)
            return
        before = self._states.get(answer.vendor, VendorState())
        state = answered(before, answer.accelerators, answer.at)
        self._states[answer.vendor] = state
        self._changed = True
        for line in state.unnamed:
            if self._logged.is_new("unnamed", line):
                log.warning("left out a device that was never seen whole", device=line)

    def _fail(self, name: str, reason: str, error: str) -> None:
        self._failures[name] = self._failures.get(name, 0) + 1
        self._states[name] = failed(self._states.get(name, VendorState()), reason, error)
        self._changed = True
        if self._logged.is_new(name, reason, error):
            log.warning("vendor does not answer", vendor=name, reason=reason, error=error)

    def _publish(self) -> None:
        self._changed = False
        rdma, _ = self._rdma.read()
        report = Report(
            dict(self._states),
            dict(self._answers),
            dict(self._failures),
            rdma,
            dict(self._switches(rdma)),
            time.time(),
        )
        self.report = replace(report, write_error=self._publisher.publish(report))

    def _switches(self, rdma: RDMADevices) -> Iterator[tuple[str, str]]:
        for device in rdma.devices:
            try:
                place = pci.place(self._tree, self.settings.sys_fs_root_dir, device.bus)
            except (OSError, ValueError):
                continue  # it is being taken away
            yield device.bus, place.switch


def _beat() -> float:
    return systemd.watchdog_interval() or _NEVER
