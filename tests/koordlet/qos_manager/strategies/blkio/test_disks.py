import pytest
from koord_model.blkio_qos import BlockQoS, BlockType
from koord_model.node_info import LocalStorage
from koordlet.qos_manager.strategies.blkio.disks import disks

DEVICE, GROUP, VOLUME = BlockType.DEVICE, BlockType.VOLUME_GROUP, BlockType.POD_VOLUME
KUBELET = "/var/lib/kubelet/pods"
STORAGE = LocalStorage(
    numbers={
        "/dev/vda": "254:0",
        "/dev/vda1": "254:1",
        "/dev/vdb": "254:16",
        "/dev/mapper/pool-a": "253:0",
        "/dev/md0": "9:0",
    },
    parents={"/dev/vda1": "/dev/vda", "/dev/mapper/pool-a": "/dev/vdb"},
    volume_groups={"pool": "/dev/vdb", "gone": "/dev/vdz"},
    mounts={
        "/": "254:1",
        f"{KUBELET}/u1/volumes/kubernetes.io~csi/pv-1/mount": "253:0",
        f"{KUBELET}/u1/volumes/kubernetes.io~local-volume/local": "254:1",
        f"{KUBELET}/u1/volumes/kubernetes.io~csi/mount/mount": "9:0",
        "/data/kubelet/pods/u2/volumes/kubernetes.io~csi/pv-1/mount": "254:16",
        f"{KUBELET}/u2/volumes/kubernetes.io~csi/unknown/mount": "7:7",
        f"{KUBELET}/u2/volume-subpaths/pv-1/c/0": "254:16",
    },
)


@pytest.mark.parametrize(
    ("name", "kind", "uid", "number"),
    [
        ("/dev/vda", DEVICE, "", "254:0"),
        ("/dev/vda1", DEVICE, "", "254:0"),
        ("/dev/mapper/pool-a", DEVICE, "", "254:16"),
        ("/dev/md0", DEVICE, "", "9:0"),
        ("/dev/vdz", DEVICE, "", None),
        ("pool", GROUP, "", "254:16"),
        ("other", GROUP, "", None),
        ("gone", GROUP, "", None),
        ("pv-1", VOLUME, "u1", "254:16"),
        ("pv-1", VOLUME, "u2", "254:16"),
        ("local", VOLUME, "u1", "254:0"),
        ("mount", VOLUME, "u1", "9:0"),
        ("unknown", VOLUME, "u2", None),
        ("pv-1", VOLUME, "", None),
        ("pv-2", VOLUME, "u1", None),
    ],
)
def test_the_disk_that_is_meant(name: str, kind: BlockType, uid: str, number: str | None) -> None:
    assert disks(STORAGE).number(BlockQoS(name, kind), uid) == number
