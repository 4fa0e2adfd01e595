"""Accelerators from files of device plugins: whatever they write, the rest is used."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.knobs.layout import Driver, Layout
from koord_model.node_info import GPUs, SchedulableDevice, XPUs
from koordlet.metrics_advisor.collectors import xpu
from koordlet.metrics_advisor.contract.collector import (
    CollectContext,
    CollectorSources,
    Samples,
    UnavailableError,
)

from tests.support.text_tree import TextTree

HERE = "/var/run/koordlet/xpu-device-infos"


def described(**fields: Any) -> dict[str, Any]:
    """One device, as Huawei's plugin would describe it."""
    whole: dict[str, Any] = {
        "vendor": "huawei",
        "model": "Ascend-310P3-300I-DUO",
        "uuid": "185011D4-21104518-A0C4ED94-14CC040A-56102003",
        "minor": "0",
        "resources": {"gpu-core": "100", "gpu-memory": "24Gi", "huawei.com/npu-cpu": "7"},
        "topology": {"nodeID": "1", "pcieID": "pci0000:80", "busID": "0000:81:00.0"},
        "status": {"healthy": True},
    }
    return {name: value for name, value in (whole | fields).items() if value is not ...}


def collector(files: dict[str, Any]) -> xpu.Collector:
    texts: dict[str, str | OSError] = {
        f"{HERE}/{name}": given if isinstance(given, str | OSError) else json.dumps(given)
        for name, given in files.items()
    }
    return xpu.Collector(CollectorSources(TextTree(texts), Layout(2, Driver.SYSTEMD)))


def collect(files: dict[str, Any]) -> tuple[XPUs, Samples]:
    found = collector(files).collect(CollectContext(0.0, 0.0))
    (info,) = found.infos
    assert type(info) is XPUs
    return info, found


def test_a_device_with_all_that_it_says() -> None:
    info, found = collect({"huawei.json": [described()]})
    assert info == XPUs((ASCEND,), vendor="huawei", model="Ascend-310P3-300I-DUO")
    assert not found.partial
    assert not isinstance(GPUs(()), XPUs)  # the two are infos of their own


ASCEND = SchedulableDevice(
    type="gpu",
    id="185011D4-21104518-A0C4ED94-14CC040A-56102003",
    minor=0,
    resources={
        "koordinator.sh/gpu-memory-ratio": 100,
        "koordinator.sh/gpu-core": 100,
        "koordinator.sh/gpu-memory": 24 << 30,
        "huawei.com/npu-cpu": 7,
    },
    numa_node=1,
    pcie="pci0000:80",
    bus="0000:81:00.0",
)


@pytest.mark.parametrize(
    ("fields", "changes"),
    [
        (
            {"status": {"healthy": False, "errCode": "E7", "errMessage": "too hot"}},
            {"healthy": False, "reason": "E7", "message": "too hot"},
        ),
        ({"status": {"healthy": False}}, {"healthy": False, "reason": "Unknown"}),
        ({"status": ...}, {}),
        ({"topology": ...}, {"numa_node": -1, "pcie": "", "bus": ""}),
        ({"resources": ...}, {"resources": {"koordinator.sh/gpu-memory-ratio": 100}}),
    ],
)
def test_a_device_that_says_something_else(fields: dict[str, Any], changes: dict[str, Any]) -> None:
    info, found = collect({"a": [described(**fields)]})
    assert info.devices == (replace(ASCEND, **changes),)
    assert not found.partial


def test_devices_that_are_linked_are_a_table_of_partitions() -> None:
    def linked(minor: int, *peers: str) -> dict[str, Any]:
        links = [{"peerMinor": peer, "type": "HCCS"} for peer in peers]
        return described(uuid=f"u{minor}", minor=str(minor), topology={"p2pLinks": links})

    every = [linked(1, "0", "0,2,3"), linked(0, "1", "1,2,3"), linked(3, "2"), linked(2, "3")]
    info, found = collect({"a": every})
    assert json.loads(info.partitions) == {
        "2": [
            {"minors": [0, 1], "gpuLinkType": "HCCS", "allocationScore": 1},
            {"minors": [2, 3], "gpuLinkType": "HCCS", "allocationScore": 1},
        ],
        "4": [{"minors": [0, 1, 2, 3], "gpuLinkType": "HCCS", "allocationScore": 1}],
    }
    assert info.partition_policy == "Prefer"
    assert [device.minor for device in info.devices] == [0, 1, 2, 3]
    assert not found.partial
    every[2]["topology"]["mustHonorPartition"] = True
    assert collect({"a": every})[0].partition_policy == "Honor"


@pytest.mark.parametrize(
    ("other", "whole", "said"),
    [
        ("", False, "is not valid JSON"),
        ("[{]", False, "is not valid JSON"),
        ("\x00\x01", False, "is not valid JSON"),
        ("[" * 100_000, False, "is not valid JSON"),
        ('{"uuid": "x"}', False, "is not a JSON array of devices (file ignored)"),
        ("7", False, "is not a JSON array of devices (file ignored)"),
        (OSError(5, "Input/output error"), False, "cannot be read: Input/output error"),
        ([{"minor": "1"}], False, "(device ignored)"),
        ([], True, ""),
        ("null", True, ""),
        (FileNotFoundError(2, "No such file or directory"), True, ""),
    ],
    ids=[
        *("empty", "cut", "binary", "deep", "object", "number", "unreadable", "no device"),
        *("no devices", "null", "gone"),
    ],
)
def test_a_bad_file_costs_itself_with_one_line(other: Any, whole: bool, said: str) -> None:
    info, found = collect({"bad": other, "good": [described()]})
    assert (len(info.devices), info.whole) == (1, whole)
    assert len(found.partial) == bool(said)
    for line in found.partial:
        assert line.startswith(f"{HERE}/bad ")
        assert said in line
        assert "\n" not in line


