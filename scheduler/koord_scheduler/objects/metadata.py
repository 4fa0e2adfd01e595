"""The scheduler's part of an object's metadata. No IO."""

from __future__ import annotations

import msgspec
from koord_kube.views.decode import decode_view
from koord_kube.views.metadata import OwnerReference

from koord_scheduler.objects.annotations import Annotations


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Names, labels and owners; times are RFC 3339."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None


class AnnotatedMeta(ObjectMeta, frozen=True, gc=False):
    """With those annotations that decide where pods run."""

    annotations: Annotations | None = None


class AnyObject(msgspec.Struct, frozen=True):
    """An object of any kind, by its metadata."""

    metadata: ObjectMeta = ObjectMeta()


_DECODER = msgspec.json.Decoder(AnyObject)


def read_metadata(text: bytes) -> ObjectMeta:
    """The metadata of an object of any kind, from its JSON document.

    Raises:
        ValueError: it is not an object.
    """
    return decode_view(_DECODER, text, "a valid object").metadata
