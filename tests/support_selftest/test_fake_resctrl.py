"""The test double of resctrl: what the kernel's documentation and source say."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_host.kernel_files.interface import KernelFiles

from tests.support.fake_resctrl import FakeResctrl

ROOT = "/sys/fs/resctrl"


def answer(fake: FakeResctrl, file: str, text: str) -> str:
    """ "ok", or the errno's name and what the kernel says of it."""
    try:
        fake.write(f"{ROOT}/{file}", text)
    except OSError as error:
        status = fake.read(f"{ROOT}/info/last_cmd_status").strip()
        return f"{errno.errorcode[error.errno or 0]} {status}"
    assert fake.read(f"{ROOT}/info/last_cmd_status") == "ok\n"
    return "ok"


def error_of(call, *arguments) -> str:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - its errno is what counts
        call(*arguments)
    return errno.errorcode[caught.value.errno]


def test_it_is_kernel_files() -> None:
    files: KernelFiles = FakeResctrl()
    assert files.entries(ROOT) == ["info", "mon_data", "mon_groups"]
    assert files.entries(f"{ROOT}/info") == ["L3", "L3_MON", "MB"]
    assert files.identity(ROOT) == 1


def test_schemata_read_as_on_linux_6_1() -> None:
    fake = FakeResctrl(l3_domains=(0, 4), cbm_mask="7ff")
    fake.write(f"{ROOT}/schemata", "L3:4=f\nMB:0=50\n")
    assert fake.read(f"{ROOT}/schemata") == "    L3:0=7ff;4=00f\n    MB:0= 50;4=100\n"


def test_schemata_of_amd() -> None:
    fake = FakeResctrl(mb="amd", code_data=True, cbm_mask="ffff")
    fake.write(f"{ROOT}/schemata", "L3CODE:1=f\nMB:0=128\n")
    assert fake.read(f"{ROOT}/schemata") == (
        "L3CODE:0=ffff;1=000f\nL3DATA:0=ffff;1=ffff\n    MB:0= 128;1=2048\n"
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("L3:0=ff", "EINVAL ok"),  # no newline: refused before anything is noted
        ("L3:0=ff\n", "ok"),
        ("  L3 :0=0xff; \n", "EINVAL Missing '=' or non-numeric domain"),
        ("L3:0= ff ;1=f;\n", "ok"),
        ("L3:0=0\n", "EINVAL Mask out of range"),
        ("L3:0=1fffff\n", "EINVAL Mask out of range"),
        ("L3:0=f0f\n", "EINVAL The mask f0f has non-consecutive 1-bits"),
        ("L3:0=xyz\n", "EINVAL Non-hex character in the mask xyz"),
        ("L3:0=f;0=f\n", "EINVAL Duplicate domain 0"),
        ("L3:7=f\n", "EINVAL ok"),
        ("L3:a=f\n", "EINVAL Missing '=' or non-numeric domain"),
        ("L3:0\n", "EINVAL Missing '=' or non-numeric domain"),
        ("L3\n", "EINVAL Missing ':'"),
        ("\n", "EINVAL Missing ':'"),
        ("L3:\n", "EINVAL Missing 'L3' value"),
        ("L2:0=f\n", "EINVAL Unknown or unsupported resource name 'L2'"),
        ("MB:0=9\n", "EINVAL MB value 9 out of range [10,100]"),
        ("MB:0=101\n", "EINVAL MB value 101 out of range [10,100]"),
        ("MB:0=x\n", "EINVAL Invalid MB value x"),
        ("MB:0=-1\n", "EINVAL Invalid MB value -1"),
        ("MB:0=042\n", "ok"),
    ],
)
def test_schemata_are_checked(line: str, expected: str) -> None:
    assert answer(FakeResctrl(), "schemata", line) == expected


