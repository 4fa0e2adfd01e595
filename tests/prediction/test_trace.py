import io

import numpy as np
import pytest
from koord_model.priority import PriorityClass
from koord_prediction.amount import ResourceAmount
from koord_prediction.trace import COLUMNS, parse

from tests.support.synthetic_trace import write

HEADER = ",".join(COLUMNS)


def lines(*rows: str, header: str = HEADER) -> io.StringIO:
    return io.StringIO("\n".join((header, *rows)) + "\n", newline="")


def test_rows_become_columns_of_pods() -> None:
    trace = parse(
        lines(
            "0,web,9500,2,1000,0.5,600",
            "300,web,9500,2,1000,0.6,700",
            "900,web,9500,2,1000,0.7,800",
            "300,job,koord-batch,1,500,1,400",
            "900,__node-sys__,,0,0,0.1,50",
        )
    )
    assert trace.times.tolist() == [0, 300, 600, 900]
    assert trace.step == 300
    assert [(pod.name, pod.priority, pod.request) for pod in trace.pods] == [
        ("web", PriorityClass.PROD, ResourceAmount(2, 1000)),
        ("job", PriorityClass.BATCH, ResourceAmount(1, 500)),
        ("__node-sys__", PriorityClass.NONE, ResourceAmount()),
    ]
    nan = np.nan
    expected = [[0.5, nan, nan], [0.6, 1, nan], [nan, nan, nan], [0.7, nan, 0.1]]
    assert np.array_equal(trace.cpu, expected, equal_nan=True)
    assert trace.memory[3].tolist() == pytest.approx([800, nan, 50], nan_ok=True)


def test_columns_may_come_in_any_order_with_others_and_rows_may_lack_a_priority() -> None:
    header = "pod,note,cpu,memory,time,priority,request_memory,request_cpu"
    trace = parse(lines("a,x,1,2,60,,3,4", "a,y,5,6,120,,3,4,9,9", header=header))
    assert trace.cpu[:, 0].tolist() == [1, 5]
    assert trace.pods[0].request == ResourceAmount(4, 3)
    assert trace.pods[0].priority is PriorityClass.NONE


def test_what_is_written_is_read() -> None:
    trace = parse(
        lines(
            '10,"a,""b",koord-mid,0.5,1073741824,0.123,4096',
            '40,"a,""b",koord-mid,0.5,1073741824,0,0',
            "70,c,,0,0,1.5,2",
        )
    )
    again = parse(io.StringIO("".join(write(trace)), newline=""))
    assert again.pods == trace.pods
    assert again.pods[0].name == 'a,"b'
    assert again.times.tolist() == trace.times.tolist()
    assert np.array_equal(again.cpu, trace.cpu, equal_nan=True)
    assert np.array_equal(again.memory, trace.memory, equal_nan=True)


GOOD = "0,web,9500,2,1000,0.5,600"

BAD = {
    "no header": (["x"], "line 1: no column time, pod", "a,b"),
    "column lacks": (["x"], "line 1: no column memory; expected", HEADER.replace(",memory", "")),
    "no number": ([GOOD, "300,web,9500,2,1000,much,600"], 'line 3: cpu is "much"; expe', HEADER),
    "negative": (["300,web,9500,2,1000,0.5,-1"], 'line 2: memory is "-1"; expected', HEADER),
    "not finite": (["300,web,9500,2,1000,inf,1"], 'line 2: cpu is "inf"', HEADER),
    "nan": (["nan,web,9500,2,1000,1,1"], 'line 2: time is "nan"', HEADER),
    "short row": ([GOOD, "300,web,9500"], 'line 3: request_cpu is ""', HEADER),
    "no pod": (["300,,9500,2,1000,1,1"], "line 2: no pod; expected a name", HEADER),
    "class": (["0,web,gold,2,1,1,1"], 'line 2: priority is "gold"; expected a number', HEADER),
    "other request": ([GOOD, "300,web,9500,3,1000,1,1"], 'line 3: pod "web" has another', HEADER),
    "twice": ([GOOD, "0,web,9500,2,1000,1,1"], 'line 3: pod "web" has a row of time 0', HEADER),
    "uneven": ([GOOD, "300,web,9500,2,1000,1,1", "650,web,9500,2,1000,1,1"],
               "times are not all 300 s apart", HEADER),
    "one step": ([GOOD], "1 points in time; expected two at least", HEADER),
    "empty": ([], "0 points in time", HEADER),
    "far apart": (["0,a,,1,1,1,1", "1,a,,1,1,1,1", "9e9,a,,1,1,1,1"], "9000000001 steps of 1 s",
                  HEADER),
}  # fmt: skip


@pytest.mark.parametrize(("rows", "why", "header"), BAD.values(), ids=BAD)
def test_an_invalid_trace_is_refused(rows: list[str], why: str, header: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 — the message is looked at below
        parse(lines(*rows, header=header))
    assert str(caught.value).startswith(why)
    assert "\n" not in str(caught.value)
