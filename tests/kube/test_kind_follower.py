"""Losses of what is followed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from koord_kube.kind_follower import SILENT_SECONDS, KindFollower
from koord_kube.protocol.resources import PODS


@dataclass(eq=False)
class PlayedInformer:
    """An informer whose state a test sets."""

    is_followed: bool
    synced: bool = True
    is_optional: bool = False
    absent: bool = False


def test_two_informers_of_a_kind_are_lost_apart() -> None:
    clock = [0.0]
    follower = KindFollower(cast("Any", None), lambda: None, monotonic=lambda: clock[0])
    informers = (PlayedInformer(is_followed=False), PlayedInformer(is_followed=True))
    follower._informers = cast("Any", [(PODS, one) for one in informers])
    assert follower.silence() == ""
    clock[0] = SILENT_SECONDS + 1
    assert follower.silence() == "pods: not followed for 31 s"
    informers[0].is_followed = True
    assert follower.silence() == ""
