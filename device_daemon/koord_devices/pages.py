"""The daemon's pages: /healthz, /readyz, /status and /metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from koord_model.times import rfc3339
from koord_service.program_metrics import program_metrics
from koord_service.status import Access, MakePage, StatusPage, StatusServer, json_page

from koord_devices.config import DeviceDaemonSettings
from koord_devices.core.document import document
from koord_devices.report import HOLDS_FOR_ROUNDS, Report

GetReport = Callable[[], Report]
_NAME = "koord_device_daemon"


def serve(settings: DeviceDaemonSettings, get: GetReport) -> StatusServer:
    """Serve the pages.

    Raises:
        ValueError, OSError: the address cannot be used.
    """
    most = HOLDS_FOR_ROUNDS * settings.sleep_interval + settings.probe_timeout
    pages: dict[str, MakePage] = {
        "/healthz": lambda _: healthz(get(), time.time() - most),
        "/readyz": lambda _: readyz(get()),
        "/status": lambda _: json_page(status(get())),
        "/metrics": lambda _: _metrics_page(get()),
    }
    public = {name: pages[name] for name in ("/healthz", "/readyz", "/metrics")}
    address = settings.status_address
    network = not address.startswith(("unix:", "/", "127.", "[::1]", "localhost"))
    server = StatusServer(address, pages, mode=0o666, network=network, access=Access(public=public))
    server.start()
    return server


def healthz(report: Report, oldest: float) -> StatusPage:
    """Report whether the file is kept up to date; a failing vendor does not make it ill."""
    lines = [
        f"{name}: {state.error}\n" for name, state in sorted(report.states.items()) if state.error
    ]
    if report.write_error:
        return StatusPage(f"cannot write {report.write_error}\n".encode(), status=503)
    if report.written_at and report.written_at < oldest:
        since = rfc3339(report.written_at)
        return StatusPage(f"has not looked at the devices since {since}\n".encode(), status=503)
    return StatusPage("".join(["ok\n", *lines]).encode())


def readyz(report: Report) -> StatusPage:
    """Report whether devices were looked for, and written if there are any."""
    if report.written_at and not report.write_error:
        return StatusPage(b"ok\n")
    return StatusPage(b"has not yet looked at the devices\n", status=503)


def status(report: Report) -> dict[str, Any]:
    """All that is known."""
    return {
        "writtenAt": rfc3339(report.written_at),
        "writeError": report.write_error,
        "vendors": {
            name: {
                "answeredAt": rfc3339(state.answered_at),
                "reason": state.reason,
                "error": state.error,
                "unnamed": list(state.unnamed),
                "seconds": round(report.answers[name].seconds, 3) if name in report.answers else 0,
            }
            for name, state in sorted(report.states.items())
        },
        "devices": document(report.states, None),
        "rdma": [
            {
                "id": device.id,
                "minor": device.minor,
                "healthy": device.healthy,
                "message": device.message,
                "nodeID": device.numa_node,
                "pcieID": device.pcie,
                "pcieSwitch": report.switches.get(device.bus, ""),
                "virtualFunctions": [
                    bus for group in device.virtual_functions for bus in group.addresses
                ],
            }
            for device in report.rdma.devices
        ],
    }


def _metrics_page(report: Report) -> StatusPage:
    text = "".join(metrics(report)) + program_metrics("koord-device-daemon")
    return StatusPage(text.encode(), "text/plain; version=0.0.4")


def metrics(report: Report) -> Iterator[str]:
    """In Prometheus' text format; its library would cost more memory than all the rest."""
    yield from _metric("devices", "gauge", "Accelerators by vendor and health.")
    for name, state in sorted(report.states.items()):
        for healthy in (True, False):
            count = sum(accelerator.device.healthy is healthy for accelerator in state.accelerators)
            yield f'{_NAME}_devices{{vendor="{name}",healthy="{str(healthy).lower()}"}} {count}\n'
    yield from _metric("vendor_up", "gauge", "Whether the vendor's tool answered.")
    for name, state in sorted(report.states.items()):
        yield f'{_NAME}_vendor_up{{vendor="{name}"}} {int(not state.error)}\n'
    yield from _metric("vendor_answered_timestamp_seconds", "gauge", "When it last answered.")
    for name, state in sorted(report.states.items()):
        yield f'{_NAME}_vendor_answered_timestamp_seconds{{vendor="{name}"}} {state.answered_at}\n'
    yield from _metric("probe_seconds", "gauge", "How long the last answer took.")
    for name, answer in sorted(report.answers.items()):
        yield f'{_NAME}_probe_seconds{{vendor="{name}"}} {answer.seconds:.3f}\n'
    yield from _metric("probe_failures_total", "counter", "Probes that failed or timed out.")
    for name, count in sorted(report.failures.items()):
        yield f'{_NAME}_probe_failures_total{{vendor="{name}"}} {count}\n'
    yield from _metric("written_timestamp_seconds", "gauge", "When the file was last written.")
    yield f"{_NAME}_written_timestamp_seconds {report.written_at}\n"


def _metric(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {_NAME}_{name} {about}\n# TYPE {_NAME}_{name} {kind}\n"
