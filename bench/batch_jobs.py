"""Jobs of a shared GPU cluster: times and sizes of a trace, teams and gangs drawn beside them.

The trace is Alibaba's cluster-trace-gpu-v2023 (``openb_pod_list_default.csv``): when pods came,
how long they lived, and what they requested. It knows neither teams nor gangs. A pod of its last
month is a job here, of as many equal members as is drawn, and of a team that is drawn, too: each
team has good and bad days, so that one has much to run while another has little.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DAY = 86_400
MONTH_DAYS = 31
TEAMS = ("red", "green", "blue", "cyan", "pink")
GANG_SIZES = {1: 0.66, 2: 0.12, 4: 0.11, 8: 0.07, 16: 0.03, 32: 0.01}
"""Members of a job, and which part of the jobs has that many."""
_LONGEST = 3 * DAY
_EVENNESS = 0.6
"""Of the Dirichlet distribution that gives teams their part of a day: lower is less even."""


@dataclass(frozen=True)
class Job:
    """``members`` pods that start together; times in seconds since the month began."""

    number: int
    arrival: float
    seconds: float
    team: str
    members: int
    cpu_milli: int
    memory_mib: int
    gpu_milli: int
    """Of each member, thousandths of a card."""

    @property
    def gpus(self) -> float:
        """Cards of all members."""
        return self.members * self.gpu_milli / 1000

    @property
    def name(self) -> str:
        return f"job-{self.number}"


def read_jobs(folder: Path, seed: int = 1, load: float = 1.0, most_gpus: float = 32.0) -> list[Job]:
    """Jobs in the order of their arrival; ``load`` is how many the month has for each of the trace.

    Pods without GPUs or of more than half a node are left out. A job has as many members at most
    as have ``most_gpus`` cards together, so that each may run whatever the quotas are.
    """
    with (folder / "openb_pod_list_default.csv").open() as file:
        lines = [line for line in csv.DictReader(file) if line["deletion_time"]]
    end = max(int(line["creation_time"]) for line in lines)
    begin = end - MONTH_DAYS * DAY
    lines = [line for line in lines if int(line["creation_time"]) >= begin and _is_gpu_job(line)]
    rng = np.random.default_rng(seed)
    parts = rng.dirichlet([_EVENNESS] * len(TEAMS), MONTH_DAYS + 1)
    sizes, chances = list(GANG_SIZES), list(GANG_SIZES.values())
    jobs: list[Job] = []
    for line in lines:
        for _ in range(int(rng.poisson(load))):
            arrival = int(line["creation_time"]) - begin + float(rng.uniform(0, 3600))
            seconds = int(line["deletion_time"]) - int(line["creation_time"])
            gpu_milli = int(line["num_gpu"]) * min(int(line["gpu_milli"]), 1000)
            members = int(rng.choice(sizes, p=chances))
            jobs.append(
                Job(
                    number=len(jobs),
                    arrival=arrival,
                    seconds=float(min(max(seconds, 60), _LONGEST)),
                    team=str(rng.choice(TEAMS, p=parts[int(arrival // DAY)])),
                    members=min(members, int(1000 * most_gpus // gpu_milli)),
                    cpu_milli=int(line["cpu_milli"]),
                    memory_mib=int(line["memory_mib"]),
                    gpu_milli=gpu_milli,
                )
            )
    return sorted(jobs, key=lambda job: job.arrival)


def _is_gpu_job(line: dict[str, str]) -> bool:
    return 0 < int(line["num_gpu"]) <= 4 and int(line["gpu_milli"]) > 0
