"""The paths of Koordinator's DaemonSet, where they are mounted."""

from __future__ import annotations

from koord_service.settings import parse
from koordlet.agent.config import KoordletSettings
from koordlet.agent.daemonset_paths import environment
from koordlet.agent.ignored_flags import IGNORED

from tests.support.koordinator_arguments import CHART, KOORDLET

# What that DaemonSet mounts, below "/".
MOUNTS = {
    "/host-cgroup",
    "/host-etc-hookserver",
    "/host-run",
    "/host-sys",
    "/host-sys-fs",
    "/host-var-run",
    "/host-var-run-koordlet",
    "/metric-data",
    "/prediction-checkpoints",
}


def read(mounts: set[str], *arguments: str, **environ: str) -> KoordletSettings:
    found = environment(environ, mounts.__contains__)
    return parse(
        KoordletSettings,
        prog="koordlet",
        description="",
        argv=arguments,
        environ=found,
        ignored=IGNORED,
    )


def test_on_a_host_and_in_our_own_daemon_set_paths_are_the_hosts() -> None:
    assert read(set()) == read({"/host-sys"}) == KoordletSettings()


def test_in_koordinators_daemon_set_the_proxy_finds_us() -> None:
    found = read(MOUNTS, *CHART[KOORDLET])
    assert found.runtime_hooks_addr == "/host-var-run-koordlet/koordlet.sock"
    assert found.runtime_hooks_config_path == "/host-etc-hookserver"
    assert found.runtime_hooks_host_endpoint == "/var/run/koordlet/koordlet.sock"
    assert found.state_dir == "/host-var-run-koordlet/state"
    assert found.container_runtime_endpoint == "unix:///host-run/containerd/containerd.sock"
    # As it was given; every default is a path of the container.
    assert found.cgroup_root_dir == "/host-cgroup/"
    assert (found.sys_root_dir, found.sys_fs_root_dir) == ("/host-sys", "/host-sys-fs")


def test_what_is_not_mounted_stays_and_what_is_said_counts() -> None:
    found = read(MOUNTS - {"/metric-data"}, "--sys-root-dir=/x", KOORDLET_SYS_FS_ROOT_DIR="/y")
    assert (found.sys_root_dir, found.sys_fs_root_dir) == ("/x", "/y")
    assert found.tsdb_path == ""


def test_koordinators_paths_are_understood() -> None:
    found = read(set(), "--containerd-endpoint=/c.sock", "--runtime-hooks-nri-socket-path=n/n.sock")
    assert found.container_runtime_endpoint == "unix:///c.sock"
    assert found.runtime_hooks_nri_socket_path == "/var/run/n/n.sock"
