"""Interrupts of the node's two network cards: found, spread by the strategy, and restored.

Collector, strategy and executor are koordlet's; they run here, and not in koordlet, whose files in
/proc/irq its unit keeps read-only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from koord_host.kernel import KernelFilesystem
from koord_host.knobs.layout import Driver, Layout
from koord_host.planning.desired_values import Owner, Priority
from koord_host.resource_executor.baselines import BaselineStore
from koord_host.resource_executor.executor import Executor
from koord_host.resource_executor.journal import Journal
from koord_model.interrupts import NodeInterrupts
from koordlet.metrics_advisor.collectors import nics, nodeinfo
from koordlet.metrics_advisor.contract.collector import CollectContext, CollectorSources
from koordlet.qos_manager.strategies.irq_affinity.strategy import Settings, plan

from tests.support.views import FakeLatest, view
from tests.vm import node

LAYOUT = Layout(2, Driver.SYSTEMD)
_OWNER = Owner("irq_affinity", Priority.STRATEGY)


def tune() -> dict[str, Any]:
    """Return every interrupt's CPUs before, meanwhile and afterwards, and what was refused."""
    node.run("modprobe virtio_net")
    files = KernelFilesystem()
    sources = CollectorSources(files, LAYOUT)
    [found] = nics.Collector(sources).collect(CollectContext(0.0, 0.0)).infos
    cpus = nodeinfo.Collector(sources).collect(CollectContext(0.0, 0.0)).infos
    assert isinstance(found, NodeInterrupts)
    planned = plan(view(latest=FakeLatest({}, found, *cpus)), Settings(rps_cpus_per_queue=1), None)
    journal = Journal("", print)
    executor = Executor(
        files, LAYOUT, journal, BaselineStore(""), clock=lambda: 0.0, monotonic=lambda: 0.0
    )
    places = [Path(files_path(one.target)) for one in planned.desired]
    before = _texts(places)
    executor.set_desired(_OWNER, "", planned.desired)
    results = executor.apply().results
    meanwhile = _texts(places)
    executor.forget(_OWNER, "")
    executor.apply()
    return {
        "cards": {card.name: len(card.interrupts) for card in found.cards},
        "online": len(cpus[0].online),  # type: ignore[attr-defined]
        "desired": {files_path(one.target): one.value for one in planned.desired},
        "outcomes": [f"{one.outcome} {one.reason}" for one in results],
        "before": before,
        "meanwhile": meanwhile,
        "afterwards": _texts(places),
        "managed": _write_managed(),
    }


def files_path(target: Any) -> str:
    """The file of a target."""
    names = {"irq.smp_affinity_list": "smp_affinity_list"}
    return f"{target.place}/{names.get(target.knob, target.knob)}"


def _texts(paths: list[Path]) -> dict[str, str]:
    return {str(path): path.read_text().strip() for path in paths}


def _write_managed() -> int:
    """The errno with which the kernel refuses a disk's queue, whose interrupt it manages."""
    lines = Path("/proc/interrupts").read_text().splitlines()
    [irq, *_] = [line.split(":")[0].strip() for line in lines if line.endswith("-req.0")]
    try:
        Path(f"/proc/irq/{irq}/smp_affinity_list").write_text("0")
    except OSError as error:
        return error.errno or 0
    return 0
