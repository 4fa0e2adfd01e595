import pytest
from koord_host.knobs.device_forms import COST_QOS
from koord_host.knobs.forms import (
    BYTES_V1,
    BYTES_V2,
    BYTES_VENDOR,
    CPU_MASK,
    CPUS,
    DEVICES,
    NUMBER,
    PERIOD_V2,
    QUOTA_V2,
    TEXT,
    WEIGHT_V2,
    WORDS,
    Form,
    Value,
    devices,
)


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (NUMBER, "1024\n", 1024),
        (BYTES_V1, "9223372036854771712\n", -1),
        (BYTES_V1, "4096\n", 4096),
        (BYTES_V2, "max\n", -1),
        (QUOTA_V2, "max 100000\n", -1),
        (QUOTA_V2, "5000 100000\n", 5000),
        (PERIOD_V2, "5000 70000\n", 70_000),
        (PERIOD_V2, "max\n", 100_000),
        (WEIGHT_V2, "39\n", 999),
        (CPUS, "\n", ""),
        (CPU_MASK, "00000001,80000003\n", "0-1,31-32"),
        (CPU_MASK, "00\n", "none"),
        (CPUS, "0,1,2-3\n", "0-3"),
        (DEVICES, "8:16 5\n8:0 7\n", "8:0 7\n8:16 5"),
        (DEVICES, "\n", ""),
        (TEXT, '{"a":  1}\n', '{"a":  1}'),
        (WORDS, "4096\t87380\t6291456\n", "4096 87380 6291456"),
    ],
)
def test_read(form: Form, text: str, value: Value) -> None:
    assert form.decode(text) == value


@pytest.mark.parametrize(
    ("form", "value", "current", "text"),
    [
        (NUMBER, -1, "5", "-1"),
        (BYTES_V2, -1, "5", "max"),
        (QUOTA_V2, -1, "5000 100000", "max"),
        (QUOTA_V2, 5000, "max 100000", "5000"),
        (PERIOD_V2, 50_000, "5000 100000", "5000 50000"),
        (PERIOD_V2, 50_000, "", "max 50000"),
        (WEIGHT_V2, 1024, "", "39"),
        (CPUS, "0,1", "", "0-1"),
        (CPU_MASK, "0-1,31-32,71", "", "80,00000001,80000003"),
        (CPU_MASK, "none", "ff", "0"),
        (CPUS, "", "0-1", "\n"),
        (DEVICES, "8:0 5", "8:0 4\n8:16 3", "8:0 5\n8:16 3"),
    ],
)
def test_written(form: Form, value: Value, current: str, text: str) -> None:
    assert form.encode(value, current) == text


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (NUMBER, ""),
        (NUMBER, "many"),
        (QUOTA_V2, ""),
        (CPUS, "a-b"),
        (CPU_MASK, "x"),
        (DEVICES, "8:0"),
    ],
)
def test_text_that_no_kernel_gives(form: Form, text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        form.decode(text)


def test_bytes_are_rounded_to_pages_and_other_numbers_are_not() -> None:
    assert BYTES_V1.same(8192, 8193)
    assert not BYTES_V1.same(8191, 8192)
    assert not BYTES_V2.same(-1, 0)
    assert not NUMBER.same(50_000, 50_001)
    assert not CPUS.same("0", "1")


def test_devices() -> None:
    assert devices("8:0 5\n\n 8:16  7 \n") == {"8:0": 5, "8:16": 7}


@pytest.mark.parametrize("text", ["max\n", "9223372036854771712\n", str((1 << 63) - 1)])
def test_no_limit_of_a_vendors_kernel(text: str) -> None:
    assert BYTES_VENDOR.decode(text) == -1
    assert BYTES_VENDOR.encode(-1, "").isdigit()
    assert BYTES_VENDOR.same(-1, BYTES_VENDOR.decode(BYTES_VENDOR.encode(-1, "")))


COST = "8:0 enable=1 ctrl=user rpct=95.00 rlat=3000 wpct=95.00 wlat=3000 min=1.00 max=10000.00"


@pytest.mark.parametrize(
    ("form", "text", "known", "holds"),
    [
        (NUMBER, "5", [4, 5], True),
        (NUMBER, "6", [4, 5], False),
        (DEVICES, "8:0 5\n8:16 6", ["8:0 5\n8:16 6"], True),
        # Broken off after the first line, or with the second yet to come.
        (DEVICES, "8:0 5", ["", "8:0 5\n8:16 6"], True),
        (DEVICES, "8:0 5\n8:16 7", ["8:16 7", "8:0 5\n8:16 6"], True),
        (DEVICES, "8:0 5\n8:16 8", ["8:16 7", "8:0 5\n8:16 6"], False),
        (DEVICES, "8:32 5", ["", "8:0 5"], False),
        (DEVICES, "", ["8:0 5"], False),
        (DEVICES, "", ["8:0 5", "8:0 0"], True),
        (COST_QOS, COST, ["", "8:0 enable=1 ctrl=user rlat=3000"], True),
        (COST_QOS, COST, ["", "8:0 enable=1 ctrl=user rlat=4000"], False),
    ],
)
def test_what_a_file_is_made_of(form: Form, text: str, known: list[Value], holds: bool) -> None:
    assert form.made_of(text, known) is holds
