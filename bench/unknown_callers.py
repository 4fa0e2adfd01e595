"""Unknown callers at the report port: made-up tokens beside real nodes, and a slow API server.

The same manager, nodes and double of the API server as in ``reports``. Once the nodes report,
each TokenReview takes 6 s, of nodes too, and unknown callers report with tokens that look as good
ones do, each another one. Their connections stay open, from many addresses: all places for them
are taken then. It counts whether the manager goes on to lead, and what becomes of nodes' reports.

``python -m bench.unknown_callers`` measures and writes bench/results/unknown_callers.*.
"""

from __future__ import annotations

import json
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from urllib.request import urlopen

from bench import report
from bench.large_cluster import INTERVAL
from bench.manager import Manager, program, running_manager
from bench.open_loop import percentile
from bench.programs import cpu_micros
from bench.report import Measure
from bench.reports import mark, raise_limit, reporting, settle, shares

NODES, RATE, ADDRESSES, SECONDS, REVIEW_SECONDS = 1_000, 500.0, 100, 60.0, 6.0


def measure() -> tuple[list[Measure], dict[str, object]]:
    """The figures, and how they were taken."""
    raise_limit()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="koord-bench-")))
        manager = stack.enter_context(running_manager(folder, NODES))
        authority = manager.until(manager.authority, "an authority", 60)
        nodes = reporting(manager, stack, authority, shares(NODES, NODES))
        settle(manager, NODES)
        words = (str(RATE), str(ADDRESSES))
        callers = stack.enter_context(program("bench.unknown_callers_link", *words))
        given = {"port": manager.report_port, "authority": authority}
        for line in (json.dumps(given), "go"):
            callers.stdin.write(f"{line}\n")
            callers.stdin.flush()
        callers.stdout.readline()
        _slow(manager)
        mark(nodes), mark([callers])
        before, spent = _writes(manager), cpu_micros(manager.pid)
        began = time.perf_counter()
        time.sleep(SECONDS)
        lasted = time.perf_counter() - began
        spent = cpu_micros(manager.pid) - spent
        theirs, ours, after = mark([callers]), mark(nodes), _writes(manager)
        said = manager.log.read_text()
    done = {name: after[name] - before.get(name, 0) for name in after}
    name = f"{NODES} nodes, {RATE:g} unknown callers a second, {REVIEW_SECONDS:g} s a review"
    lost = said.count("leads no more")
    taken = ours.milliseconds
    expected = NODES / INTERVAL * lasted
    measures = [
        Measure(f"{name}: leaderships lost", "", lost, "", None, 0.0),
        Measure(f"{name}: nodes' reports refused", "", ours.refused, "", None, 0.0),
        Measure(f"{name}: nodes' reports taken", "%", 100 * len(taken) / expected, "", None, None),
        Measure(f"{name}: nodes' answers, p50", "ms", percentile(taken, 0.5), "", None, None),
        Measure(f"{name}: nodes' answers, p99", "ms", percentile(taken, 0.99), "", None, None),
        Measure(f"{name}: nodes' answers, the longest", "ms", taken[-1], "", None, 3000.0),
        Measure(f"{name}: unknown callers refused", "", theirs.refused, "", None, None),
        Measure(f"{name}: TokenReviews", "", done["POST tokenreviews"], "", None, None),
        Measure(f"{name}: renewals of the Lease", "", done["PUT leases"], "", None, None),
        Measure(f"{name}: CPU", "cores", spent / 1e6 / lasted, "", None, None),
    ]
    about: dict[str, object] = {
        "unknown callers": f"{ADDRESSES} connections and addresses; tokens of the right form",
        "answers": "to nodes, from when the report was due; koordlet gives up after 3000 ms",
        "for": f"{lasted:.0f} s",
    }
    return measures, about


def _slow(manager: Manager) -> None:
    where = f"http://127.0.0.1:{manager.api_port}/bench/reviews?seconds={REVIEW_SECONDS:g}"
    urlopen(where, timeout=10).close()


def _writes(manager: Manager) -> dict[str, int]:
    with urlopen(f"http://127.0.0.1:{manager.api_port}/bench/writes", timeout=10) as answer:
        return dict(json.load(answer))


def main() -> None:
    """Measure, print, and put it where results are."""
    measures, about = measure()
    print(report.table(measures))
    report.write(measures, "unknown_callers", about)


if __name__ == "__main__":
    main()
