"""What is assumed of an object counts until the API has another version of it."""

from __future__ import annotations

from koord_scheduler.plugins.volumes.assume_cache import AssumeCache
from koord_scheduler.plugins.volumes.objects import PersistentVolume, StorageMeta, VolumeSpec


def volume(version: str, storage_class: str) -> PersistentVolume:
    metadata = StorageMeta(name="v", resource_version=version)
    return PersistentVolume(metadata, VolumeSpec(storage_class_name=storage_class))


def counting(cache: AssumeCache) -> str | None:
    found = cache.get(PersistentVolume, "v")
    return None if found is None else found.spec.storage_class_name


def test_it_counts_until_the_api_has_another_version() -> None:
    cache = AssumeCache()
    assert cache.set(volume("1", "stored")) == volume("1", "stored")
    cache.assume(volume("1", "assumed"))
    assert counting(cache) == "assumed"
    assert cache.stored(PersistentVolume, "v") == volume("1", "stored")
    assert cache.set(volume("1", "resent")) == volume("1", "assumed")
    assert counting(cache) == "assumed"
    assert cache.set(volume("2", "newer")) == volume("2", "newer")
    assert counting(cache) == "newer"


def test_what_was_assumed_can_be_undone() -> None:
    cache = AssumeCache()
    cache.set(volume("1", "stored"))
    cache.assume(volume("1", "assumed"))
    assert cache.restore(PersistentVolume, "v") == volume("1", "stored")
    assert counting(cache) == "stored"


def test_nothing_is_left_of_an_object_that_is_gone() -> None:
    cache = AssumeCache()
    cache.set(volume("1", "stored"))
    cache.assume(volume("1", "assumed"))
    cache.remove(PersistentVolume, "v")
    assert counting(cache) is None
    assert cache.restore(PersistentVolume, "v") is None
