"""A Namespace as the scheduler reads it. No IO."""

from __future__ import annotations

import msgspec
from koord_kube.views.decode import decode_view

from koord_scheduler.objects.metadata import ObjectMeta


class _Namespace(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


_DECODER = msgspec.json.Decoder(_Namespace)


def read_namespace(text: bytes) -> ObjectMeta:
    """The name and labels of the namespace in a JSON document.

    Raises:
        ValueError: it is not a Namespace.
    """
    return decode_view(_DECODER, text, "a valid Namespace").metadata
