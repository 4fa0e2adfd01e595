"""Koordinator's JSON annotations, read with errors that say which pod, key and value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from koord_model.excerpt import excerpt
from koord_model.fields import Fields
from koord_model.pod import Pod

T = TypeVar("T")


def read(pod: Pod, key: str, parse: Callable[[str], T]) -> T | None:
    """Parse an annotation with ``parse``; ``None`` if the pod does not have it.

    Raises:
        ValueError: ``parse`` did not accept the text; one line names pod and key.
    """
    text = pod.annotations.get(key)
    if text is None:
        return None
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"{about(pod, key)}: {error}") from None


def fields_of(pod: Pod, key: str, ignored: list[str]) -> Fields | None:
    """The fields of an annotation that is a JSON object; ``None`` without one.

    Text that is none is ignored with a line, as each bad field will be.
    """
    if not pod.annotations.get(key):
        return None
    try:
        given = read(pod, key, lambda text: decode(_OBJECT, text))
    except ValueError as error:
        ignored.append(f"{error} (ignored)")
        return None
    return None if given is None else Fields(given, f"{about(pod, key)}:", ignored)


_OBJECT: msgspec.json.Decoder[dict[str, object] | None] = msgspec.json.Decoder(
    dict[str, object] | None
)


def about(pod: Pod, key: str) -> str:
    """Return the beginning of lines about a pod's annotation."""
    return f"pod {pod.full_name}: annotation {key}"


def decode(decoder: msgspec.json.Decoder[T], text: str) -> T:
    """The JSON text as the decoder's type.

    Raises:
        ValueError: not JSON, or JSON of another shape; the message shows the text.
    """
    try:
        return decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"{excerpt(text)}: {error}") from None
