"""koord-device-daemon: the parts put together, and the life of the process."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from koord_host.devices.gpu import APPLICATION_XIDS
from koord_host.kernel import KernelFilesystem
from koord_host.nvml import NVML
from koord_service import logs, memory, systemd
from koord_service.program_end import STOPPED, on_signals, program_end
from koord_service.settings import SettingsError

from koord_devices import vendor_table
from koord_devices.config import IGNORED, PROGRAM, DeviceDaemonSettings, settings
from koord_devices.contract import AnyVendor
from koord_devices.daemon import Daemon
from koord_devices.node import LocalNode
from koord_devices.prober import Stop, Wake
from koord_devices.uevents import UeventListener

log = logs.get_log("koord_devices")


def main() -> int:
    """The console script; the exit status."""
    with program_end(PROGRAM, log):
        return _run()


def _run() -> int:
    """Run with the settings as they are, and at SIGHUP anew."""
    while True:
        given = settings()
        vendors = vendor_table.load(given.vendors)
        logs.configure(given.log_format, given.log_level)
        IGNORED.report(log)
        program = Program(given, vendors)
        status = program.run()
        if not program.reload:
            if not given.oneshot:
                log.info(STOPPED)
            return status
        log.info("settings read again")


class Program:
    """One run of the daemon with the same settings."""

    def __init__(self, given: DeviceDaemonSettings, vendors: Mapping[str, AnyVendor]) -> None:
        self.reload = False
        self._settings = given
        self._gpus = NVML(on_xid=self._gpu_failed)
        self._tree = KernelFilesystem()
        label = self._label if given.node_labels else None
        self._daemon = Daemon(given, self._tree, vendors, self._node, label)

    def run(self) -> int:
        """Run until asked to stop; the exit status."""
        on_signals(self._stop, self._reload)
        with contextlib.ExitStack() as stack:
            stack.callback(self._gpus.close)
            if not self._settings.oneshot:
                self._listen(stack)
            memory.freeze_startup()
            systemd.notify("READY=1")
            status = self._daemon.run()
            systemd.notify("RELOADING=1" if self.reload else "STOPPING=1")
            return status

    def _listen(self, stack: contextlib.ExitStack) -> None:
        """Start to listen to the kernel, and to serve pages."""
        try:
            uevents = UeventListener(self._daemon.events)
            uevents.start()
            stack.callback(uevents.close)
        except OSError as error:
            log.warning("hears of new devices at the next interval only", error=str(error))
        if self._settings.status_address:
            from koord_devices.pages import serve

            try:
                server = serve(self._settings, lambda: self._daemon.report)
            except (OSError, ValueError) as error:
                raise SettingsError(f"--status-address cannot be served: {error}") from None
            stack.callback(server.stop)

    def _gpu_failed(self, xid: int) -> None:
        if xid not in APPLICATION_XIDS:
            self._daemon.events.put(Wake(f"error XID {xid} of a GPU"))

    def _reload(self) -> None:
        self.reload = True
        self._daemon.events.put(Stop())

    def _stop(self) -> None:
        self.reload = False
        self._daemon.events.put(Stop())

    def _node(self) -> LocalNode:
        return LocalNode(
            self._tree,
            self._gpus,
            sys_root=self._settings.sys_fs_root_dir,
            host_root=self._settings.host_root,
            command_seconds=self._settings.command_timeout,
        )

    def _label(self, found: Mapping[str, str]) -> bool:
        from koord_devices.node_labels import write

        return write(self._settings.node_name, found)
