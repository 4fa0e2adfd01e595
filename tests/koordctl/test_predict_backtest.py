import dataclasses
import functools
import gzip
from pathlib import Path

import pytest
from koord_prediction.backtest import Backtest, PredictionMethod
from koordctl.backtest_options import BacktestOptions
from koordctl.errors import AskError, UsageError
from koordctl.output.documents import from_value
from koordctl.output.tables import plain
from koordctl.predict_backtest import MOST_BYTES, lines, read, run

HEADER = "time,pod,priority,request_cpu,request_memory,cpu,memory\n"
SHORT = BacktestOptions(horizon=120, cold_start_duration=120)


def rows(steps: int = 10) -> str:
    return HEADER + "".join(f"{60 * n},web,9500,4,{4 << 30},1,{1 << 30}\n" for n in range(steps))


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(rows())
    return path


def test_the_result_of_a_trace(trace: Path) -> None:
    text = plain(lines(run(str(trace), SHORT)))
    assert (
        text[0]
        == "10 steps of 1 min, 1 pods. Evaluated: 6 windows of 2 min, after the first 2 min."
    )
    assert "CPU, cores (actual peak: 1 on average)" in text
    assert "Memory, GiB (actual peak: 1 on average)" in text
    header = text.index("CPU, cores (actual peak: 1 on average)") + 1
    words = " ".join(text[header].split())
    assert words == "TOO LOW BELOW P99 MEAN SHORTFALL WORST SHORTFALL MEAN EXCESS"
    [requests] = [line for line in text[header:] if line.startswith("requests")][:1]
    assert " ".join(requests.split()) == "requests 0.0% 0.0% 0 (0.0%) 0 (0.0%) 3 (300.0%)"
    assert len({len(line) for line in text[header : header + 6]}) == 1, "columns are in line"


def test_gzip_is_the_same_and_json_is_for_programs(trace: Path, tmp_path: Path) -> None:
    packed = tmp_path / "trace.csv.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    plain = run(str(trace), SHORT)
    assert run(str(packed), SHORT) == plain
    found = from_value(plain)
    assert found["windows"] == 6
    assert found["scores"].keys() == {"cpu", "memory"}
    assert found["scores"]["memory"]["requests"]["meanOver"] == 3 * 2**30


@functools.cache
def shipped(**options: float) -> Backtest:
    return run("", dataclasses.replace(BacktestOptions(), **options))


def test_the_trace_that_comes_along_is_judged() -> None:
    found = shipped()
    assert found.windows == 564
    cpu = found.scores["cpu"]
    assert 0 < cpu[PredictionMethod.PREDICTION].under < cpu[PredictionMethod.LAST_PEAK].under
    assert cpu[PredictionMethod.PREDICTION].mean_over < cpu[PredictionMethod.REQUESTS].mean_over


@pytest.mark.parametrize("change", [{"percentile_cpu": 99.0}, {"safety_margin_percent": 50.0}])
def test_options_reach_the_predictor(change: dict[str, float]) -> None:
    plain = shipped().scores["cpu"][PredictionMethod.PREDICTION]
    changed = shipped(**change).scores["cpu"][PredictionMethod.PREDICTION]
    assert changed.mean_over > plain.mean_over


def test_halflives_reach_the_models() -> None:
    cpu = shipped(cpu_histogram_decay_halflife=1800).scores
    memory = shipped(memory_histogram_decay_halflife=1800).scores
    plain = shipped().scores
    for resource, changed, other in (("cpu", cpu, memory), ("memory", memory, cpu)):
        predicted = plain[resource][PredictionMethod.PREDICTION]
        assert changed[resource][PredictionMethod.PREDICTION].mean_over < predicted.mean_over
        assert other[resource][PredictionMethod.PREDICTION] == predicted


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\xff\xfe", "can't decode byte 0xff"),
        (b"a,b\n", "line 1: no column time"),
        (gzip.compress(rows().encode(), mtime=0)[:-12], "ended before the end-of-stream marker"),
        (gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20, "Error -3 while decompressing"),
        (b"\x1f\x8b\x07" + bytes(20), "Unknown compression method"),
        (b"", "line 1: no column time"),
        (rows(3).encode(), "the trace lasts 0.033 h; expected more than"),
    ],
)
def test_what_cannot_be_read_is_reported_with_its_name(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    with pytest.raises(AskError) as reported:
        run(str(path), SHORT)
    assert str(reported.value).startswith(f"{path}: ")
    assert why in str(reported.value)
    assert "\n" not in str(reported.value)


def test_no_such_file_and_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AskError, match="nothing: No such file or directory"):
        read(str(tmp_path / "nothing"))
    assert MOST_BYTES > 100 << 20
    monkeypatch.setattr("koordctl.predict_backtest.MOST_BYTES", 1 << 20)
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(bytes(2 << 20)))
    with pytest.raises(AskError, match="more than 1 MiB unpacked"):
        read(str(path))


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"horizon": 0.0}, "--horizon is 0; expected more than 0"),
        ({"cpu_histogram_decay_halflife": -1.0}, "--cpu-histogram-decay-halflife is -1"),
        ({"percentile_cpu": 0.0}, "--percentile-cpu is 0; expected more than 0, up to 100"),
        ({"percentile_memory": 101.0}, "--percentile-memory is 101"),
        ({"safety_margin_percent": -1.0}, "--safety-margin-percent is -1; expected 0 or more"),
    ],
)
def test_options_that_cannot_be(change: dict[str, float], why: str) -> None:
    with pytest.raises(UsageError) as reported:
        run("", dataclasses.replace(BacktestOptions(), **change))
    assert str(reported.value).startswith(why)
