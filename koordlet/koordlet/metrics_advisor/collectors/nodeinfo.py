"""The machine: CPUs with their topology and features, memory by NUMA node.

Infos ``NodeCPUInfo`` and ``NodeMemoryInfo``; no samples. Source files:
/sys/devices/system/cpu (online, cpu*/topology, cpu*/cache, smt/active,
intel_pstate/no_turbo, cpufreq/boost), /sys/devices/system/node (node*/cpulist,
node*/meminfo, node*/hugepages), /sys/kernel/mm/hugepages where there is no NUMA,
/proc/meminfo, /proc/cpuinfo, and resctrl's info/L3/cbm_mask. Model and vendor are x86's;
other architectures print no such lines, and have "".
"""

from __future__ import annotations

import re

from koord_host.kernel_files import numa
from koord_host.kernel_files.processors import Processors
from koord_model.node_info import NodeCPUInfo

from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)

INTERVAL = "collect_node_cpu_info_interval"
ENABLED_BY: tuple[str, ...] = ()

# With code and data prioritization (CDP), both halves have the same ways.
_CBM_MASKS = ("L3", "L3CODE")


class Collector:
    """Reads the machine's description."""

    def __init__(self, sources: CollectorSources) -> None:
        self._sources = sources
        self._cpu_root = f"{sources.sys_root}/devices/system/cpu"
        self._processors = Processors(sources.tree, sources.sys_root)
        self._names: tuple[str, str] | None = None
        self._texts: dict[str, str] = {}

    def collect(self, context: CollectContext) -> Samples:
        """Collect once."""
        sources = self._sources
        try:
            nodes = numa.read_cpus(sources.tree, sources.sys_root)
            processors = self._processors.read(nodes)
        except (OSError, ValueError) as error:
            raise UnavailableError(f"the machine's CPUs: {error}") from None
        model, vendor = self._model_and_vendor()
        cpus = NodeCPUInfo(processors, model, vendor, self._smt(), self._turbo(), self._cbm_mask())
        try:
            memory = numa.read_memory(
                sources.tree, nodes, sources.sys_root, sources.layout.proc_root
            )
        except (OSError, ValueError) as error:
            return Samples(infos=(cpus,), partial=(f"the machine's memory: {error}",))
        return Samples(infos=(cpus, memory))

    def _model_and_vendor(self) -> tuple[str, str]:
        # Read once: the file has a paragraph for each CPU, and the kernel asks each for it.
        if self._names is None:
            try:
                text = self._sources.tree.read(f"{self._sources.layout.proc_root}/cpuinfo")
            except FileNotFoundError:
                text = ""
            except OSError:
                return "", ""  # the next time
            self._names = (_line(text, "model name"), _line(text, "vendor_id"))
        return self._names

    def _smt(self) -> bool | None:
        return _flag(self._text(f"{self._cpu_root}/smt/active"))

    def _turbo(self) -> bool | None:
        off = _flag(self._text(f"{self._cpu_root}/intel_pstate/no_turbo"))
        return not off if off is not None else _flag(self._text(f"{self._cpu_root}/cpufreq/boost"))

    def _cbm_mask(self) -> str:
        root = f"{self._sources.layout.resctrl_root}/info"
        texts = (self._text(f"{root}/{name}/cbm_mask") for name in _CBM_MASKS)
        return next(filter(None, texts), "")

    def _text(self, path: str) -> str:
        """A file's text; "" where it is not there, and what it said where a read fails."""
        try:
            self._texts[path] = self._sources.tree.read(path).strip()
        except FileNotFoundError:
            self._texts.pop(path, None)
        except OSError:
            pass
        return self._texts.get(path, "")


def _flag(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text)


def _line(text: str, name: str) -> str:
    """The value of the first line of this name."""
    match = re.search(rf"^{name}[ \t]*:[ \t]*(.*?)[ \t]*$", text, re.MULTILINE)
    return match[1] if match else ""
