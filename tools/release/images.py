"""OCI images, built without a daemon: one layout with all of them, which share what is the same."""

from __future__ import annotations

import json
from pathlib import Path

from tools.published import IMAGES, image
from tools.release.commands import run
from tools.release.sources import Sources

BASE = "localhost/pykoord-base"
SUITE = "bookworm"
_PACKAGES = "python3,python3-venv,ca-certificates"
_NEEDLESS = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")


def build(sources: Sources, libraries: Path, to: Path, scratch: Path) -> Path:
    """Build every image, on a Debian made now, and return the layout that has them.

    Beside it are ``images.txt``, each image's name with its digest, and ``base-packages.txt``,
    what Debian packages they have.

    Raises:
        ReleaseError: mmdebstrap, buildah or skopeo is not installed, or failed.
    """
    places = (f"--root={scratch}/store", f"--runroot={scratch}/run", "--storage-driver=overlay")
    store = ("buildah", *places)
    _base(sources, store, to, scratch)
    layout = to / "images"
    digests = []
    for name in IMAGES:
        file = sources.folder / f"deploy/containers/Containerfile.{name.removeprefix('koord-')}"
        run(
            *(*store, "bud", "--quiet", "--isolation=chroot", "--pull-never"),
            *(f"--timestamp={sources.epoch}", f"--build-arg=BASE={BASE}"),
            *(f"--volume={libraries}:/wheels:ro", f"--file={file}", f"--tag=localhost/{name}"),
            sources.folder,
        )
        own = image(name, "")
        run(*store, "push", "--quiet", f"localhost/{name}", f"oci:{layout}:{own}")
        about = json.loads(run("skopeo", "inspect", f"oci:{layout}:{own}"))
        digests.append(f"{image(name)}@{about['Digest']}\n")
    (to / "images.txt").write_text("".join(digests))
    return layout


def _base(sources: Sources, store: tuple[str, ...], to: Path, scratch: Path) -> None:
    """Make the image that all stages are built from: Debian with its Python."""
    folder = scratch / "base"
    folder.mkdir()
    run(
        *("mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}"),
        *(f"--dpkgopt=path-exclude={path}" for path in _NEEDLESS),
        *("--customize-hook=chroot $1 dpkg-query --show >" + f" {to}/base-packages.txt",),
        *(SUITE, folder / "root.tar"),
        env=sources.environment,
    )
    (folder / "Containerfile").write_text("FROM scratch\nADD root.tar /\n")
    run(
        *(*store, "bud", "--quiet", "--isolation=chroot", f"--timestamp={sources.epoch}"),
        *(f"--tag={BASE}", folder),
    )
