"""An OCI image of one layer, written without a registry or a builder.

The layer holds a static busybox and links to it. The same image serves as the
pods' sandbox ("pause") image, so no second program is needed. Writing it twice
gives the same bytes, hence the same digests.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

IMAGE = "pykoord.test/busybox:latest"
BUSYBOX = Path("/bin/busybox")

APPLETS = (
    *("sh", "sleep", "echo", "cat", "ls", "env", "true", "false", "kill", "ps"),
    *("id", "dd", "seq", "wc", "nproc", "hostname", "mkdir", "date", "yes"),
)

SLEEP_FOREVER = ("/bin/sh", "-c", "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait $!; done")
"""Ends at once on SIGTERM, which the kernel withholds from a first process without a handler."""

_DIRECTORIES = ("bin", "dev", "etc", "proc", "root", "run", "sys", "tmp", "var", "var/run")
_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def write_image(
    path: Path,
    *,
    name: str = IMAGE,
    busybox: Path = BUSYBOX,
    entrypoint: Sequence[str] = (),
    command: Sequence[str] = SLEEP_FOREVER,
) -> Path:
    """Write the image as an OCI layout in a tar file, ready for ``ctr images import``."""
    layer = image_layer(busybox.read_bytes())
    architecture = _MACHINES.get(platform.machine(), platform.machine())
    config = _json(
        {
            "architecture": architecture,
            "os": "linux",
            "config": {
                "Entrypoint": list(entrypoint),
                "Cmd": list(command),
                "Env": ["PATH=/bin"],
                "WorkingDir": "/",
            },
            # The layer is not compressed: its digest is its diff id.
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _descriptor("application/vnd.oci.image.config.v1+json", config),
            "layers": [_descriptor("application/vnd.oci.image.layer.v1.tar", layer)],
        }
    )
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    entry = _descriptor(_MANIFEST, manifest) | {
        "annotations": names,
        "platform": {"architecture": architecture, "os": "linux"},
    }
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for blob in (layer, config, manifest):
            _add(tar, "blobs/sha256/" + hashlib.sha256(blob).hexdigest(), blob)
        _add(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(tar, "index.json", _json({"schemaVersion": 2, "manifests": [entry]}))
    return path


def image_layer(busybox: bytes) -> bytes:
    """The one layer of the image, an uncompressed tar: busybox and links to it."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name in _DIRECTORIES:
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            tar.addfile(directory)
        _add(tar, "bin/busybox", busybox, mode=0o755)
        for applet in APPLETS:
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname, link.mode = tarfile.SYMTYPE, "busybox", 0o777
            tar.addfile(link)
        _add(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
        _add(tar, "etc/group", b"root:x:0:\n")
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, data: bytes, mode: int = 0o644) -> None:
    # A new TarInfo has owner 0 and time 0: nothing of this machine gets in.
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    tar.addfile(info, io.BytesIO(data))


def _descriptor(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
