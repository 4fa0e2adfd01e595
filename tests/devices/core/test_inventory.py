"""What stays known: of vendors that fail, of devices that vanish, and over restarts."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from koord_devices.core.accelerator import Accelerator, DeviceLink
from koord_devices.core.document import Expiry, document, encode, states_of
from koord_devices.core.inventory import VendorState, answered, failed
from koord_model.node_info import SchedulableDevice

from tests.support.mutilation import mutilated

AT = 1_700_000_000.0


def accelerator(name: str, minor: int = 0, bus: str = "", reason: str = "") -> Accelerator:
    device = SchedulableDevice(
        type="gpu",
        id=name,
        minor=minor,
        resources={"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory": 64 << 30},
        healthy=not reason,
        reason=reason,
        message=reason and "it is broken",
        numa_node=1,
        pcie="pci0000:80",
        bus=bus,
    )
    return Accelerator(device, "v", "m", "1.2", (DeviceLink((9,), "NVLink"),), {"a": 1})


def reasons(state: VendorState) -> dict[str, str]:
    return {one.device.id: one.device.reason for one in state.accelerators}


def test_minors_are_numbers() -> None:
    state = answered(VendorState(), [accelerator("b", 10), accelerator("a", 2)], AT)
    assert [one.device.minor for one in state.accelerators] == [2, 10]


def test_a_device_that_vanishes_stays_and_is_not_healthy() -> None:
    state = answered(VendorState(), [accelerator("a"), accelerator("b", 1)], AT)
    state = answered(state, [accelerator("b", 1)], AT + 1)
    assert reasons(state) == {"a": "NotFound", "b": ""}
    assert reasons(answered(state, [accelerator("a"), accelerator("b", 1)], AT + 2)) == {
        "a": "",
        "b": "",
    }


def test_a_failure_keeps_what_was_known_and_each_devices_own_problem() -> None:
    state = answered(VendorState(), [accelerator("a"), accelerator("b", 1, "", "Xid79")], AT)
    state = failed(state, "Timeout", "it hangs")
    assert reasons(state) == {"a": "Timeout", "b": "Xid79"}
    assert (state.reason, state.answered_at) == ("Timeout", AT)
    state = failed(state, "ToolFailed", "it ended with 1")
    assert reasons(state) == {"a": "ToolFailed", "b": "Xid79"}
    assert reasons(answered(state, [accelerator("a"), accelerator("b", 1)], AT)) == {
        "a": "",
        "b": "",
    }


def test_of_a_vendor_that_never_answered_nothing_is_known() -> None:
    state = failed(VendorState(), "ToolMissing", "it is not installed")
    assert document({"v": state}, None) == []


def test_a_device_without_name_keeps_the_one_it_had_at_its_place() -> None:
    known = answered(VendorState(), [accelerator("a", 0, "0000:41:00.0")], AT)
    nameless = accelerator("", 5, "0000:41:00.0", "NotAvailable")
    elsewhere = accelerator("", 0, "0000:42:00.0", "NotAvailable")
    state = answered(known, [nameless, elsewhere], AT)
    assert reasons(state) == {"a": "NotAvailable"}
    assert state.accelerators[0].device.minor == 0
    assert len(state.unnamed) == 1


def test_what_a_tool_does_not_say_of_one_that_is_out_of_order_stays() -> None:
    known = answered(VendorState(), [accelerator("a")], AT)
    sick = accelerator("a", 0, "", "NotAnswering")
    bare = replace(sick, device=replace(sick.device, resources={"koordinator.sh/gpu-memory": 0}))
    (found,) = answered(known, [replace(bare, links=())], AT).accelerators
    assert found == sick
    (new,) = answered(VendorState(), [bare], AT).accelerators
    assert new == bare


STATES = st.lists(
    st.tuples(st.integers(0, 9), st.sampled_from(["", "Xid79"])), unique_by=lambda one: one[0]
)
STEPS = st.lists(st.none() | STATES, max_size=6)


@given(STEPS)
def test_no_device_is_ever_lost_nor_healthy_without_a_word(steps: list[object]) -> None:
    state, seen = VendorState(), set[str]()
    for step in steps:
        if step is None:
            state = failed(state, "Timeout", "it hangs")
            healthy = set[str]()
        else:
            found = [accelerator(f"g{number}", number, "", why) for number, why in step]  # type: ignore[misc]
            state = answered(state, found, AT)
            seen |= {one.device.id for one in found}
            healthy = {one.device.id for one in found if one.device.healthy}
        assert set(reasons(state)) == seen
        assert {name for name, why in reasons(state).items() if not why} == healthy


@given(STATES)
def test_the_file_says_all_that_was_known(found: list[tuple[int, str]]) -> None:
    given_ = [accelerator(f"g{number}", number, "0000:41:00.0", why) for number, why in found]
    state = answered(VendorState(), given_, AT)
    text = encode(document({"v": state}, Expiry(AT + 5, 60)))
    assert states_of(text) == ({"v": state} if found else {})


def test_what_is_no_device_in_a_file_is_left_out() -> None:
    good = document({"v": answered(VendorState(), [accelerator("a")], AT)}, None)
    text = encode([{"uuid": 5}, *good, {"minor": "x"}, 7, None])  # type: ignore[list-item]
    assert list(states_of(text)) == ["v"]
    assert states_of(b"{") == states_of(b"7") == {}


ODD: list[Any] = [5, None, True, "", "x", [], {}, ["x"], {"a": 1}, "9" * 5000, "-1", "1e99", 1e300]


@given(st.integers(), st.lists(st.sampled_from(ODD), max_size=3))
def test_a_file_that_somebody_else_has_written_is_read_as_far_as_it_is_one(
    seed: int, parts: list[Any]
) -> None:
    """An identifier that was a number stopped the daemon at the first answer."""
    linked = replace(accelerator("GPU-a"), links=(DeviceLink((1,), "NVLink"),))
    state = VendorState((linked, accelerator("GPU-b", 1)), AT)
    written = {"all": json.loads(encode(document({"v": state}, Expiry(AT, 60))))}
    spoilt = json.dumps(mutilated(written, random.Random(seed), parts).get("all"))
    found = states_of(spoilt)
    if not parts:
        assert [one.device.id for one in found["v"].accelerators] == ["GPU-a", "GPU-b"]
    after = {
        vendor: answered(failed(one, "r", "e"), [accelerator("GPU-c")], AT)
        for vendor, one in found.items()
    }
    states_of(encode(document(after, None)))