@pytest.mark.parametrize(
    "bad",
    [
        7,
        None,
        "x",
        described(uuid=...),
        described(uuid=""),
        described(uuid=7),
        described(minor=...),
        described(minor="x"),
        described(minor="-1"),
        described(minor="99999999999"),
        described(minor=True),
        described(minor=1.5),
        described(minor="1_0"),
    ],
)
def test_a_bad_device_costs_itself_with_one_line(bad: object) -> None:
    info, found = collect({"a": [bad, described(uuid="good", minor=1)]})
    assert [device.id for device in info.devices] == ["good"]
    (line,) = found.partial
    assert line.startswith("/var/run/koordlet/xpu-device-infos/a devices[0]")
    assert line.endswith(("(device ignored)", "(left out)"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"resources": 7}, "resources is 7; expected an object"),
        ({"resources": {"gpu-core": "lots"}}, 'gpu-core is "lots"; expected a quantity'),
        ({"resources": {"gpu-core": "-1"}}, 'gpu-core is "-1"; expected a quantity'),
        ({"resources": {"gpu-core": True}}, "gpu-core is true; expected a quantity"),
        ({"status": "fine"}, 'status is "fine"; expected an object'),
        ({"status": {"healthy": "no"}}, 'status.healthy is "no"; expected true or false'),
        ({"topology": {"nodeID": "first"}}, 'topology.nodeID is "first"'),
        ({"topology": {"p2pLinks": [{"peerMinor": "a", "type": "x"}]}}, 'peerMinor is "a"'),
        ({"resources": {"a\nb": "1"}}, "expected quantities by resource name"),
        ({"vendor": []}, "vendor is a list; expected text"),
    ],
)
def test_a_bad_field_costs_itself_with_a_line(fields: dict[str, Any], said: str) -> None:
    info, found = collect({"a": [described(**fields)]})
    assert len(info.devices) == 1
    assert len(found.partial) == 1
    assert said in found.partial[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*described(), "healthy", "p2pLinks", "x"]), inner)
    ),
    max_leaves=8,
)


@given(bad=JSON, field=st.sampled_from(sorted(described())), value=JSON)
def test_whatever_a_plugin_writes_the_others_devices_are_there(
    bad: object, field: str, value: object
) -> None:
    files = {"a": bad, "b": [described(**{field: value})], "c": [described(uuid="good", minor="9")]}
    info, found = collect(files)
    assert "good" in [device.id for device in info.devices]
    assert all("\n" not in line for line in found.partial)


def test_a_device_described_twice_is_one() -> None:
    info, found = collect({"a": [described()], "b": [described(minor="3")]})
    assert [device.minor for device in info.devices] == [0]
    assert len(found.partial) == 1


def test_directories_hidden_files_and_empty_lists_are_nothing() -> None:
    info, found = collect({"d/inner": "garbage", ".half": "[{", "a": [], "b": "null"})
    assert (info, found.partial) == (XPUs(()), ())


def raiser(error: OSError) -> Callable[[str], list[str]]:
    def fail(_: str) -> list[str]:
        raise error

    return fail


def test_no_directory_is_unavailable_until_a_plugin_comes_and_empty_after_it_went(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = collector({})
    look = CollectContext(0.0, 0.0)
    with pytest.raises(UnavailableError, match=f"{HERE} is not there"):
        one.collect(look)
    tree = one._tree
    assert isinstance(tree, TextTree)
    for healthy in (True, False):
        tree.texts[f"{HERE}/a"] = json.dumps([described(status={"healthy": healthy})])
        (info,) = one.collect(look).infos
        assert one.collect(look).infos == (info,)
        assert isinstance(info, XPUs)
        assert [device.healthy for device in info.devices] == [healthy]
    error = OSError(24, "Too many open files")
    with monkeypatch.context() as patched:
        patched.setattr(tree, "names", raiser(error))
        with pytest.raises(UnavailableError, match=f"{HERE} cannot be read: Too many open files"):
            one.collect(look)  # the devices stay
    tree.remove(f"{HERE}/a")
    assert one.collect(look).infos == (XPUs(()),)


@pytest.mark.parametrize(
    ("at", "expiry", "reason"),
    [
        (59.0, "1970-01-01T00:01:00Z", ""),
        (60.0, "1970-01-01T00:01:00Z", "Stale"),
        (1e12, ..., ""),
        (1e9, "soon", ""),
    ],
)
def test_a_description_that_nobody_confirms_is_stale(at: float, expiry: Any, reason: str) -> None:
    """The file itself stays as it is."""
    one = collector({"a": [described(expiryTime=expiry)]})
    for when, expected in ((0.0, ""), (at, reason)):
        (info,) = one.collect(CollectContext(when, 0.0)).infos
        assert isinstance(info, XPUs)
        (device,) = info.devices
        assert (device.reason, device.healthy) == (expected, not expected)
    sick = collector({"a": [described(expiryTime=expiry, status={"healthy": False})]})
    (info,) = sick.collect(CollectContext(at, 0.0)).infos
    assert isinstance(info, XPUs)
    assert info.devices[0].reason == "Unknown"
