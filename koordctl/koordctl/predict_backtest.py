"""``koordctl predict backtest``: how well the peak predictor would have done on a trace."""

from __future__ import annotations

import gzip
import importlib.resources
import io
import zlib
from collections.abc import Iterator
from pathlib import Path

from koord_prediction.backtest import Backtest, Score, backtest
from koord_prediction.models import Models
from koord_prediction.peak import PeakPolicy
from koord_prediction.trace import Trace, parse

from koordctl.backtest_options import BacktestOptions
from koordctl.errors import AskError, UsageError
from koordctl.output.tables import Block, table

MOST_BYTES = 1 << 30
"""Of a trace, unpacked."""

_GZIP = b"\x1f\x8b"
_UNITS = {"cpu": ("CPU, cores", 1.0), "memory": ("Memory, GiB", 2.0**30)}


def run(path: str, options: BacktestOptions) -> Backtest:
    """Backtest the trace at ``path``; "" for the synthetic one that comes with koordctl.

    Raises:
        AskError: the file cannot be read, is not a trace, or is too short; or an option
            cannot be.
    """
    _check(options)
    trace = read(path)
    models = Models(options.cpu_histogram_decay_halflife, options.memory_histogram_decay_halflife)
    rules = PeakPolicy(
        options.percentile_cpu / 100,
        options.percentile_memory / 100,
        options.safety_margin_percent,
        options.cold_start_duration,
    )
    try:
        return backtest(trace, models, rules, options.horizon, options.cold_start_duration)
    except ValueError as error:
        raise AskError(f"{path or 'the synthetic trace'}: {error}") from None


def read(path: str) -> Trace:
    """A trace from a file of CSV, gzipped or not.

    Raises:
        AskError: it cannot be read, or is not a trace.
    """
    name = path or "the synthetic trace"
    try:
        packed = Path(path).read_bytes() if path else _shipped()
        text = _unpacked(packed).decode()
        return parse(io.StringIO(text, newline=""))
    except OSError as error:
        raise AskError(f"{name}: {error.strerror or error}") from None
    except (ValueError, EOFError, zlib.error) as error:
        raise AskError(f"{name}: {error}") from None


def lines(found: Backtest) -> Iterator[Block]:
    """Results for people."""
    yield (
        f"{found.steps} steps of {_time(found.step)}, {found.pods} pods. Evaluated: "
        f"{found.windows} windows of {_time(found.horizon)}, after the first "
        f"{_time(found.warm_up)}."
    )
    yield (
        "Actual peak: the maximum usage of the prod pods that ran at the time of the prediction, "
        "and of the system."
    )
    yield f"Pods too young for a prediction, counted with their request: {found.cold:.0%}"
    for resource, scores in found.scores.items():
        title, unit = _UNITS[resource]
        mean = getattr(found.mean_peak, resource) / unit
        yield ""
        yield f"{title} (actual peak: {mean:.4g} on average)"
        header = ("", "TOO LOW", "BELOW P99", "MEAN SHORTFALL", "WORST SHORTFALL", "MEAN EXCESS")
        rows = [header, *(_row(method, score, unit) for method, score in scores.items())]
        yield table(rows, words=(0,))


def _check(options: BacktestOptions) -> None:
    for name in ("horizon", "cpu_histogram_decay_halflife", "memory_histogram_decay_halflife"):
        if getattr(options, name) <= 0:
            raise UsageError(f"{_flag(name)} is {getattr(options, name):g}; expected more than 0")
    for name in ("percentile_cpu", "percentile_memory"):
        if not 0 < getattr(options, name) <= 100:
            raise UsageError(
                f"{_flag(name)} is {getattr(options, name):g}; expected more than 0, up to 100"
            )
    for name in ("cold_start_duration", "safety_margin_percent"):
        if getattr(options, name) < 0:
            raise UsageError(f"{_flag(name)} is {getattr(options, name):g}; expected 0 or more")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _shipped() -> bytes:
    return (importlib.resources.files("koord_prediction") / "synthetic.csv.gz").read_bytes()


def _unpacked(packed: bytes) -> bytes:
    if not packed.startswith(_GZIP):
        return packed
    with gzip.open(io.BytesIO(packed)) as file:
        text = file.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise ValueError(f"more than {MOST_BYTES >> 20} MiB unpacked; expected a shorter trace")
    return text


def _row(method: str, score: Score, unit: float) -> tuple[str, ...]:
    return (
        method,
        f"{score.under:.1%}",
        f"{score.under_p99:.1%}",
        f"{score.mean_under / unit:.3g} ({score.mean_under_percent:.1f}%)",
        f"{score.worst_under / unit:.3g} ({score.worst_under_percent:.1f}%)",
        f"{score.mean_over / unit:.3g} ({score.mean_over_percent:.1f}%)",
    )


def _time(seconds: float) -> str:
    for unit, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= unit and seconds % (unit / 10) == 0:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"
