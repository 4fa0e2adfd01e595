from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.kernel_files.schemata import (
    BandwidthInfo,
    BandwidthUnit,
    CacheInfo,
    ResctrlInfo,
    differing,
    parse,
    read_info,
    render,
    wanted,
)
from koord_model.resctrl import CacheWays, ResctrlLimits

L3 = {"num_closids": "16\n", "cbm_mask": "7ff\n", "min_cbm_bits": "1\n", "sparse_masks": "0\n"}
MB = {"num_closids": "8\n", "min_bandwidth": "10\n", "bandwidth_gran": "10\n"}
INTEL = "    L3:0=7ff;1=7ff\n    MB:0=100;1=100\n"
AMD_MB = {"num_closids": "16\n", "min_bandwidth": "1\n", "bandwidth_gran": "1\n"}

RANGES = st.tuples(st.integers(0, 99), st.integers(1, 100)).filter(lambda pair: pair[0] < pair[1])


def intel(**more: str) -> ResctrlInfo:
    return read_info({"L3": {**L3, **more}, "MB": MB, "L3_MON": {}}, INTEL)


def kernel_takes(mask: int, full: int, least: int, sparse: bool) -> bool:
    """The checks of the kernel's cbm_validate, on the text it would be given."""
    bits = f"{mask:b}".strip("0")
    first_run = f"{mask:b}"[::-1].lstrip("0").split("0")[0]
    in_range = mask <= full and (mask or not least)
    return bool(in_range) and (sparse or "0" not in bits) and len(first_run) >= least


# Masks


@given(st.integers(1, 64), st.data(), RANGES, st.booleans(), st.integers(0, 16))
def test_a_mask_is_legal_on_any_hardware(
    count: int, data: st.DataObject, ends: tuple[int, int], sparse: bool, first: int
) -> None:
    least = data.draw(st.integers(0, count))
    full = ((1 << count) - 1) << first
    mask = CacheInfo(full, least, sparse).mask(CacheWays(*ends))
    assert mask
    assert mask & full == mask
    assert kernel_takes(mask, full, least, sparse)


