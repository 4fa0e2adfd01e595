"""Arguments of Reservation: what they mean, and what cannot be meant."""

from __future__ import annotations

import pytest
from koord_scheduler.plugins.reservation.args import PreAllocationConfig, ReservationArgs


@pytest.mark.parametrize(
    ("seconds", "disabled", "kept"),
    [(0, False, 86_400.0), (-5, False, 86_400.0), (1, False, 1.0), (600, True, None)],
)
def test_for_how_long_ended_ones_are_kept(seconds: int, disabled: bool, kept: float | None) -> None:
    args = ReservationArgs(gc_duration_seconds=seconds, disable_garbage_collection=disabled)
    assert args.keep_seconds == kept


@pytest.mark.parametrize(
    ("name", "is_valid"),
    [
        ("example.com/gpu", True),
        ("kubernetes.io.example.com/gpu", True),
        ("cpu", False),
        ("kubernetes.io/gpu", False),
        ("a.kubernetes.io/gpu", False),
        ("example.com/", False),
        ("/gpu", False),
        ("example.com/a/b", False),
    ],
)
def test_only_extended_resources_are_ignored(name: str, *, is_valid: bool) -> None:
    found = [*ReservationArgs(ignored_resources=(name,)).problems("args")]
    expected = "expected an extended resource, such as example.com/gpu"
    line = f'args.ignoredResources[0] is "{name}"; {expected}'
    assert found == ([] if is_valid else [line])


@pytest.mark.parametrize(
    ("group", "is_valid"),
    [("example.com", True), ("example.com/x", False), ("kubernetes.io", False), ("", False)],
)
def test_groups_are_what_extended_resources_begin_with(group: str, *, is_valid: bool) -> None:
    found = [*ReservationArgs(ignored_resource_groups=("example.com", group)).problems("args")]
    assert len(found) == (not is_valid)
    assert all(line.startswith("args.ignoredResourceGroups[1] is ") for line in found)


@pytest.mark.parametrize(("key", "number"), [("", 0), ("another", 1)])
def test_the_annotation_of_priorities_is_koordinators(key: str, number: int) -> None:
    config = PreAllocationConfig(cluster_priority_annotation_key=key)
    found = [*ReservationArgs(pre_allocation_config=config).problems("args")]
    assert len(found) == number
