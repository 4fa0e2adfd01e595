"""Paths within Koordinator's DaemonSet, which mounts the host: the defaults there. No IO."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_PATHS = {
    "CGROUP_ROOT_DIR": ("/host-cgroup", ""),
    "CONTAINER_RUNTIME_ENDPOINT": ("/host-run", "/containerd/containerd.sock"),
    "PREDICTION_CHECKPOINT_FILEPATH": ("/prediction-checkpoints", ""),
    "RUNTIME_HOOKS_ADDR": ("/host-var-run-koordlet", "/koordlet.sock"),
    "RUNTIME_HOOKS_CONFIG_PATH": ("/host-etc-hookserver", ""),
    "RUNTIME_HOOKS_NRI_SOCKET_PATH": ("/host-var-run", "/nri/nri.sock"),
    # On the host's tmpfs: it outlives the pod, and what it holds is of this boot.
    "STATE_DIR": ("/host-var-run-koordlet", "/state"),
    "SYS_FS_ROOT_DIR": ("/host-sys-fs", ""),
    "SYS_ROOT_DIR": ("/host-sys", ""),
    "TSDB_PATH": ("/metric-data", ""),
}
"""Settings, by the end of their environment variables: a mount, and what is below it."""

_SURE = "/host-etc-hookserver"
"""Koordinator's alone has this one; in our own DaemonSet the host's paths are the host's."""


def environment(
    environ: Mapping[str, str], is_directory: Callable[[str], bool]
) -> Mapping[str, str]:
    """The environment, with the paths of Koordinator's DaemonSet where it does not say others."""
    if not is_directory(_SURE):
        return environ
    found = {
        f"KOORDLET_{name}": f"{mount}{below}"
        for name, (mount, below) in _PATHS.items()
        if is_directory(mount)
    }
    return {**found, **environ}
