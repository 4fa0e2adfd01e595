"""Pressure (PSI): for how much of the time tasks waited for CPU, memory or IO, in percent.

``node_psi`` from /proc/pressure/{cpu,memory,io}, whatever the cgroup version: averages
over 10, 60 and 300 s; ``class_psi`` the same of the groups of all burstable and of all best-effort
pods, as far as cgroups have it. ``pod_psi`` and ``container_psi`` from {cpu,memory,io}.pressure of
their cgroups (v2; v1 only with Anolis' kernel, in its hierarchy of cpuacct): averages
over 10 s alone, since longer ones follow from those that the metric cache keeps, and
each more would be 6 series a container. ``{pod,container}_psi_cpu_full_supported`` is 1
where the kernel says when all tasks wait for CPU; where it does not, there is no "full"
sample of CPU, while Koordinator has one of 0. Labels are spelled as on Koordinator's
``/metrics``; its cache spells the precision "10".
"""

from __future__ import annotations

from collections.abc import Iterator
from errno import ENODEV

from koord_host.kernel_files import pressure
from koord_host.kernel_files.pressure import Averages, Pressure
from koord_model.qos import KubeQoS

from koordlet.metric_cache.core.samples import Sample, Series
from koordlet.metrics_advisor.contract.cgroup_reading import LabelledCgroup, PerPodCache, groups
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)

INTERVAL = "psi_collector_interval"
ENABLED_BY: tuple[str, ...] = ("PSICollector",)

# Koordinator's word for a resource, and the kernel's.
_RESOURCES = (("cpu", "cpu"), ("mem", "memory"), ("io", "io"))
_NODE_AVERAGES = Averages._fields
_GROUP_AVERAGES = _NODE_AVERAGES[:1]
_WAY_OUT = "the kernel needs CONFIG_PSI, and psi=1 on its command line where that is off by default"


class Collector:
    """Reads what the kernel has averaged already."""

    def __init__(self, sources: CollectorSources) -> None:
        self._tree = sources.tree
        self._layout = sources.layout
        self._groups = PerPodCache(lambda record: groups(record, sources.layout))

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        partial: list[str] = []
        node = self._read(f"{self._layout.proc_root}/pressure/", "", partial)
        samples = list(_samples("node_psi", (), node, _NODE_AVERAGES))
        for qos in (KubeQoS.BURSTABLE, KubeQoS.BEST_EFFORT):
            directory = self._layout.group_path(self._layout.kube_qos_group(qos), "cpuacct")
            known = self._read(f"{directory}/", ".pressure", partial)
            samples += _samples("class_psi", (qos.value,), known, _NODE_AVERAGES)
        found = 0
        for pod in self._groups.of(context.pods):
            for group in pod:
                found += self._group(group, samples, partial)
        if not samples:
            said = f" ({partial[0]})" if partial else ""
            raise UnavailableError(f"the kernel reports no pressure{said}: {_WAY_OUT}")
        if not node:
            partial.append(f"{self._layout.proc_root}/pressure is not there: node_psi is left out")
        if context.pods and not found:
            partial.append(self._no_groups())
        return Samples(samples, partial=tuple(dict.fromkeys(partial)))

    def _group(
        self, labelled_cgroup: LabelledCgroup, samples: list[Sample], partial: list[str]
    ) -> bool:
        """Sample one cgroup; whether it had anything to read."""
        who, labels, group = labelled_cgroup
        directory = self._layout.group_path(group, "cpuacct")
        found = self._read(f"{directory}/", ".pressure", partial)
        samples += _samples(f"{who}_psi", labels, found, _GROUP_AVERAGES)
        if "cpu" in found:
            supported = float(found["cpu"].full is not None)
            samples.append(Sample(Series(f"{who}_psi_cpu_full_supported", labels), supported))
        return bool(found)

    def _read(self, start: str, end: str, partial: list[str]) -> dict[str, Pressure]:
        """Pressure by resource, of those that can be read."""
        found = {}
        for name, kernel_name in _RESOURCES:
            path = f"{start}{kernel_name}{end}"
            try:
                found[name] = pressure.parse(self._tree.read(path))
            except (FileNotFoundError, NotADirectoryError):
                continue  # the group is gone, or the kernel has none
            except OSError as error:
                # ENODEV: the group went while its file was open. EOPNOTSUPP: switched
                # off, which is so for all groups and need be said but once.
                if error.errno != ENODEV:
                    partial.append(f"pressure of {kernel_name}: {error.strerror or error}")
            except ValueError as error:
                partial.append(f"{path}: {error}")
        return found

    def _no_groups(self) -> str:
        if self._layout.version == 2:
            return "cgroups have no pressure files: pod_psi and container_psi are left out"
        return (
            "cgroup v1 has no pressure files here (only Anolis' kernel has): "
            "pod_psi and container_psi are left out"
        )


def _samples(
    kind: str, labels: tuple[str, ...], found: dict[str, Pressure], averages: tuple[str, ...]
) -> Iterator[Sample]:
    for name, value in found.items():
        for degree, values in (("some", value.some), ("full", value.full)):
            if values is not None:
                for precision in averages:
                    series = Series(kind, (*labels, name, precision, degree))
                    yield Sample(series, getattr(values, precision))
