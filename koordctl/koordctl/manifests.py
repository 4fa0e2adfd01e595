"""Objects in files of YAML or JSON, as kubectl reads and writes them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
from koord_model.excerpt import excerpt
from koord_model.yaml_documents import yaml_documents

from koordctl.errors import AskError
from koordctl.output.documents import as_yaml
from koordctl.output.result import CommandOutput

Manifest = Mapping[str, Any]

_LIST = "List"


def report(objects: Sequence[Manifest]) -> CommandOutput:
    """Objects as a command shows them: YAML that kubectl applies, or a List of them."""
    blocks = chain.from_iterable(("---", *as_yaml(each).split("\n")) for each in objects)
    return CommandOutput({"apiVersion": "v1", "kind": _LIST, "items": [*objects]}, list(blocks)[1:])


def read_text(path: str) -> bytes:
    """Read a file; "-" is standard input.

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
        return [manifest for document in _documents(text) for manifest in _objects(document)]
    except (ValueError, RecursionError) as error:
        raise AskError(f"{path}: {error}") from None


def kind_and_name(manifest: Manifest) -> str:
    """Name an object for people: "Deployment shop/web"."""
    metadata = manifest.get("metadata") or {}
    name = metadata.get("name") or metadata.get("generateName") or ""
    where = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return f"{manifest['kind']} {where}{name}".strip()


def _documents(text: bytes) -> Iterator[object]:
    try:
        yield msgspec.json.decode(text)
    except msgspec.DecodeError:
        yield from yaml_documents(text)


def _objects(document: object) -> Iterator[Manifest]:
    if document is None:
        return
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        # It is what is in the file that is wrong.
        raise ValueError("an object without a kind; expected Kubernetes objects")  # noqa: TRY004
    kind = document["kind"]
    if not kind.endswith(_LIST):
        _check(document, "metadata", dict, "fields")
        yield document
        return
    _check(document, "items", list, "a list")
    for manifest in document.get("items") or ():
        # Objects of a NodeList have no kind of their own.
        named = (
            {"kind": kind.removesuffix(_LIST), **manifest}
            if isinstance(manifest, dict)
            else manifest
        )
        yield from _objects(named)


def _check(document: Manifest, name: str, form: type, expected: str) -> None:
    found = document.get(name)
    if found is not None and not isinstance(found, form):
        raise ValueError(
            f"{name} of {excerpt(document['kind'])} is {excerpt(str(found))}; expected {expected}"
        )
