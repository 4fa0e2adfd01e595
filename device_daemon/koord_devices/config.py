"""Settings: Koordinator's flags and variables, and its configuration file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from koord_service.go_flags import go_flags
from koord_service.settings import SettingsError, option, parse

PROGRAM = "koord-device-daemon"
DESCRIPTION = (
    "Finds the accelerators of this node, and describes them in a file for koordlet, once or again "
    "and again."
)
VARIABLES = "KDD"
IGNORED = go_flags()
"""klog's flags, of which only -v means something."""
HOST_MOUNT = "/hostfs"
"""Mount of the host in Koordinator's DaemonSet, where the daemon runs the vendors' tools."""
_OTHER_NAMES = {"PRINTS_OUTPUT_FILE": "KDD_PRINTS_OUTPUT_FILE", "CONFIG_FILE": "KDD_CONFIG_FILE"}
_KEYS = {
    "oneshot": "KDD_ONESHOT",
    "noTimestamp": "KDD_NO_TIMESTAMP",
    "sleepInterval": "KDD_SLEEP_INTERVAL",
    "printsOutputFile": "KDD_PRINTS_OUTPUT_FILE",
}


@dataclass(frozen=True, slots=True)
class DeviceDaemonSettings:
    """All settings; flags and variables follow from the names."""

    oneshot: bool = option(False, "describe the devices once, and exit")
    no_timestamp: bool = option(
        False, "leave out when devices were seen, and until when that holds"
    )
    sleep_interval: float = option(900.0, "seconds between two looks at the devices")
    prints_output_file: str = option(
        "/var/run/koordlet/xpu-device-infos/ic-device",
        "file that describes the accelerators; empty: print them on stdout",
    )
    config_file: str = option("", "YAML file with settings under flags.kdd", aliases=("--config",))
    format: str = option(
        "", "print devices on stdout, too, whenever they change", choices=("", "json", "table")
    )
    features_file: str = option(
        "", "file of labels for Node Feature Discovery, in its features.d; empty: none"
    )
    node_labels: bool = option(False, "write these labels to the Node, too")
    node_name: str = option("", "this node's name, for --node-labels (default: $NODE_NAME)")
    vendors: tuple[str, ...] = option(("*",), 'vendors to look for; "*": all, -NAME: without it')
    command_timeout: float = option(10.0, "seconds that a command of a vendor may take")
    probe_timeout: float = option(
        60.0, "seconds after which a vendor that has not answered counts as hung"
    )
    host_root: str = option(
        "/",
        "where the host's files are; vendors' tools run there, by chroot (default in a pod that "
        "mounts the host at /hostfs: /hostfs)",
    )
    sys_fs_root_dir: str = option("/sys", "where sysfs is mounted")
    status_address: str = option(
        "", "unix socket or port that serves /healthz, /readyz, /status, /metrics; empty: none"
    )
    log_format: str = option("human", "how log lines look", choices=("human", "json"))
    log_level: str = option(
        "info", "least severe lines to log", choices=("debug", "info", "warning", "error")
    )

    def __post_init__(self) -> None:
        for name in ("sleep_interval", "command_timeout", "probe_timeout"):
            if getattr(self, name) <= 0:
                flag = name.replace("_", "-")
                raise ValueError(f"--{flag} is {getattr(self, name):g}; expected more than 0")
        if not self.host_root.startswith("/"):
            raise ValueError(f'--host-root is "{self.host_root}"; expected an absolute path')
        if self.node_labels and not self.node_name:
            raise ValueError("--node-labels needs --node-name, or NODE_NAME in the environment")


def settings(
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
    host_mount: str = HOST_MOUNT,
) -> DeviceDaemonSettings:
    """The settings of this run: flags win over variables, those over the file.

    Raises:
        SettingsError: one cannot be used; the message is one line.
    """
    given = dict(os.environ if environ is None else environ)
    if os.path.isdir(host_mount):  # noqa: PTH112
        given.setdefault("KDD_HOST_ROOT", host_mount)
    for name, ours in _OTHER_NAMES.items():
        if name in given:
            given.setdefault(ours, given[name])
    if "NODE_NAME" in given:
        given.setdefault("KDD_NODE_NAME", given["NODE_NAME"])
    found = _parse(argv, given)
    if not found.config_file:
        return found
    return _parse(argv, _file_variables(found.config_file) | given)


def _parse(argv: Sequence[str] | None, environ: Mapping[str, str]) -> DeviceDaemonSettings:
    return parse(
        DeviceDaemonSettings,
        prog=PROGRAM,
        description=DESCRIPTION,
        argv=argv,
        environ=environ,
        ignored=IGNORED,
        variables=VARIABLES,
        examples=("koord-device-daemon --oneshot --node-name=node-7",),
    )


def _file_variables(path: str) -> dict[str, str]:
    """The settings of a configuration file, by the variables that would set them."""
    # The library for YAML costs a megabyte, so it is loaded only for a file.
    from koord_model.yaml_documents import yaml_document

    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            given = yaml_document(file.read())
    except OSError as error:
        raise SettingsError(f"--config-file: cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"{path} is not valid YAML: {error}") from None
    document = _mapping(given, path, "the file")
    version = document.get("version", "v1")
    if version not in ("v1", ""):
        raise SettingsError(f'{path}: version is "{version}"; expected "v1"')
    flags = _mapping(document.get("flags"), path, "flags")
    kdd = _mapping(flags.get("kdd"), path, "flags.kdd")
    for name in kdd:
        if name not in _KEYS:
            known = ", ".join(_KEYS)
            raise SettingsError(f'{path}: "flags.kdd.{name}" is not a setting; there are {known}')
    return {_KEYS[name]: _text(value) for name, value in kdd.items() if value is not None}


def _mapping(given: object, path: str, what: str) -> Mapping[str, object]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise SettingsError(f"{path}: {what} is not a mapping")
    return given


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