@given(st.integers(1, 64), st.data(), RANGES)
def test_a_mask_is_koordinators_unless_that_is_too_small(
    count: int, data: st.DataObject, ends: tuple[int, int]
) -> None:
    least = data.draw(st.integers(0, count))
    start, end = (-(-count * percent // 100) for percent in ends)
    mask = CacheInfo((1 << count) - 1, least).mask(CacheWays(*ends))
    if end - start >= max(least, 1):
        assert mask == (1 << end) - (1 << start)
    else:
        assert mask.bit_count() == max(least, 1)


@pytest.mark.parametrize(
    ("full", "least", "ends", "mask"),
    [
        (0x3FF, 1, (10, 80), 0xFE),  # the three of Koordinator's comments
        (0x7FF, 1, (10, 50), 0x3C),
        (0x7FF, 1, (0, 30), 0xF),
        (0x7FF, 1, (0, 100), 0x7FF),
        (0xFFFFF, 2, (0, 1), 0x3),
        (0xFFFFF, 2, (99, 100), 0xC0000),
        (0xFFFF, 0, (50, 51), 0x100),
        (0x7FF, 0, (10, 15), 0x4),  # both ends in one way: upwards
    ],
)
def test_masks(full: int, least: int, ends: tuple[int, int], mask: int) -> None:
    assert CacheInfo(full, least).mask(CacheWays(*ends)) == mask


def test_only_the_first_run_of_a_full_mask_with_gaps_is_used() -> None:
    assert CacheInfo(0b1101110).mask(CacheWays(0, 100)) == 0b1110


# Bandwidth


AMD, NO_LIMIT = "MB:0=2048;1=  16\n", "MB:0=4294967295;1=4294967295\n"


@pytest.mark.parametrize(
    ("files", "root", "measured", "values"),
    [
        (MB, INTEL, None, {1: 10, 10: 10, 11: 20, 50: 50, 99: 100, 100: 100}),
        # On AMD 100 percent is what the root group has, or what was measured.
        (AMD_MB, AMD, None, {1: 21, 50: 1024, 99: 2028, 100: 2048}),
        (AMD_MB, AMD, 160, {1: 2, 50: 80, 99: 159, 100: 2048}),
        # With mba_MBps it is what was measured, or what the root group is set to.
        (MB, NO_LIMIT, 90_001, {50: 45_001}),
        (MB, "MB:0=80000\n", None, {50: 40_000, 100: 80_000}),
        (MB, NO_LIMIT, None, {100: 4294967295}),
    ],
)
def test_bandwidth(
    files: dict[str, str], root: str, measured: int | None, values: dict[int, int]
) -> None:
    mbps = root == "MB:0=80000\n"
    bandwidth = read_info({"MB": files}, root, full_bandwidth=measured, mbps_event=mbps).bandwidth
    assert bandwidth is not None
    assert {percent: bandwidth.value(percent) for percent in values} == values


@pytest.mark.parametrize("mbps_event", [False, True])
def test_with_mba_mbps_100_percent_is_not_known_by_itself(mbps_event: bool) -> None:
    bandwidth = read_info({"MB": MB}, NO_LIMIT, mbps_event=mbps_event).bandwidth
    assert bandwidth is not None
    assert bandwidth.units is BandwidthUnit.MBPS
    with pytest.raises(ValueError, match="50 % of an unknown bandwidth: under mba_MBps"):
        bandwidth.value(50)


@given(st.integers(1, 100), st.integers(1, 40), st.integers(1, 40))
def test_percent_are_legal_on_any_hardware(percent: int, least: int, step: int) -> None:
    value = BandwidthInfo(BandwidthUnit.PERCENT, least, step, 100, 100).value(percent)
    assert max(least, percent) <= value <= 100
    assert value % step == 0 or value == 100


# The info directory


def test_the_least_number_of_closids_counts() -> None:
    info = intel(min_cbm_bits="2")
    assert info.closids == 8
    assert info.caches == {"L3": CacheInfo(0x7FF, 2, False)}
    assert info.root == {"L3": {0: 0x7FF, 1: 0x7FF}, "MB": {0: 100, 1: 100}}


def test_code_and_data_and_l2() -> None:
    text = "L3DATA:0=fff;2=fff\nL3CODE:0=fff;2=fff\nL2:0=ff;1=ff;16=ff\nSMBA:0=2048\n"
    cache = {"num_closids": "8", "cbm_mask": "fff", "sparse_masks": "1"}
    info = read_info({"L3CODE": cache, "L3DATA": cache, "L2": {**cache, "cbm_mask": "ff"}}, text)
    assert info.closids == 8
    assert info.bandwidth is None
    assert info.caches["L3CODE"] == info.caches["L3DATA"] == CacheInfo(0xFFF, 1, True)
    limits = ResctrlLimits(
        "g", llc=CacheWays(0, 50), l2=CacheWays(50, 100), l2_by_domain={16: CacheWays(0, 25)}
    )
    assert wanted(info, limits, info.root) == (
        {
            "L3DATA": {0: 0x3F, 2: 0x3F},
            "L3CODE": {0: 0x3F, 2: 0x3F},
            "L2": {0: 0xF0, 1: 0xF0, 16: 0x3},
        },
        (),
    )


@pytest.mark.parametrize(
    ("files", "root", "message"),
    [
        ({"L3_MON": {"num_rmids": "8"}}, "", "no cache or memory bandwidth to allocate"),
        ({"L3": {**L3, "cbm_mask": "xyz"}}, INTEL, "info/L3/cbm_mask is 'xyz'"),
        ({"L3": {**L3, "cbm_mask": "0"}}, INTEL, "info/L3/cbm_mask is 0; expected a mask"),
        ({"L3": {**L3, "num_closids": ""}}, INTEL, "info/L3/num_closids is ''"),
        ({"MB": {"num_closids": "8"}}, INTEL, "info/MB/min_bandwidth is ''"),
        ({"L3": L3}, "L3:0=7ff;1\n", "schemata line 'L3:0=7ff;1'; expected domain=value"),
        ({"L3": L3}, "L3:0=\n", "schemata line"),
    ],
)
def test_what_the_kernel_never_writes(
    files: dict[str, dict[str, str]], root: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        read_info(files, root)


# Schemata

SCHEMATA = st.dictionaries(
    st.sampled_from(["L3", "L3CODE", "L3DATA", "L2", "MB"]),
    st.dictionaries(st.integers(0, 500), st.integers(0, 1 << 32), min_size=1),
)


@given(SCHEMATA)
def test_what_is_rendered_can_be_read(schemata: dict[str, dict[int, int]]) -> None:
    text = "".join(f"{render(name, values)}\n" for name, values in schemata.items())
    assert parse(text) == schemata


def test_lines_are_as_the_kernel_reads_them() -> None:
    assert render("L3", {10: 255, 2: 15}) == "L3:2=f;10=ff"
    assert render("MB", {0: 50, 1: 100}) == "MB:0=50;1=100"


@given(SCHEMATA, SCHEMATA)
def test_only_what_differs_is_written(
    aims: dict[str, dict[int, int]], current: dict[str, dict[int, int]]
) -> None:
    changes = differing(aims, current)
    applied = {name: {**current.get(name, {}), **aims[name]} for name in changes}
    assert differing(aims, {**current, **applied}) == {}
    for name, values in changes.items():
        assert values
        assert all(current.get(name, {}).get(domain) != value for domain, value in values.items())


HALF = CacheWays(0, 50)
CODE = {"num_closids": "8", "cbm_mask": "fff"}
BOTH = {"L3": L3, "MB": MB}


@pytest.mark.parametrize(
    ("files", "root", "limits", "current", "aims", "problems"),
    [
        (  # domains of their own and others
            BOTH, "L3:0=7ff;8=7ff\nMB:0=100;8=100\n",
            {"llc": HALF, "mb": 20, "llc_by_domain": {8: CacheWays(50, 100)},
             "mb_by_domain": {0: 70}}, None,
            {"L3": {0: 0x3F, 8: 0x7C0}, "MB": {0: 70, 8: 20}}, (),
        ),
        (  # what is not wanted is as in the root group
            BOTH, "L3:0=7f;1=7ff\nMB:0=90;1=100\n", {"mb_by_domain": {1: 50}},
            "L3:0=1;1=1\nMB:0=10;1=10\n", {"L3": {0: 0x7F, 1: 0x7FF}, "MB": {0: 90, 1: 50}}, (),
        ),
        (  # a domain that came later is left alone unless it is wanted
            BOTH, INTEL, {"mb": 50}, "L3:0=7ff;1=7ff;2=7ff\nMB:0=100;1=100;2=100\n",
            {"L3": {0: 0x7FF, 1: 0x7FF}, "MB": {0: 50, 1: 50, 2: 50}}, (),
        ),
        (  # resources that info does not know are left alone
            BOTH, INTEL, {"llc": HALF}, "L2:0=f\nL3:0=7ff\n", {"L3": {0: 0x3F}}, (),
        ),
        (
            {"L3CODE": CODE, "L3DATA": CODE}, "L3DATA:0=fff;1=fff\nL3CODE:0=fff;1=fff\n",
            {"llc_by_domain": {1: HALF, 7: HALF}}, None,
            {"L3CODE": {0: 0xFFF, 1: 0x3F}, "L3DATA": {0: 0xFFF, 1: 0x3F}},
            ("llc: cacheID 7 does not exist; there are: 0, 1",),
        ),
        (
            {"L3": L3}, "L3:0=7ff\n",
            {"llc": CacheWays(0, 10), "mb": 50, "l2_by_domain": {0: CacheWays()}}, None,
            {"L3": {0: 0x3}},
            ("l2: this node has no L2 to allocate", "mb: this node has no MB to allocate"),
        ),
        (  # a bandwidth that is not known leaves the root's
            {"MB": MB}, "MB:0=4294967295\n", {"mb": 50}, None, {"MB": {0: 4294967295}},
            ("mb: 50 % of an unknown bandwidth",),
        ),
    ],
)  # fmt: skip
def test_what_is_wanted(
    files: dict[str, dict[str, str]],
    root: str,
    limits: dict[str, Any],
    current: str | None,
    aims: dict[str, dict[int, int]],
    problems: tuple[str, ...],
) -> None:
    info = read_info(files, root)
    there = info.root if current is None else parse(current)
    found, lines = wanted(info, ResctrlLimits("g", **limits), there)
    assert found == aims
    assert [line[: len(said)] for line, said in zip(lines, problems, strict=True)] == [*problems]
