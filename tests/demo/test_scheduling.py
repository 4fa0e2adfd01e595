"""`make demo-scheduler`, with a smaller cluster."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

from koord_demo.scheduling import make_cluster, place
from rich.console import Console

from tests.support.processes import PATIENCE


def test_as_it_is_started() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "koord_demo.scheduling", "--nodes=72", "--pods=720"],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    [figures] = [line for line in lines if "pods/s" in line]
    placed, waiting = int(figures.split()[0]), int(figures.split()[-2])
    assert placed + waiting == 720
    assert placed > 700
    assert any(line.endswith("no node takes it at present") for line in lines)
    assert "  REJECTED BY       NODES  BY IT ALONE" in lines, "a table as koordctl shows it"
    assert any(line.endswith("nvidia.com/gpu") and " lacks " in line for line in lines)


def test_pods_are_where_they_may_be() -> None:
    cluster = make_cluster(72, 720)
    place(Console(quiet=True), cluster)
    placed = cluster.scheduler.placed.by_key
    pools = Counter((key.split("/")[1].split("-")[0], one.node[:3]) for key, one in placed.items())
    assert {pool for app, pool in pools if app == "train"} == {"gpu"}
    assert {pool for app, pool in pools if app == "web"} == {"gen"}
    assert pools["batch", "bat"] > 0
    kinds = {key.split("/")[1].rpartition("-")[0] for key in cluster.pods}
    assert len(kinds) == 40


def test_pods_ask_for_what_the_demo_says() -> None:
    """A slip in a manifest is no error: what it says would count for nothing."""
    classes = {key: one.waiting.pod_class for key, one in make_cluster(12, 400).pods.items()}
    by_app = {key.split("/")[1].split("-")[0]: one for key, one in classes.items()}
    assert [one.is_hard for one in by_app["web"].spread] == [True]
    assert by_app["db"].spread
    assert by_app["db"].affinity.anti
    assert [one.weight for one in by_app["cache"].affinity.preferred] == [100]
    assert by_app["batch"].tolerations
    assert by_app["batch"].preferred
    assert "nvidia.com/gpu" in dict(by_app["train"].amounts)
    assert by_app["edge"].ports
    assert by_app["edge"].required.terms
