"""Places of publication: the setting ``registry`` of pyproject.toml, and what is made of it.

``tools/deploy_files.py`` writes names of images into manifests, chart and documents, and what is
published, and what is not, between ``<!-- published: LANGUAGE -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from koord_model.version import VERSION

ROOT = Path(__file__).parents[1]
IMAGES = (
    "koord-manager",
    "koord-scheduler",
    "koord-descheduler",
    "koord-device-daemon",
    "koord-runtime-proxy",
    "koordlet",
)
"""Names of the images; each has the program of its name."""
PAGES = tuple(
    ROOT / name
    for name in (
        "README.md",
        "README.zh-CN.md",
        "docs/replace-koordinator.md",
        "docs/zh-CN/replace-koordinator.md",
    )
)
OWN_REGISTRY = "REGISTRY"
"""Stands for a registry in documents while images are not published."""
_IMAGE = re.compile(
    rf"(?P<registry>(?:[\w.-]+(?::\d+)?/)+)?(?P<name>{'|'.join(IMAGES)}):\d+\.\d+\.\d+[\w.-]*"
)
_NEW_NAME = re.compile(rf"(?<=newName: )\S*/(?={'|'.join(IMAGES)})")
_PLACE = re.compile(r"(<!-- published: (\w+) -->).*?(<!-- end -->)", re.DOTALL)
_SENTENCES = {
    "en": {
        "images": ("No image is published yet.", "Images are published in `{}`."),
        "packages": ("No package is published yet.", "Packages are published at `{}`."),
    },
    "zh": {
        "images": ("目前尚未发布任何镜像。", "镜像发布在 `{}`。"),
        "packages": ("目前尚未发布任何软件包。", "软件包发布在 `{}`。"),
    },
}


@cache
def registry() -> Mapping[str, str]:
    """Return the place of ``images`` and that of ``packages``, "" for what is not published.

    Raises:
        ValueError: the setting has other keys.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    setting: dict[str, str] = project["tool"]["pykoord"]["registry"]
    if setting.keys() != {"images", "packages"}:
        raise ValueError(f"pyproject.toml: registry has {sorted(setting)}, not images and packages")
    return setting


def image(name: str, place: str | None = None) -> str:
    """Return the name of this version's image in a registry, by default that of the setting."""
    place = registry()["images"] if place is None else place
    return "/".join(filter(None, (place, f"{name}:{VERSION}")))


def documented_image(name: str) -> str:
    """Return the name of this version's image as documents have it."""
    return image(name, registry()["images"] or OWN_REGISTRY)


def local_name(reference: str) -> str:
    """Return what is left of one of our images' names without the registry."""
    match = _IMAGE.fullmatch(reference)
    return image(match["name"], "") if match else reference


def manifest(text: str) -> str:
    """A manifest with the names that this version's images have."""
    return _IMAGE.sub(lambda match: image(match["name"]), text)


def page(text: str) -> str:
    """A document with the names that this version's images have, and what is published."""
    text = _IMAGE.sub(lambda match: documented_image(match["name"]), text)
    text = _NEW_NAME.sub(f"{registry()['images'] or OWN_REGISTRY}/", text)
    return _PLACE.sub(lambda found: found[1] + _state(found[2]) + found[3], text)


def _state(language: str) -> str:
    sentences = (
        published.format(registry()[kind]) if registry()[kind] else unpublished
        for kind, (unpublished, published) in _SENTENCES[language].items()
    )
    return "\n".join(sentences)
