"""``system/compute`` and ``system/info``: load, CPUs, pressure. No IO of its own.

``cpu_usage`` and ``cpu_sys_usage`` are percent, the other shares of time fractions.
``cpu_sched_wait`` is seconds that tasks waited for a CPU, in each second: the client makes
milliseconds of it. As Malachite's, usage includes stolen time.
"""

from __future__ import annotations

import re

from koord_host.kernel_files import schedstat

from koordlet.http_api.malachite.core import bandwidth
from koordlet.http_api.malachite.core.counters import CounterGrowths, Growth
from koordlet.http_api.malachite.core.kernel_text import (
    Document,
    NodeFileTree,
    counters,
    present,
    pressure,
    renamed,
)

_CPU = re.compile(r"^(cpu\d*) +(\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+) (\d+)", re.MULTILINE)
_USER, _NICE, _SYSTEM, _IDLE, _IOWAIT, _IRQ, _SOFTIRQ, _STEAL = range(8)
_ALL = "cpu"
_PROCESSES = {"procs_running": "procs_running", "procs_blocked": "procs_blocked"}
_LOADS = ("one", "five", "fifteen")
_FIELD = re.compile(r"^(vendor_id|cpu family|model|flags)\s*: (.*)$", re.MULTILINE)
_ZEN = {(23, range(0x30, 0x40)): "Zen2", (25, range(0x10)): "Zen3"} | {
    (25, models): "Zen4" for models in (range(0x10, 0x20), range(0xA0, 0xB0))
}
"""AMD's server processors by family and models; the client knows their architectures."""


def info(files: NodeFileTree) -> Document:
    """The machine's kind: virtual if it has the flag that hypervisors set on x86."""
    return {"is_vm": "hypervisor" in _processor(files).get("flags", "").split()}


def compute(files: NodeFileTree, growths: CounterGrowths, steady: float) -> Document | None:
    """The document, ``None`` while usage is not known yet.

    Raises:
        OSError: a file that every kernel has cannot be read.
    """
    stat = files.proc("stat")
    waits = _waits(files, growths, steady)
    processors = []
    overall = None
    for name, *words in _CPU.findall(stat):
        growth = growths.of(name, tuple(map(int, words)), steady)
        if growth is None:
            continue
        if name == _ALL:
            overall = _usage(name, growth, sum(waits.values()) / len(waits) if waits else None)
        else:
            processors.append(_usage(name, growth, waits.get(int(name.removeprefix(_ALL)))))
    if overall is None:
        return None
    loads = map(float, files.proc("loadavg").split())
    return present(
        {
            "load": dict(zip(_LOADS, loads, strict=False)),
            "cpu_codename": codename(_processor(files)),
            "cpu": processors,
            "global_cpu": overall,
            "process_stats": renamed(counters(stat), _PROCESSES),
            "l3_mon": bandwidth.caches(files),
            "pressure": pressure(files.read(f"{files.layout.proc_root}/pressure/cpu")) or None,
        }
    )


def codename(processor: dict[str, str]) -> str | None:
    """The architecture of AMD's server processors, for which the client has rules."""
    if processor.get("vendor_id") != "AuthenticAMD":
        return None
    family, model = int(processor.get("cpu family", 0)), int(processor.get("model", 0))
    return next(
        (
            name
            for (zen_family, models), name in _ZEN.items()
            if family == zen_family and model in models
        ),
        None,
    )


def _usage(name: str, growth: Growth, wait: float | None) -> Document:
    times = growth.amounts
    total = sum(times) or 1
    interrupts = times[_IRQ] + times[_SOFTIRQ]
    return present(
        {
            "name": name,
            "cpu_usage": 100 * (total - times[_IDLE] - times[_IOWAIT]) / total if any(times) else 0,
            "cpu_sys_usage": 100 * (times[_SYSTEM] + interrupts) / total,
            "cpu_iowait_ratio": times[_IOWAIT] / total,
            "cpu_sched_wait": wait,
            "cpu_steal_ratio": times[_STEAL] / total,
            "cpu_usr_ratio": (times[_USER] + times[_NICE]) / total,
            "cpu_irq_ratio": interrupts / total,
        }
    )


def _waits(files: NodeFileTree, growths: CounterGrowths, steady: float) -> dict[int, float]:
    """Seconds a second by CPU; none of a kernel without CONFIG_SCHEDSTATS."""
    text = files.read(f"{files.layout.proc_root}/schedstat")
    try:
        waited = schedstat.wait_nanoseconds(text) if text else {}
    except ValueError:
        return {}
    found = {
        cpu: growths.of(("wait", cpu), (nanoseconds,), steady)
        for cpu, nanoseconds in waited.items()
    }
    return {cpu: growth.rate(0) / 1e9 for cpu, growth in found.items() if growth is not None}


def _processor(files: NodeFileTree) -> dict[str, str]:
    """The first processor of cpuinfo."""
    text = files.read(f"{files.layout.proc_root}/cpuinfo").partition("\n\n")[0]
    return dict(_FIELD.findall(text))
