"""Writes down what is known: the file, labels, and what people see on stdout."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from koord_service import logs
from koord_service.terminal import flush, printable, printable_json, write_line
from koord_service.whole_file import write_whole

from koord_devices.config import DeviceDaemonSettings
from koord_devices.core.document import Expiry, document, encode, states_of
from koord_devices.core.inventory import VendorState
from koord_devices.core.labels import features, labels
from koord_devices.core.table import table
from koord_devices.report import HOLDS_FOR_ROUNDS, Report

OnLabels = Callable[[Mapping[str, str]], bool]
"""Gets the node's labels when they change; whether that worked."""

log = logs.get_log("koord_devices")


class Publisher:
    """Writes where the settings say."""

    def __init__(self, settings: DeviceDaemonSettings, on_labels: OnLabels | None = None) -> None:
        self._settings = settings
        self._on_labels = on_labels
        self._printed = ""
        self._labels: dict[str, str] = {}

    def publish(self, report: Report) -> str:
        """Write what is known, where anything is, or was; why that failed, or ""."""
        failure = ""
        holds = HOLDS_FOR_ROUNDS * self._settings.sleep_interval
        expiry = None if self._settings.no_timestamp else Expiry(report.written_at, holds)
        try:
            self._write(report, expiry)
            self._label(report, expiry)
        except OSError as error:
            failure = f"{error.filename}: {error.strerror}"
            log.error("cannot write", file=error.filename, error=error.strerror)
        self._print(report)
        return failure

    def remembered(self) -> dict[str, VendorState]:
        """Read the state that an earlier run left in the file."""
        if not self._settings.prints_output_file:
            return {}
        try:
            return states_of(Path(self._settings.prints_output_file).read_bytes())
        except OSError:
            return {}

    def _write(self, report: Report, expiry: Expiry | None) -> None:
        found = document(report.states, expiry)
        if not found or not self._settings.prints_output_file:
            return
        path = Path(self._settings.prints_output_file)
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
        path = self._settings.features_file
        if path and (found or self._labels):
            text = features(found, expiry).encode()
            write_whole(Path(path), text, mode=0o644, directory_mode=None, sync=False)
        if self._on_labels is None or found == self._labels or self._on_labels(found):
            self._labels = found

    def _print(self, report: Report) -> None:
        form = self._settings.format or ("" if self._settings.prints_output_file else "json")
        if form == "table":
            lines = table(report.accelerators, report.rdma, report.switches).splitlines()
            text = "\n".join(map(printable, lines))
        else:
            text = encode(document(report.states, None)).decode().rstrip("\n") if form else ""
            text = printable_json(text)
        if text and text != self._printed:
            write_line(text)
            flush()
        self._printed = text
