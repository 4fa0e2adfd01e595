"""`make demo-descheduler`: a hot cluster cools down, without a cluster."""

from __future__ import annotations

import argparse
import sys
import time
from random import Random

from koord_descheduler.config.descheduler_config import read_descheduler_config
from koord_descheduler.framework.round import RoundSettings
from koord_descheduler.planner.move import RoundPlan
from koord_descheduler.program.defrag_plan import defrag_plan
from koord_descheduler.program.history import RoundHistory
from koord_descheduler.program.plan_document import plan_document
from koord_descheduler.program.round_planner import RoundPlanner
from koordctl.defrag import lines as defrag_lines
from koordctl.descheduler import plan_lines, why_lines
from koordctl.output.tables import plain
from rich.console import Console
from rich.table import Table

from koord_demo.descheduler_cluster import BUDGETED, PINNED, DemoLoad, fragmented_cluster

HIGH = 65
_MOST_ROUNDS = 12
_MOST_ROWS = 7
_BAR = 40
_CONFIG = f"""
apiVersion: descheduler/v1alpha2
kind: DeschedulerConfiguration
profiles:
  - plugins:
      balance: {{enabled: [{{name: LowNodeLoad}}]}}
      filter: {{disabled: [{{name: "*"}}]}}
    pluginConfig:
      - name: LowNodeLoad
        args:
          lowThresholds: {{cpu: 50, memory: 80}}
          highThresholds: {{cpu: {HIGH}, memory: 90}}
          anomalyCondition: {{consecutiveAbnormalities: 1}}
"""


def main() -> None:
    """Run rounds until nothing moves any more, and show what came of it."""
    parser = argparse.ArgumentParser(
        prog="python -m koord_demo.descheduling",
        description="Move pods off the hot nodes of a made-up cluster.",
    )
    parser.add_argument("--nodes", type=int, default=12, help="default: %(default)s")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    console.rule("[bold]koord-descheduler on a made-up cluster", style="dim")
    load = DemoLoad(arguments.nodes, Random(1))
    console.print(
        f"{len(load.nodes)} nodes with {len(load.on)} pods; each third node is hot. LowNodeLoad "
        f"moves pods\nfrom nodes that use more than {HIGH} % of their CPU, one round a minute.\n"
    )
    before, history = load.used(), RoundHistory()
    rounds, moved = cool_down(console, load, history)
    show(console, load, before, rounds, moved)
    explain(console, load, history)
    defragment(console)


def cool_down(console: Console, load: DemoLoad, history: RoundHistory) -> tuple[int, int]:
    """Plan rounds and carry them out; returns how many there were, and how many moves."""
    config = read_descheduler_config(_CONFIG)
    profiles = [profile.profile for profile in config.profiles]
    planner = RoundPlanner(load.model, profiles, [], RoundSettings())
    moved = 0
    for number in range(1, _MOST_ROUNDS + 1):
        began = time.perf_counter()
        plan = planner.plan(load.now)
        seconds = time.perf_counter() - began
        history.planned(plan, seconds)
        hot = sum(100 * used > HIGH for used in load.used().values())
        console.print(
            f"round {number}: {hot} hot nodes, {len(plan.moves)} moves, {len(plan.refusals)} pods "
            f"stay; planned in {1000 * seconds:.0f} ms"
        )
        if number == 1:
            _show_plan(console, plan)
        for move in plan.moves:
            planner.begin(move, load.now)
            history.executed(move, "evicted", "", load.now)
        load.carry_out(plan.moves)
        load.report()
        moved += len(plan.moves)
        if not plan.moves:
            return number, moved
    return _MOST_ROUNDS, moved


def _show_plan(console: Console, plan: RoundPlan) -> None:
    console.print("\n[dim]koordctl descheduler plan[/]\n")
    rows = 0
    for line in plain(plan_lines(plan_document(plan._replace(notes={})))):
        rows = rows + 1 if line else 0
        if rows <= _MOST_ROWS:
            console.print(f"  {line}", markup=False, soft_wrap=True)
        elif rows == _MOST_ROWS + 1:
            console.print("  …")
    console.print()


def show(
    console: Console, load: DemoLoad, before: dict[str, float], rounds: int, moved: int
) -> None:
    """The load of each node before and after."""
    console.print(f"\n[bold]{moved}[/] pods moved in {rounds} rounds; then nothing moves.\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("node", "CPU used before", "", "after", ""):
        table.add_column(title, justify="left" if title else "right")
    for name, after in load.used().items():
        table.add_row(name, *_bar(before[name]), *_bar(after))
    console.print(table)


def _bar(used: float) -> tuple[str, str]:
    full = min(_BAR // 2, round(used * _BAR / 2))
    colour = "red" if 100 * used > HIGH else "green"
    bar = f"[{colour}]{'█' * full}[/][dim]{'░' * (_BAR // 2 - full)}[/]"
    return bar, f"{100 * used:.0f} %"


def explain(console: Console, load: DemoLoad, history: RoundHistory) -> None:
    """Explain why a pod was moved, and why two stay."""
    moved = next(iter(history.results()), None)
    named = [key for key in load.on if key.partition("/")[2].startswith((PINNED, BUDGETED))]
    for key in [*([moved["pod"]] if moved else []), *named]:
        console.print(f"\n[dim]koordctl descheduler why {key}[/]\n")
        for line in plain(why_lines(history.why(key))):
            console.print(f"  {line}", markup=False, soft_wrap=True)


def defragment(console: Console) -> None:
    """Plan room for a job that waits for a whole node."""
    console.print("\n[bold]A job waits for eight GPUs; 15 are free, five at most on one node.[/]")
    console.print("\n[dim]koordctl defrag --plan[/]\n")
    plan = defrag_plan(fragmented_cluster(), 1_700_000_000.0, {"targets": ["WaitingPods"]})
    for line in plain(defrag_lines(plan)):
        console.print(f"  {line}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
