import json
import tarfile
from pathlib import Path

import pytest

from tests.support.oci_image import IMAGE, write_image


@pytest.fixture
def busybox(tmp_path: Path) -> Path:
    program = tmp_path / "busybox"
    program.write_bytes(b"\x7fELF, let us say")
    return program


def test_same_bytes_each_time(tmp_path, busybox):
    one = write_image(tmp_path / "one.tar", busybox=busybox).read_bytes()
    assert one == write_image(tmp_path / "two.tar", busybox=busybox).read_bytes()


def test_blobs_are_where_the_index_says(tmp_path, busybox):
    path = write_image(tmp_path / "image.tar", busybox=busybox, entrypoint=["/bin/env"])
    with tarfile.open(path) as tar:

        def blob(descriptor: dict) -> bytes:
            data = tar.extractfile("blobs/" + descriptor["digest"].replace(":", "/")).read()
            assert len(data) == descriptor["size"]
            return data

        index = json.loads(tar.extractfile("index.json").read())
        (entry,) = index["manifests"]
        assert entry["annotations"]["io.containerd.image.name"] == IMAGE
        manifest = json.loads(blob(entry))
        config = json.loads(blob(manifest["config"]))
        assert config["config"]["Entrypoint"] == ["/bin/env"]
        assert config["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
        (tmp_path / "layer.tar").write_bytes(blob(manifest["layers"][0]))
    with tarfile.open(tmp_path / "layer.tar") as layer:
        assert layer.extractfile("bin/busybox").read() == busybox.read_bytes()
        assert layer.getmember("bin/sh").linkname == "busybox"
