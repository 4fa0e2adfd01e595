"""The kubelet's naming and location of cgroups: from the groups, or from its settings.

The groups that the kubelet has made are the truth: a runtime may have given it another driver than
its configuration names. Before there are any, its command line, configuration and drop-ins
say it, as the kubelet reads them; a configuration without a driver means cgroupfs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from koord_model.qos import KubeQoS
from koord_model.sources import CGROUP_DRIVER, Belief, Source, believe
from koord_model.yaml_documents import yaml_document

from koord_host.kernel_files.interface import FileReader
from koord_host.kernel_files.occupancy import is_occupied
from koord_host.knobs.layout import Driver, Layout

KUBELET_DIR = "/var/lib/kubelet"
_CONFIG = "config.yaml"
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
    """Flags count before drop-ins, and these before the configuration."""
    place, words = _kubelet(files, proc_root)
    config = dict(_config(files, place, _flag(words, "--config") or f"{kubelet_dir}/{_CONFIG}"))
    is_read = bool(config)
    for path in _drop_ins(files, place, _flag(words, "--config-dir")):
        config |= _config(files, place, path)
    named = _flag(words, "--cgroup-driver") or config.get("cgroupDriver")
    root = _flag(words, "--cgroup-root") or config.get("cgroupRoot") or ""
    per_qos = _flag(words, "--cgroups-per-qos") or config.get("cgroupsPerQOS", True)
    driver = next((known for known in Driver if known == named), None)
    return _Settings(
        driver or (Driver.CGROUPFS if is_read and not named else None),
        _path(str(root)),
        str(per_qos).lower() not in _FALSE,
    )


def _path(root: str) -> str:
    """A cgroup root without slashes at its ends; none that leads out of the hierarchy."""
    parts = [part for part in root.split("/") if part]
    return "" if {".", ".."} & {*parts} else "/".join(parts)


def _kubelet(files: FileReader, proc_root: str) -> tuple[str, list[str]]:
    """The running kubelet's root directory as we see it, and its command line."""
    try:
        names = files.entries(proc_root)
    except OSError:
        return "", []
    for name in names:
        if name.isdigit():
            try:
                words = files.read(f"{proc_root}/{name}/cmdline").split("\0")
            except OSError:
                continue
            if words[0].rpartition("/")[2] == "kubelet" and not _in_pod(files, proc_root, name):
                return f"{proc_root}/{name}/root", words
    return "", []


def _in_pod(files: FileReader, proc_root: str, pid: str) -> bool:
    """True if it is another cluster's kubelet, in a pod of this one."""
    try:
        return "kubepods" in files.read(f"{proc_root}/{pid}/cgroup")
    except OSError:
        return False


def _flag(words: list[str], flag: str) -> str:
    """Its value; of one that is given twice the last counts, as for the kubelet."""
    found = ""
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == flag:
            following = words[place + 1] if place + 1 < len(words) else ""
            found = value if equals else following
    return found


def _drop_ins(files: FileReader, place: str, directory: str) -> list[str]:
    """The files of ``--config-dir``, in the order in which the kubelet merges them."""
    if not directory:
        return []
    # Doubles of kernel files know directories alone.
    list_names: Callable[[str], list[str]] = getattr(files, "names", files.entries)
    for above in (place, "") if place else ("",):
        try:
            names = list_names(f"{above}{directory}")
        except OSError:
            continue
        return [f"{directory}/{name}" for name in sorted(names) if name.endswith(".conf")]
    return []


def _config(files: FileReader, place: str, path: str) -> Mapping[str, object]:
    """A configuration; nothing if it cannot be read or parsed.

    In a container our own files are others than the kubelet's.
    """
    for above in (place, "") if place else ("",):
        try:
            config = yaml_document(files.read(f"{above}{path}"))
        except (OSError, ValueError):
            continue
        if isinstance(config, dict):
            return config
    return {}
