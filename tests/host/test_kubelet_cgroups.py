"""The kubelet's cgroup driver and cgroup root, by its groups or its settings."""

import pytest
from koord_host import detect, kubelet_cgroups
from koord_host.knobs.layout import Driver, Layout
from koord_host.kubelet_cgroups import KubeletCgroups
from koord_model.qos import KubeQoS
from koord_model.sources import Source

from tests.support.text_tree import TextTree

ROOT = "/sys/fs/cgroup"
CONFIG = "/var/lib/kubelet/config.yaml"
KIND = "kind: KubeletConfiguration\n"
HERE = Layout(2, Driver.SYSTEMD)
NOBODY = {"/proc/1/cmdline": "init\0", f"{ROOT}/cgroup.procs": ""}
SYSTEMD, CGROUPFS = Driver.SYSTEMD, Driver.CGROUPFS
SETTINGS = Source.KUBELET_CONFIG


def kubelet(*flags: str, pid: int = 7) -> dict[str, str]:
    return {f"/proc/{pid}/cmdline": "\0".join(("/usr/bin/kubelet", *flags, ""))}


def group(path: str, procs: str = "") -> dict[str, str]:
    return {f"{ROOT}/{path}/cgroup.procs": procs}


def find(texts: dict[str, str], driver: Driver | None = None, **more: str) -> KubeletCgroups:
    return kubelet_cgroups.find(TextTree(NOBODY | texts), HERE, driver, **more)


def test_without_any_kubelet_systemd_is_assumed_for_now() -> None:
    assert find({}) == KubeletCgroups(SYSTEMD, "", Source.DEFAULT)
    assert str(find({})) == "systemd, assumed"


@pytest.mark.parametrize(
    ("texts", "driver", "root"),
    [
        pytest.param({CONFIG: KIND}, CGROUPFS, "", id="no driver means cgroupfs"),
        pytest.param({CONFIG: KIND + "cgroupDriver: systemd"}, SYSTEMD, "", id="not started yet"),
        pytest.param(
            {**kubelet("--config=/k.yaml"), "/k.yaml": KIND}, CGROUPFS, "", id="another file"
        ),
        pytest.param(
            {**kubelet("--config=/k.yaml"), "/k.yaml": KIND + "cgroupDriver: systemd"}
            | {"/proc/7/root/k.yaml": KIND},
            CGROUPFS,
            "",
            id="the kubelet's own file, not ours",
        ),
        pytest.param(
            {**kubelet("--cgroup-driver=systemd", "--cgroup-root", "/a/"), CONFIG: KIND},
            SYSTEMD,
            "a",
            id="flags first",
        ),
        pytest.param(
            kubelet("--config-dir=/d")
            | {CONFIG: KIND + "cgroupDriver: systemd"}
            | {"/d/10-a.conf": "cgroupDriver: cgroupfs", "/d/20-b.conf": "cgroupRoot: /kubelet"}
            | {"/d/30.yaml": "cgroupDriver: systemd"},
            CGROUPFS,
            "kubelet",
            id="drop-ins in their order",
        ),
        pytest.param(
            {
                **kubelet("--cgroup-driver=cgroupfs"),
                "/proc/7/cgroup": "0::/kubepods.slice/kubepods-pod1.slice/c",
                CONFIG: KIND + "cgroupDriver: systemd",
            },
            SYSTEMD,
            "",
            id="a kubelet in a pod is another cluster's",
        ),
        pytest.param({CONFIG: KIND + "cgroupRoot: /../x"}, CGROUPFS, "", id="no way out"),
    ],
)
def test_before_there_are_groups_its_settings_count(
    texts: dict[str, str], driver: Driver, root: str
) -> None:
    assert find(texts) == KubeletCgroups(driver, root, SETTINGS)


def test_settings_that_cannot_be_read_say_nothing() -> None:
    assert find({CONFIG: "cgroupDriver: 2020-13-45"}) == find({})


def test_its_directory_is_where_it_is_set() -> None:
    assert find({"/k/config.yaml": KIND}, kubelet_dir="/k").driver is CGROUPFS


@pytest.mark.parametrize(
    ("texts", "driver", "root"),
    [
        pytest.param(group("kubepods.slice"), SYSTEMD, "", id="the runtime said another driver"),
        pytest.param(
            group("kubepods.slice") | group("kubepods/podu/c", "7\n"), CGROUPFS, "", id="leftover"
        ),
        pytest.param(group("kubepods.slice") | group("kubepods"), CGROUPFS, "", id="by settings"),
        pytest.param(
            group("kubelet.slice/kubelet-kubepods.slice"), SYSTEMD, "kubelet", id="as in kind"
        ),
        pytest.param(
            group("a/b/kubepods") | {CONFIG: KIND + "cgroupRoot: /a/b"}, CGROUPFS, "a/b", id="below"
        ),
    ],
)
def test_the_groups_that_it_made_count_first(
    texts: dict[str, str], driver: Driver, root: str
) -> None:
    found = find({CONFIG: KIND} | texts)
    assert found == KubeletCgroups(driver, root, Source.CGROUPS)
    assert found.is_certain


def test_a_setting_of_ours_counts_before_all() -> None:
    found = find(group("kubepods") | {CONFIG: KIND}, driver=SYSTEMD)
    assert (found.driver, found.source) == (SYSTEMD, Source.SETTING)


def test_a_kubelet_that_makes_no_groups_for_pods() -> None:
    off = {CONFIG: KIND + "cgroupsPerQOS: false"}
    for texts in (off, kubelet("--cgroups-per-qos=false")):
        tree = TextTree(NOBODY | texts)
        with pytest.raises(detect.DetectError, match="makes no cgroups for pods"):
            detect.layout(tree, version=2)
    assert detect.layout(TextTree(NOBODY | off | group("kubepods")), version=2).driver is CGROUPFS


@pytest.mark.parametrize(
    ("driver", "root", "qos", "name"),
    [
        (CGROUPFS, "kubelet", "kubelet/kubepods/burstable", "podu-1"),
        (
            SYSTEMD,
            "kubelet",
            "kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice",
            "kubelet-kubepods-burstable-podu_1.slice",
        ),
        (
            SYSTEMD,
            "a-b/c",
            "a_b.slice/a_b-c.slice/a_b-c-kubepods.slice/a_b-c-kubepods-burstable.slice",
            "a_b-c-kubepods-burstable-podu_1.slice",
        ),
    ],
)
def test_groups_below_a_cgroup_root(driver: Driver, root: str, qos: str, name: str) -> None:
    layout, pod = HERE.of_kubelet(driver, root), f"{qos}/{name}"
    assert layout.kube_qos_group(KubeQoS.BURSTABLE) == qos
    assert layout.pod_group(KubeQoS.BURSTABLE, "u-1") == pod
    assert layout.group_of_parent(name if driver is SYSTEMD else pod) == pod
    assert layout.is_pod_name(name)
    assert not layout.is_pod_name(qos.rpartition("/")[2])
    assert layout.is_shared(qos)
    assert not layout.is_shared(pod)
