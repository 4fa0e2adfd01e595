"""``koordctl predict backtest``: its options."""

from __future__ import annotations

import argparse
import dataclasses

from koord_model import duration

from koordctl.output.documents import from_value
from koordctl.output.result import CommandOutput

DESCRIPTION = (
    "Replays a trace of recorded usage, predicts as koordlet does, and compares predictions with "
    "the usage that followed. A trace is CSV, gzipped or not, with the columns "
    "time,pod,priority,request_cpu,request_memory,cpu,memory (seconds, cores, bytes)."
)


def _option(default: float, words: str, *, percent: bool = False) -> float:
    metadata = {"words": words, "percent": percent}
    field: float = dataclasses.field(default=default, metadata=metadata)
    return field


@dataclasses.dataclass(frozen=True, slots=True)
class BacktestOptions:
    """As koordlet's settings of the same names; seconds, percent, and percentiles as percent."""

    horizon: float = _option(3600.0, "how far ahead to predict")
    cold_start_duration: float = _option(86400.0, "age of a pod before it is predicted")
    safety_margin_percent: float = _option(10.0, "added to predicted peaks", percent=True)
    percentile_cpu: float = _option(95.0, "percentile taken as the peak of CPU", percent=True)
    percentile_memory: float = _option(98.0, "the same of memory", percent=True)
    cpu_histogram_decay_halflife: float = _option(43200.0, "age at which a sample counts half")
    memory_histogram_decay_halflife: float = _option(86400.0, "age at which a sample counts half")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The trace, and a flag for each option."""
    words = "file with the trace (default: a synthetic trace)"
    parser.add_argument("trace", nargs="?", default="", metavar="TRACE", help=words)
    for field in dataclasses.fields(BacktestOptions):
        words, default = field.metadata["words"], float(getattr(BacktestOptions(), field.name))
        percent = field.metadata["percent"]
        shown = f"{default:g}" if percent else duration.written(default)
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=float if percent else _seconds,
            default=default,
            metavar="PERCENT" if percent else "TIME",
            help=f"{words} (default: {shown})",
        )


def options(arguments: argparse.Namespace) -> BacktestOptions:
    """Return the options given on the command line."""
    names = [field.name for field in dataclasses.fields(BacktestOptions)]
    return BacktestOptions(**{name: getattr(arguments, name) for name in names})


def _seconds(word: str) -> float:
    """A time such as 90s, 5m or 1h; a plain number is of seconds."""
    try:
        return duration.seconds_or_number(word)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(arguments: argparse.Namespace) -> CommandOutput:
    """Backtest. Raises UsageError, AskError."""
    # Imported late: numpy costs a quarter of a second, which no other command needs.
    from koordctl import predict_backtest

    found = predict_backtest.run(arguments.trace, options(arguments))
    return CommandOutput(from_value(found), predict_backtest.lines(found))