def test_masks_of_haswell_and_of_amd() -> None:
    assert answer(FakeResctrl(min_cbm_bits=2), "schemata", "L3:0=1\n") == (
        "EINVAL Need at least 2 bits in the mask"
    )
    assert answer(FakeResctrl(min_cbm_bits=0), "schemata", "L3:0=0\n") == "ok"
    assert answer(FakeResctrl(sparse_masks=True), "schemata", "L3:0=f0f\n") == "ok"


def test_a_bad_line_undoes_the_good_ones() -> None:
    fake = FakeResctrl()
    before = fake.read(f"{ROOT}/schemata")
    assert answer(fake, "schemata", "L3:0=f\nMB:0=1\n").startswith("EINVAL")
    assert fake.read(f"{ROOT}/schemata") == before
    assert fake.writes == []


def test_bandwidth_by_software_is_not_undone() -> None:
    fake = FakeResctrl(mb="mbps")
    assert answer(fake, "schemata", "MB:0=1234;1=x\n").startswith("EINVAL")
    assert fake.read(f"{ROOT}/schemata").endswith("MB:0= 1234;1=4294967295\n")


def test_bandwidth_is_rounded_up() -> None:
    fake = FakeResctrl()
    fake.write(f"{ROOT}/schemata", "MB:0=11;1=91\n")
    assert fake.read(f"{ROOT}/schemata").endswith("MB:0=   20;1=  100\n")


def test_the_fewest_closids_count() -> None:
    fake = FakeResctrl(closids=16, mb_closids=4)
    for name in "abc":
        fake.make_directory(f"{ROOT}/{name}")
    assert error_of(fake.make_directory, f"{ROOT}/d") == "ENOSPC"
    assert fake.read(f"{ROOT}/info/last_cmd_status") == "Out of CLOSIDs\n"
    fake.remove_directory(f"{ROOT}/b")
    fake.make_directory(f"{ROOT}/d")
    assert fake.entries(ROOT) == ["a", "c", "d", "info", "mon_data", "mon_groups"]
    assert fake.read(f"{ROOT}/info/L3/num_closids") == "16\n"


def test_code_and_data_halve_the_closids() -> None:
    fake = FakeResctrl(code_data=True, mb=None)
    assert fake.closids == 8
    assert fake.entries(f"{ROOT}/info") == ["L3CODE", "L3DATA", "L3_MON"]


def test_counters() -> None:
    fake = FakeResctrl(rmids=2, l3_domains=(0, 4))
    fake.make_directory(f"{ROOT}/a")
    assert error_of(fake.make_directory, f"{ROOT}/b") == "ENOSPC"
    assert fake.read(f"{ROOT}/info/last_cmd_status") == "Out of RMIDs\n"
    counter = f"{ROOT}/a/mon_data/mon_L3_04/llc_occupancy"
    fake.set_text(counter, "Unavailable\n")
    assert fake.read(counter) == "Unavailable\n"
    assert fake.read(f"{ROOT}/mon_data/mon_L3_00/mbm_total_bytes") == "0\n"
    assert not fake.exists(f"{ROOT}/mon_data/mon_L3_01/mbm_total_bytes")
    fake.add_task(7)
    assert answer(fake, "a/tasks", "7") == "ok"
    fake.remove_directory(f"{ROOT}/a")
    assert not fake.exists(counter)
    assert fake.read(f"{ROOT}/tasks") == "7\n"


@pytest.mark.parametrize(
    ("method", "where", "expected"),
    [("make", "a", "EEXIST"), ("make", "info", "EEXIST"), ("make", "x/y", "ENOENT"),
     ("make", "a/b", "EPERM"), ("make", "info/x", "ENODEV"), ("make", "a/mon_data/x", "EPERM"),
     ("make", "a\nb", "EINVAL"), ("make", "schemata", "EEXIST"), ("remove", "", "EBUSY"),
     ("remove", "info", "EPERM"), ("remove", "mon_groups", "EPERM"), ("remove", "x", "ENOENT"),
     ("remove", "tasks", "ENOTDIR")],
)  # fmt: skip
def test_directories_that_cannot_be_made_or_removed(method: str, where: str, expected: str) -> None:
    fake = FakeResctrl()
    fake.make_directory(f"{ROOT}/a")
    call = getattr(fake, f"{method}_directory")
    assert error_of(call, f"{ROOT}/{where}".rstrip("/")) == expected


