"""The kubelet's naming and location of cgroups: from the groups, or from its settings.

The groups that the kubelet has made are the truth: a runtime may have given it another driver than
its configuration names. Before there are any, its command line, configuration and drop-ins
say it, as the kubelet reads them; a configuration without a driver means cgroupfs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from koord_model.qos import KubeQoS
from koord_model.sources import CGROUP_DRIVER, Belief, Source, believe

from koord_host import kubelet_settings
from koord_host.kernel_files.interface import FileReader
from koord_host.kernel_files.occupancy import is_occupied
from koord_host.knobs.layout import Driver, Layout

KUBELET_DIR = kubelet_settings.KUBELET_DIR
_KIND = "kubelet"
"""The cgroup root in nodes made by kind, where the configuration cannot be read."""
_FALSE = ("false", "0", "f")


@dataclass(frozen=True, slots=True)
class KubeletCgroups:
    """Naming and location of the kubelet's cgroups, with the source; only cgroups are certain.

    ``root`` is the group above kubepods in the words of the configuration, "" for none.
    ``per_qos`` is whether pods have groups at all.
    """

    driver: Driver
    root: str
    source: Source
    per_qos: bool = True

    @property
    def is_certain(self) -> bool:
        """True if it was seen, or set by an administrator of koordlet."""
        return self.source in (Source.CGROUPS, Source.SETTING)

    def __str__(self) -> str:
        """For the log: "systemd below /kubelet, by cgroups"."""
        below = f" below /{self.root}" if self.root else ""
        words = "assumed" if self.source is Source.DEFAULT else f"by {self.source}"
        return f"{self.driver}{below}, {words}"


@dataclass(frozen=True, slots=True)
class _Settings:
    """The kubelet's, as far as they are known."""

    driver: Driver | None = None
    root: str = ""
    per_qos: bool = True


def find(
    files: FileReader,
    layout: Layout,
    driver: Driver | None = None,
    kubelet_dir: str = KUBELET_DIR,
) -> KubeletCgroups:
    """Find the state; ``layout`` has the root of cgroups, ``driver`` is a setting of ours."""
    settings = _settings(files, layout.proc_root, kubelet_dir)
    drivers = tuple(Driver) if driver is None else (driver,)
    made = list(_made(files, layout, drivers, dict.fromkeys((settings.root, "", _KIND))))
    found = _choose(files, layout, made, settings)
    said: dict[Source, Driver] = {}
    if driver is not None:
        said[Source.SETTING] = driver
    if found is not None:
        said[Source.CGROUPS] = found.driver
    if settings.driver is not None:
        said[Source.KUBELET_CONFIG] = settings.driver
    belief = believe(CGROUP_DRIVER, said) or Belief(Driver.SYSTEMD, Source.DEFAULT)
    root = settings.root if found is None else found.kubelet_root
    return KubeletCgroups(belief.value, root, belief.source, settings.per_qos or bool(made))


def _made(
    files: FileReader, layout: Layout, drivers: Iterable[Driver], roots: Iterable[str]
) -> Iterator[Layout]:
    for root in roots:
        for driver in drivers:
            candidate = layout.of_kubelet(driver, root)
            if files.exists(
                candidate.group_path(candidate.kube_qos_group(KubeQoS.GUARANTEED), "cpu")
            ):
                yield candidate


def _choose(
    files: FileReader, layout: Layout, made: list[Layout], settings: _Settings
) -> Layout | None:
    """Of several the one with processes: another is what an earlier configuration left."""
    if len(made) > 1:
        busy = [
            candidate
            for candidate in made
            if is_occupied(files, layout, candidate.kube_qos_group(KubeQoS.GUARANTEED))
        ]
        made = busy or made
    fits = [
        candidate
        for candidate in made
        if (candidate.driver, candidate.kubelet_root) == _wanted(settings)
    ]
    return next(iter(fits or made), None)


def _wanted(settings: _Settings) -> tuple[Driver | None, str]:
    return settings.driver, settings.root


def _settings(files: FileReader, proc_root: str, kubelet_dir: str) -> _Settings:
    """The settings that concern cgroups."""
    settings = kubelet_settings.read(files, proc_root, kubelet_dir)
    named = settings.value("--cgroup-driver", "cgroupDriver")
    per_qos = settings.value("--cgroups-per-qos", "cgroupsPerQOS", True)
    driver = next((known for known in Driver if known == named), None)
    return _Settings(
        driver or (Driver.CGROUPFS if settings.config and not named else None),
        _path(str(settings.value("--cgroup-root", "cgroupRoot") or "")),
        str(per_qos).lower() not in _FALSE,
    )


def _path(root: str) -> str:
    """A cgroup root without slashes at its ends; none that leads out of the hierarchy."""
    parts = [part for part in root.split("/") if part]
    return "" if {".", ".."} & {*parts} else "/".join(parts)
