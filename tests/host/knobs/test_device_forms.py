"""Lines by device: as the kernel shows them, what is written of them, and what is put back."""

import pytest
from koord_host.knobs.device_forms import COST_MODEL, COST_QOS, IO_LATENCY, IO_MAX, WEIGHTS
from koord_host.knobs.forms import DEVICES, NUMBER, Form
from koord_host.knobs.table import KNOBS

BPS = IO_MAX["rbps"]
SHOWN = "8:0 rbps=4096 wbps=max riops=max wiops=10\n8:16 rbps=max wbps=5 riops=max wiops=max\n"
QOS = "8:0 enable=1 ctrl=user rpct=95.00 rlat=3000 wpct=97.50 wlat=3000 min=1.00 max=10000.00\n"
AUTO = "8:0 enable=1 ctrl=auto rpct=0.00 rlat=25000 wpct=0.00 wlat=25000 min=1.00 max=10000.00\n"
MODEL = "8:0 ctrl={} model=linear rbps=1 rseqiops=2 rrandiops=3 wbps=4 wseqiops=5 wrandiops=6\n"


@pytest.mark.parametrize(
    ("form", "text", "value"),
    [
        (BPS, SHOWN, "8:0 4096"),
        (IO_MAX["wiops"], SHOWN, "8:0 10"),
        (IO_MAX["riops"], SHOWN, ""),
        (BPS, "", ""),
        (BPS, f"\n{SHOWN}", "8:0 4096"),
        (WEIGHTS, "default 100\n\n", "default 100"),
        (IO_LATENCY, "8:16 target=75000\n8:0 target=5\n", "8:0 5\n8:16 75000"),
        (WEIGHTS, "default 100\n8:0 50\n", "default 100\n8:0 50"),
        (COST_QOS, QOS, QOS.replace("0.00", "0").replace(".00", "").replace(".50", ".5").strip()),
        (COST_QOS, AUTO, "8:0 enable=1 ctrl=auto"),
        (COST_QOS, AUTO.replace("enable=1", "enable=0"), ""),
        (COST_MODEL, MODEL.format("auto"), ""),
        (COST_MODEL, MODEL.format("user"), MODEL.format("user").strip()),
    ],
)  # fmt: skip
def test_read(form: Form, text: str, value: str) -> None:
    assert form.decode(text) == value


@pytest.mark.parametrize(
    ("form", "value", "current", "lines"),
    [
        (DEVICES, "8:0 5\n8:16 3", "8:0 4\n8:16 3", ["8:0 5"]),
        (DEVICES, "8:0 0\n8:16 0", "8:0 4", ["8:0 0"]),
        (BPS, "8:0 5\n8:16 9", SHOWN, ["8:0 rbps=5", "8:16 rbps=9"]),
        (BPS, "8:0 4096\n8:16 0", SHOWN, []),
        (BPS, "8:0 0", SHOWN, ["8:0 rbps=max"]),
        (IO_LATENCY, "8:0 0\n8:16 7", "8:0 target=5\n", ["8:0 target=max", "8:16 target=7"]),
        (WEIGHTS, "8:0 50", "default 100\n", ["8:0 50"]),
        (WEIGHTS, "default 100\n8:0 0", "default 90\n8:0 5\n", ["default 100", "8:0 default"]),
        (WEIGHTS, "8:0 0", "default 100\n", []),
        (COST_QOS, "8:0 enable=1 ctrl=user rpct=95", QOS, []),
        (COST_QOS, "8:0 enable=1 ctrl=user rpct=95.5", QOS, ["8:0 enable=1 ctrl=user rpct=95.5"]),
        (COST_QOS, "8:0 enable=1 ctrl=user rlat=7", AUTO, ["8:0 enable=1 ctrl=user rlat=7"]),
        (COST_QOS, "8:0 enable=1 ctrl=auto", AUTO, []),
        (COST_QOS, "8:0 enable=0", QOS, ["8:0 enable=0"]),
        (COST_QOS, "8:0 enable=0", "", []),
        (COST_MODEL, "8:0 ctrl=auto", MODEL.format("user"), ["8:0 ctrl=auto"]),
        (COST_MODEL, "8:0 ctrl=auto", "", []),
        (COST_MODEL, "8:0 ctrl=user rbps=1", MODEL.format("user"), []),
    ],
)
def test_lines_to_write(form: Form, value: str, current: str, lines: list[str]) -> None:
    assert form.lines is not None
    assert form.lines(value, current) == lines


@pytest.mark.parametrize(
    ("knob", "value", "text", "held"),
    [
        ("blkio.throttle.read_bps_device", "8:0 4096", SHOWN, True),
        ("blkio.throttle.read_bps_device", "8:0 4096\n8:16 0\n8:32 0", SHOWN, True),
        ("blkio.throttle.read_bps_device", "8:16 4096", SHOWN, False),
        ("io.latency", "8:0 5", "8:0 target=5\n", True),
        ("blkio.cost.weight", "8:0 50", "default 100\n8:0 50\n8:16 9\n", True),
        ("blkio.cost.weight", "8:0 50", "default 100\n", False),
        ("blkio.cost.qos", "8:0 enable=1 ctrl=user rpct=95 wpct=97.5", QOS, True),
        ("blkio.cost.qos", "8:0 enable=1 ctrl=user rpct=95", AUTO, False),
        ("blkio.cost.model", "8:0 ctrl=auto", MODEL.format("auto"), True),
    ],
)
def test_whether_a_file_holds_a_value(knob: str, value: str, text: str, held: bool) -> None:
    assert KNOBS[knob].form(2).holds(value, text) is held


@pytest.mark.parametrize(
    ("form", "found", "gone", "complete"),
    [
        (DEVICES, "8:0 5", "8:0 7\n8:16 3", "8:0 5\n8:16 0"),
        (DEVICES, "", "8:16 3", "8:16 0"),
        (WEIGHTS, "default 100", "default 90\n8:0 5", "default 100\n8:0 0"),
        (COST_QOS, "", "8:0 enable=1 ctrl=auto", "8:0 enable=0"),
        (COST_MODEL, "", "8:16 ctrl=user rbps=1", "8:16 ctrl=auto"),
    ],
)
def test_what_is_put_back_names_every_device(
    form: Form, found: str, gone: str, complete: str
) -> None:
    assert form.complete(found, gone) == complete
    assert form.same(found, complete)


def test_a_value_of_no_lines_is_complete() -> None:
    assert NUMBER.complete(5, 7) == 5


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (BPS, "8:0"),
        (IO_LATENCY, "8:0 x"),
        (WEIGHTS, "8:0 10001"),
        (WEIGHTS, "default 0"),
        (WEIGHTS, "100"),
        (COST_QOS, "8:0 enable"),
        (COST_QOS, "x enable=1"),
        (COST_QOS, "8:0 sheep=1"),
        (COST_QOS, "8:0 ctrl=manual"),
        (COST_MODEL, "8:0 rbps=max"),
    ],
)
def test_what_nobody_can_want(form: Form, text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        form.encode(text, "")
