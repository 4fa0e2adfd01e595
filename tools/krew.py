"""The plugin ``koord`` for krew, kubectl's package manager: its archive and its manifest.

``python -m tools.krew FILE URL FOLDER`` packs the executable FILE, koordctl with all its libraries
in one file, for the machine that this runs on, and writes ``koord.yaml`` for an archive that is
published below URL. The manifest is as krew.sigs.k8s.io/docs/developer-guide describes it, and
``kubectl krew install --manifest=koord.yaml --archive=…`` tries both.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import platform
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from koord_model.version import VERSION

ROOT = Path(__file__).parents[1]
PLUGIN, BINARY = "koord", "kubectl-koord"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
"""Go's names of architectures, which krew's selectors have, by the kernel's."""
_DESCRIPTION = """\
Shows what nodes and the control plane of pykoord, co-location for Kubernetes by quality of
service, do and why: versions, health and leaders of all programs, how resources of nodes are
calculated, why pods wait, were moved or evicted, and what is wrong. It is koordctl, which is
compatible with clusters of Koordinator.
"""
_CAVEATS = """\
Needs Python 3.11. Try: kubectl koord status cluster
"""


def archive(program: bytes) -> bytes:
    """A tar archive of the executable and the licence; the same each time."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w") as files,
    ):
        for name, mode, content in (
            (BINARY, 0o755, program),
            ("LICENSE", 0o644, (ROOT / "LICENSE").read_bytes()),
        ):
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = mode, len(content)
            files.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def manifest(url: str, name: str, packed: bytes, architecture: str) -> dict[str, Any]:
    """The manifest of an archive that is published as ``url``/``name``."""
    labels = {"os": "linux", "arch": architecture}
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": PLUGIN},
        "spec": {
            "version": f"v{VERSION}",
            "shortDescription": "Explain co-location: resources, pods and programs of pykoord",
            "description": _DESCRIPTION,
            "caveats": _CAVEATS,
            "platforms": [
                {
                    "selector": {"matchLabels": labels},
                    "uri": f"{url.rstrip('/')}/{name}",
                    "sha256": hashlib.sha256(packed).hexdigest(),
                    "bin": BINARY,
                    "files": [{"from": each, "to": "."} for each in (BINARY, "LICENSE")],
                }
            ],
        },
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Write both files."""
    parser = argparse.ArgumentParser(description="Pack koordctl as a plugin for krew.")
    parser.add_argument("file", type=Path, metavar="FILE", help="koordctl as one executable")
    parser.add_argument("url", metavar="URL", help="where the archive is published")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where both files go")
    given = parser.parse_args(argv)
    architecture = _ARCHITECTURES[platform.machine()]
    name, packed = (
        f"{BINARY}-{VERSION}-linux-{architecture}.tar.gz",
        archive(given.file.read_bytes()),
    )
    (given.folder / name).write_bytes(packed)
    document = manifest(given.url, name, packed, architecture)
    (given.folder / f"{PLUGIN}.yaml").write_text(yaml.safe_dump(document, sort_keys=False))


if __name__ == "__main__":
    main()
