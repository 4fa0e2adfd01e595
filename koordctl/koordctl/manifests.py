"""Objects in files of YAML or JSON, as kubectl reads and writes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml
from koord_model.yaml_errors import yaml_problem

from koordctl.status_client import AskError

Manifest = Mapping[str, Any]

_LIST = "List"
# libyaml's, where PyYAML was built with it: ten times as fast.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def read_text(path: str) -> bytes:
    """What is in a file; "-" is standard input.

    Raises:
        AskError: it cannot be read.
    """
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise AskError(f"{path}: {error.strerror or error}") from None


def read_file(path: str) -> list[Manifest]:
    """The objects in a file, those of lists one by one.

    Raises:
        AskError: it cannot be read, or has something else in it.
    """
    text = read_text(path)
    try:
        return [one for document in _documents(text) for one in _objects(document)]
    except (ValueError, yaml.YAMLError) as error:
        raise AskError(f"{path}: {yaml_problem(error)}") from None


def kind_and_name(one: Manifest) -> str:
    """What an object is, for people: "Deployment shop/web"."""
    metadata = one.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{one['kind']} {where}{name}".strip()


def _documents(text: bytes) -> Iterator[object]:
    try:
        yield msgspec.json.decode(text)
    except msgspec.DecodeError:
        yield from yaml.load_all(text, Loader=_Loader)


def _objects(document: object) -> Iterator[Manifest]:
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        # It is what is in the file that is wrong.
        raise ValueError("an object without a kind; expected Kubernetes objects")  # noqa: TRY004
    kind = document["kind"]
    if not kind.endswith(_LIST):
        yield document
        return
    for one in document.get("items") or ():
        # Objects of a NodeList have no kind of their own.
        yield from _objects({"kind": kind.removesuffix(_LIST), **one})
