"""Whatever a tool prints, a vendor answers with devices, or says that it does not understand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_devices.contract import ToolError
from koord_devices.core.document import document, encode, states_of
from koord_devices.core.inventory import VendorState, answered
from koord_devices.core.tool_output import OutputError
from koord_devices.vendor_table import load
from koord_host.devices import pci

from tests.support.recorded_tools import RECORDED, RecordedNode, pci_tree, recorded

NAMES = sorted(path.stem for path in RECORDED.glob("*.txt"))
VENDOR_OF = {"rocm": "amd"}
TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)


def vendor_of(name: str) -> str:
    first = name.partition("-")[0]
    return VENDOR_OF.get(first, first)


@st.composite
def spoiled(draw: st.DrawFn, name: str) -> dict[str, str]:
    """A recording in which a command is missing, or its lines are lost, doubled or overwritten."""
    printed = dict(recorded(name))
    for command in draw(st.sets(st.sampled_from(sorted(printed)), max_size=2)):
        lines = printed[command].splitlines()
        how = draw(st.sampled_from(["missing", "lost", "doubled", "word", "garbage", "cut"]))
        at = draw(st.integers(0, max(len(lines) - 1, 0)))
        if how == "missing":
            del printed[command]
            continue
        if how == "lost":
            del lines[at : at + draw(st.integers(1, 4))]
        elif how == "doubled":
            lines[at:at] = lines[at : at + 3]
        elif how == "word":
            words = lines[at].split(" ")
            words[draw(st.integers(0, len(words) - 1))] = draw(TEXTS)
            lines[at] = " ".join(words)
        elif how == "garbage":
            lines[at] = draw(TEXTS)
        text = "\n".join(lines)
        printed[command] = text[: draw(st.integers(0, len(text)))] if how == "cut" else text
    return printed


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_a_spoiled_output(name: str, data: st.DataObject) -> None:
    tree = pci_tree(("0000:41:00.0", "1002", "740f", "038000"))
    functions = list(pci.functions(tree, "/sys"))
    node = RecordedNode(data.draw(spoiled(name)), tree)
    vendor = load([vendor_of(name)])[vendor_of(name)]
    try:
        found = list(vendor.probe(node, functions))
    except (ToolError, OutputError):
        return
    assert found
    state = answered(VendorState(), found, node.wall)
    ids = [one.device.id for one in state.accelerators]
    assert len(ids) == len(set(ids))
    assert all(ids)
    assert all(one.device.minor >= 0 for one in state.accelerators)
    assert all(
        amount >= 0 for one in state.accelerators for amount in one.device.resources.values()
    )
    written = encode(document({"x": state}, None))
    kept = [one for each in states_of(written).values() for one in each.accelerators]
    assert sorted(one.device.id for one in kept) == sorted(ids)
