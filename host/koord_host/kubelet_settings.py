"""The running kubelet's settings: flags, configuration file and drop-ins. No cgroups."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from koord_model.yaml_documents import yaml_document

from koord_host.kernel_files.interface import FileReader

KUBELET_DIR = "/var/lib/kubelet"
_CONFIG = "config.yaml"


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """The words of its command line, empty if none runs, and its configuration with drop-ins."""

    words: Sequence[str]
    config: Mapping[str, object]

    def value(self, flag: str, field: str, default: object = None) -> object:
        """A setting: flags count before drop-ins, and these before the configuration."""
        return _flag(self.words, flag) or self.config.get(field, default)


def read(files: FileReader, proc_root: str, kubelet_dir: str = KUBELET_DIR) -> KubeletSettings:
    """Read them, as the kubelet does; what cannot be read is left out."""
    place, words = _kubelet(files, proc_root)
    config = dict(_config(files, place, _flag(words, "--config") or f"{kubelet_dir}/{_CONFIG}"))
    for path in _drop_ins(files, place, _flag(words, "--config-dir")):
        config |= _config(files, place, path)
    return KubeletSettings(words, config)


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


def _flag(words: Sequence[str], flag: str) -> str:
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