def test_tasks_move_one_at_a_time() -> None:
    fake = FakeResctrl()
    fake.make_directory(f"{ROOT}/a")
    for pid in (5, 6):
        fake.add_task(pid)
    assert answer(fake, "a/tasks", "5\n") == "ok"
    assert answer(fake, "a/tasks", "9\n") == "ESRCH No task 9"
    assert answer(fake, "a/tasks", "5,6").startswith("EINVAL")
    assert answer(fake, "a/tasks", "5\n6").startswith("EINVAL")
    assert answer(fake, "a/tasks", "-5") == "EINVAL Invalid pid -5"
    assert (fake.read(f"{ROOT}/a/tasks"), fake.read(f"{ROOT}/tasks")) == ("5\n", "6\n")
    fake.remove_task(5)
    assert fake.read(f"{ROOT}/a/tasks") == ""


def test_exclusive_groups() -> None:
    fake = FakeResctrl(mb=None)
    fake.make_directory(f"{ROOT}/a")
    assert answer(fake, "a/mode", "exclusive\n") == "EINVAL Schemata overlaps"
    assert answer(fake, "a/schemata", "L3:0=f;1=f\n") == "ok"
    assert answer(fake, "schemata", "L3:0=ffff0;1=ffff0\n") == "ok"
    assert answer(fake, "a/mode", "exclusive\n") == "ok"
    assert answer(fake, "schemata", "L3:0=fffff\n") == "EINVAL Overlaps with exclusive group"
    assert answer(fake, "a/schemata", "L3:0=1f\n") == "EINVAL Overlaps with other group"
    assert answer(fake, "a/mode", "other\n") == "EINVAL Unknown or unsupported mode"
    fake.make_directory(f"{ROOT}/b")
    assert "L3:0=ffff0;1=ffff0" in fake.read(f"{ROOT}/b/schemata")


def test_what_cannot_be_written() -> None:
    fake = FakeResctrl()
    assert error_of(fake.write, f"{ROOT}/info/L3/cbm_mask", "f") == "EACCES"
    assert error_of(fake.write, f"{ROOT}/mon_data/mon_L3_00/llc_occupancy", "0") == "EACCES"
    assert error_of(fake.write, f"{ROOT}/info", "0") == "EISDIR"
    assert error_of(fake.write, f"{ROOT}/gone/schemata", "x\n") == "ENOENT"
    assert error_of(fake.read, "/elsewhere") == "ENOENT"


def test_a_group_vanishes_between_read_and_write() -> None:
    fake = FakeResctrl()
    fake.make_directory(f"{ROOT}/a")
    first = fake.identity(f"{ROOT}/a")
    fake.before_write = lambda _path, _text: fake.remove_group("a")
    assert error_of(fake.write, f"{ROOT}/a/schemata", "MB:0=10\n") == "ENOENT"
    fake.make_directory(f"{ROOT}/a")
    assert fake.identity(f"{ROOT}/a") != first


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("", "a/", "b/")),
            st.sampled_from(("L3", "MB")),
            st.integers(0, 2),
            st.integers(0, 0x1FFFFF),
        )
    )
)
def test_no_write_leaves_an_impossible_state(writes: list[tuple[str, str, int, int]]) -> None:
    fake = FakeResctrl()
    for name in "ab":
        fake.make_directory(f"{ROOT}/{name}")
    for group, resource, domain, value in writes:
        shown = f"{value:x}" if resource == "L3" else str(value % 120)
        answer(fake, f"{group}schemata", f"{resource}:{domain}={shown}\n")
        fake.check()
