"""Network cards, their interrupts, and the time that CPUs spend on interrupts.

Info ``NodeInterrupts``; no samples. Source files: /sys/class/net (device, queues, statistics),
the PCI function's msi_irqs, /proc/interrupts, /proc/stat, /proc/net/softnet_stat,
and, once a minute, /proc/PID/comm of all processes: one named irqbalance moves interrupts by
itself. Cards in other network namespaces are not seen: a pod's virtual function is the pod's.
"""

from __future__ import annotations

from collections.abc import Iterator

from koord_host.kernel_files import interrupts, processes
from koord_host.kernel_files.interrupts import CardFiles, InterruptLine
from koord_model.interrupts import NetworkCard, NodeInterrupts, QueueInterrupt

from koordlet.metrics_advisor.contract.collector import (
    ANY_INTERVAL_SECONDS,
    CollectContext,
    CollectorSources,
    CounterRates,
    Samples,
    UnavailableError,
)

INTERVAL = "nics_collector_interval"
ENABLED_BY: tuple[str, ...] = ("IrqAffinity",)

_BALANCERS = frozenset({"irqbalance"})
_KSOFTIRQD = "ksoftirqd/"
_PROCESS_SECONDS = 60.0


class Collector:
    """Reads cards and counters, and remembers counters for their growth."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._proc = sources.layout.proc_root
        self._counters = CounterRates(ANY_INTERVAL_SECONDS)
        self._processes_at = float("-inf")
        self._balancer: processes.Process | None = None
        self._ksoftirqd: dict[int, str] = {}

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        tree, steady = self._sources.tree, context.steady
        try:
            cards = tuple(interrupts.cards(tree, self._sources.sys_root))
            wanted = {irq for card in cards for irq in card.irqs}
            lines = interrupts.lines(tree.read(f"{self._proc}/interrupts"), wanted)
            times = interrupts.interrupt_times(tree.read(f"{self._proc}/stat"))
            squeezes = interrupts.squeezes(tree.read(f"{self._proc}/net/softnet_stat"))
        except (OSError, ValueError, IndexError) as error:
            raise UnavailableError(f"the machine's interrupts: {error}") from None
        self._look_at_processes(steady)
        found = NodeInterrupts(
            steady,
            tuple(self._card(card, lines, steady) for card in cards),
            dict(self._busy(times, steady)),
            {
                cpu: rate
                for cpu, count in squeezes.items()
                if (rate := self._counters.rate(("squeeze", cpu), count, steady)) is not None
            },
            self._ksoftirqd,
            f"irqbalance (PID {self._balancer.pid})" if self._balancer else "",
        )
        self._counters.forget(steady)
        return Samples(infos=(found,))

    def _card(self, card: CardFiles, lines: dict[int, InterruptLine], steady: float) -> NetworkCard:
        queues = []
        for irq in card.irqs:
            line = lines.get(irq)
            served = interrupts.served_queue(line.name, card.name) if line else None
            if line is not None and served is not None:
                queue, receives = served
                rate = self._counters.rate((card.name, irq), line.times, steady)
                queues.append(QueueInterrupt(irq, queue if receives else None, rate))
        return NetworkCard(
            card.name,
            card.path,
            tuple(queues),
            card.rx_queues,
            card.tx_queues,
            self._packets(card, steady),
        )

    def _packets(self, card: CardFiles, steady: float) -> float | None:
        try:
            count = int(self._sources.tree.read(f"{card.path}/statistics/rx_packets"))
        except (OSError, ValueError):
            return None
        return self._counters.rate((card.name, "packets"), count, steady)

    def _busy(
        self, times: dict[int, interrupts.CPUInterruptTime], steady: float
    ) -> Iterator[tuple[int, float]]:
        for cpu, time in times.items():
            spent = self._counters.growth(("interrupts", cpu), time.interrupts, steady)
            whole = self._counters.growth(("time", cpu), time.whole, steady)
            if spent is not None and whole:
                yield cpu, 100 * spent / whole

    def _look_at_processes(self, steady: float) -> None:
        """Find what moves interrupts, and ksoftirqd: rarely, as there are many processes."""
        if steady < self._processes_at + _PROCESS_SECONDS and not self._balancer_ended():
            return
        self._processes_at = steady
        pids = [int(name) for name in self._sources.tree.entries(self._proc) if name.isdigit()]
        named = {
            pid: name
            for pid, name in zip(pids, map(self._name, pids), strict=True)
            if name in _BALANCERS or name.startswith(_KSOFTIRQD)
        }
        found = processes.identify(self._sources.tree, self._proc, "", named)
        balancers = [process for pid, process in found.items() if named[pid] in _BALANCERS]
        self._balancer = balancers[0] if balancers else None
        self._ksoftirqd = {
            int(number): process.place
            for pid, process in found.items()
            if (number := named[pid].removeprefix(_KSOFTIRQD)).isdigit()
        }

    def _name(self, pid: int) -> str:
        try:
            return self._sources.tree.read(f"{self._proc}/{pid}/comm").strip()
        except OSError:
            return ""  # it has ended

    def _balancer_ended(self) -> bool:
        known = self._balancer
        return known is not None and self._name(known.pid) not in _BALANCERS
