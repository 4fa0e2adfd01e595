"""Objects of the API, and what they will be once decisions are written. No IO."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from koord_scheduler.plugins.volumes.objects import StorageObject

_Object = TypeVar("_Object", bound=StorageObject)
_Key = tuple[type[StorageObject], str]


class AssumeCache:
    """Objects by kind and key.

    What is assumed counts until the API has another version of the object.
    """

    def __init__(self) -> None:
        self._stored: dict[_Key, StorageObject] = {}
        self._assumed: dict[_Key, StorageObject] = {}

    def get(self, kind: type[_Object], key: str) -> _Object | None:
        """An object, as it is assumed if it is; ``None`` if there is no such."""
        found = self._assumed.get((kind, key)) or self._stored.get((kind, key))
        return found if isinstance(found, kind) else None

    def stored(self, kind: type[_Object], key: str) -> _Object | None:
        """An object as the API has it; ``None`` if there is no such."""
        found = self._stored.get((kind, key))
        return found if isinstance(found, kind) else None

    def all_of(self, kind: type[_Object]) -> Iterator[_Object]:
        """All objects of a kind, as the API has them."""
        return (one for one in self._stored.values() if isinstance(one, kind))

    def set(self, storage_object: StorageObject) -> StorageObject:
        """The API has this; returns what counts now."""
        key = type(storage_object), storage_object.key
        assumed = self._assumed.get(key)
        self._stored[key] = storage_object
        if assumed is not None:
            if assumed.metadata.resource_version == storage_object.metadata.resource_version:
                return assumed
            del self._assumed[key]
        return storage_object

    def remove(self, kind: type[StorageObject], key: str) -> None:
        """The API has it no more."""
        del self._stored[kind, key]
        self._assumed.pop((kind, key), None)

    def assume(self, storage_object: StorageObject) -> None:
        """An object that the API has will be so."""
        self._assumed[type(storage_object), storage_object.key] = storage_object

    def restore(self, kind: type[_Object], key: str) -> _Object | None:
        """Nothing is assumed of an object any more; returns what counts now, if there is any."""
        self._assumed.pop((kind, key), None)
        return self.stored(kind, key)
