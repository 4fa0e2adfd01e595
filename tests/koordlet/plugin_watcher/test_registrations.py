"""Registered plugins: sockets that come, go and lie."""

from __future__ import annotations

import pytest
from koordlet.plugin_watcher.core.registrations import (
    GRACE_SECONDS,
    MOST_SOCKETS,
    PluginIntroduction,
    Registrations,
)

KIND = "EvictionPlugin"
SAID = PluginIntroduction(KIND, "numa", versions=("v1", "v1alpha1"))
FIRST, SECOND = (1, 1, 1), (1, 2, 2)


def _registered() -> Registrations:
    known = Registrations({KIND: ("v1alpha1",)})
    assert known.observe({"/d/a.sock": FIRST}, 0) == ("/d/a.sock",)
    assert known.register("/d/a.sock", FIRST, SAID) == ""
    return known


def test_a_plugin_stays_for_its_grace_and_comes_back_on_a_new_socket() -> None:
    known = _registered()
    assert known.observe({"/d/a.sock": FIRST}, 1) == ()  # asked once
    known.observe({}, 10)
    (plugin,) = known.plugins(KIND)
    assert (plugin.connected, plugin.version, plugin.endpoint) == (False, "v1alpha1", "/d/a.sock")
    known.observe({"/d/b.sock": SECOND}, 11)
    assert known.register("/d/b.sock", SECOND, SAID) == ""
    known.observe({}, 12)
    known.observe({}, 12 + GRACE_SECONDS - 1)
    assert [plugin.endpoint for plugin in known.plugins(KIND)] == ["/d/b.sock"]
    known.observe({}, 12 + GRACE_SECONDS)
    assert known.plugins(KIND) == ()


@pytest.mark.parametrize(
    ("said", "part"),
    [
        (PluginIntroduction("CSIPlugin", "x", versions=("v1alpha1",)), "its type"),
        (PluginIntroduction(KIND, "x\n", versions=("v1alpha1",)), "its name"),
        (PluginIntroduction(KIND, "x" * 254, versions=("v1alpha1",)), "its name"),
        (PluginIntroduction(KIND, "x", "run/x.sock", ("v1alpha1",)), "its endpoint"),
        (PluginIntroduction(KIND, "x", versions=("v2",)), "its versions"),
        (SAID, "another socket"),
    ],
)
def test_refusals_say_what_was_expected_and_are_tried_again_later(
    said: PluginIntroduction, part: str
) -> None:
    known = _registered()
    both = {"/d/a.sock": FIRST, "/d/b.sock": SECOND}
    known.observe(both, 0)
    reason = known.register("/d/b.sock", SECOND, said)
    assert part in reason
    known.failed("/d/b.sock", SECOND, reason, 0)
    assert len(known.plugins(KIND)) == 1
    assert known.observe(both, 0.9) == ()
    assert known.observe(both, 1) == ("/d/b.sock",)
    known.failed("/d/b.sock", SECOND, "silent", 1)
    assert known.observe(both, 2.9) == ()
    assert known.observe(both, 3) == ("/d/b.sock",)


def test_an_answer_of_a_socket_that_was_replaced_meanwhile_counts_for_nothing() -> None:
    known = Registrations({KIND: ("v1alpha1",)})
    known.observe({"/d/a.sock": FIRST}, 0)
    known.observe({"/d/a.sock": SECOND}, 1)
    assert known.register("/d/a.sock", FIRST, SAID) == "the socket is gone"
    assert known.plugins(KIND) == ()


def test_a_plugin_may_register_again_on_its_own_socket() -> None:
    known = _registered()
    known.failed("/d/a.sock", FIRST, "not notified", 0)
    assert known.observe({"/d/a.sock": FIRST}, 1) == ("/d/a.sock",)
    assert known.register("/d/a.sock", FIRST, SAID) == ""
    assert known.problems() == {}


def test_a_flood_of_sockets_displaces_nobody() -> None:
    known = _registered()
    many = {f"/d/{number:03}.sock": (1, number, 9) for number in range(2 * MOST_SOCKETS)}
    assert len(known.observe({"/d/a.sock": FIRST, **many}, 1)) == MOST_SOCKETS - 1
    assert len(known.plugins(KIND)) == 1
