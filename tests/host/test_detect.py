import errno
from collections.abc import Callable

import pytest
from koord_host import detect, kubelet_cgroups
from koord_host.knobs.layout import Driver, Layout

from tests.support.fake_cgroupfs import FakeCgroupfs

ROOT = "/sys/fs/cgroup"


class Files:
    """A few files; directories follow from them."""

    def __init__(self, **texts: str) -> None:
        self._texts = {name.replace("__", "/"): text for name, text in texts.items()}

    def add(self, path: str, text: str = "") -> None:
        self._texts[path] = text

    def read(self, path: str) -> str:
        if path not in self._texts:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return self._texts[path]

    def exists(self, path: str) -> bool:
        return any(one == path or one.startswith(f"{path}/") for one in self._texts)

    def entries(self, path: str) -> list[str]:
        below = [one.removeprefix(f"{path}/") for one in self._texts if one.startswith(f"{path}/")]
        if not below:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", path)
        return sorted({one.partition("/")[0] for one in below if "/" in one})

    def identity(self, path: str) -> int:
        return 1


def magic(number: int) -> Callable[[str], int]:
    return lambda _: number


def test_the_version() -> None:
    files = Files()
    assert detect.cgroup_version(files, ROOT, magic(detect.CGROUP2_SUPER_MAGIC)) == 2
    for subsystem in ("cpu", "cpuset", "memory"):
        files.add(f"{ROOT}/{subsystem}/tasks")
    assert detect.cgroup_version(files, ROOT, magic(0x01021994)) == 1
    assert detect.file_system("/proc") == 0x9FA0  # PROC_SUPER_MAGIC


def test_no_cgroups() -> None:
    files = Files()
    files.add(f"{ROOT}/cpu/tasks")
    with pytest.raises(detect.DetectError, match=r"v1's cpuset, memory; name .*--cgroup-root-dir"):
        detect.cgroup_version(files, ROOT, magic(0x01021994))
    with pytest.raises(detect.DetectError, match=r"^/nowhere: No such file or directory; name"):
        detect.cgroup_version(files, "/nowhere")


def driver_of(files: FakeCgroupfs, version: int) -> Driver:
    return kubelet_cgroups.find(files, Layout(version, Driver.SYSTEMD, ROOT)).driver


@pytest.mark.parametrize(
    ("version", "path", "driver"),
    [
        (1, "cpu/kubepods.slice", Driver.SYSTEMD),
        (1, "cpu/kubepods", Driver.CGROUPFS),
        (2, "kubepods.slice", Driver.SYSTEMD),
        (2, "kubepods", Driver.CGROUPFS),
        (2, "system.slice", Driver.SYSTEMD),
    ],
)
def test_the_driver_by_what_the_kubelet_made(version: int, path: str, driver: Driver) -> None:
    files = Files()
    assert driver_of(files, version) is Driver.SYSTEMD, "without any process"
    files.add(f"{ROOT}/{path}/cgroup.procs")
    assert driver_of(files, version) is driver


@pytest.mark.parametrize(
    ("command", "config", "driver"),
    [
        ("/usr/bin/kubelet\0--cgroup-driver=cgroupfs\0", "", Driver.CGROUPFS),
        ("kubelet\0--cgroup-driver\0cgroupfs\0", "cgroupDriver: systemd", Driver.CGROUPFS),
        ("kubelet\0--v=2\0", "cgroupDriver: cgroupfs\n", Driver.CGROUPFS),
        ("kubelet\0--config=/etc/k.yaml\0", "", Driver.CGROUPFS),
        ("kubelet\0--cgroup-driver", "", Driver.SYSTEMD),
        ("other\0--cgroup-driver=cgroupfs\0", "", Driver.SYSTEMD),
        ("kubelet\0", "[", Driver.SYSTEMD),
        ("kubelet\0", "a list", Driver.SYSTEMD),
        ("", "", Driver.SYSTEMD),
    ],
)
def test_the_driver_by_the_kubelets_settings(command: str, config: str, driver: Driver) -> None:
    files = Files()
    files.add("/etc/k.yaml", "cgroupDriver: cgroupfs")
    files.add("/proc/self/cmdline", "kubelet\0--cgroup-driver=cgroupfs")
    files.add("/proc/6/stat")
    if command:
        files.add("/proc/7/cmdline", command)
    if config:
        files.add("/var/lib/kubelet/config.yaml", config)
    assert driver_of(files, 2) is driver


def test_what_is_given_is_not_looked_for() -> None:
    found = detect.layout(Files(), cgroup_root="/c/", version=2, driver=Driver.CGROUPFS)
    assert found == Layout(2, Driver.CGROUPFS, "/c")
    found = detect.layout(Files(), magic=magic(detect.CGROUP2_SUPER_MAGIC))
    assert found == Layout(2, Driver.SYSTEMD)


@pytest.mark.parametrize("group", ["kubepods/pod1", "system", ""])
@pytest.mark.parametrize(("version", "vendor"), [(1, False), (2, False), (1, True)])
def test_knobs(version: int, vendor: bool, group: str) -> None:
    files = FakeCgroupfs(version, vendor=vendor)
    if group:
        files.make_group(group)
    found = detect.knobs(files, Layout(version, Driver.CGROUPFS))
    assert "file" in found
    assert ("cpu.bvt_warp_ns" in found) == vendor
    if group:
        assert {"cpu.shares", "cpuset.cpus", "memory.limit_in_bytes"} <= found
        assert ("memory.min" in found) == (version == 2 or vendor)
        assert "blkio.throttle.read_bps_device" in found
        assert ("memory.reclaim" in found) == (version == 2)
    assert ("blkio.cost.qos" in found) == (version == 2 or vendor)


def test_knobs_elsewhere() -> None:
    files = Files()
    files.add("/proc/self/oom_score_adj", "0")
    found = detect.knobs(files, Layout(2, Driver.CGROUPFS))
    anywhere = {"sysctl", "file", "irq.smp_affinity_list", "rps_cpus", "xps_cpus"}
    assert found == {"oom_score_adj", *anywhere}


def test_the_boot() -> None:
    files = Files()
    assert detect.boot(files) == ""
    files.add("/proc/sys/kernel/random/boot_id", "abc\n")
    assert detect.boot(files) == "abc"
