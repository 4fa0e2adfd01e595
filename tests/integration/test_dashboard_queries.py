"""A real Prometheus answers what the dashboards ask for, and evaluates all rules.

It scrapes the programs' real registries. What is not real is that they are at work: each scrape
finds the counters one step further than the one before.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from koord_service.pages import Query, StatusPage
from koord_service.program_metrics import program_metrics
from koord_service.status import StatusServer

from tests.deploy.manifests import NAMESPACE, installed
from tests.docs.test_dashboard import PANELS
from tests.support.metrics_pages import metrics_pages
from tests.support.ports import free_port
from tests.support.processes import until

PROMETHEUS = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason="needs prometheus (Debian: prometheus)")
_COUNTER = re.compile(
    r"^(\w+(?:_total|_bucket|_sum|_count|_eviction)(?:{.*})?) (\S+)$", re.MULTILINE
)
_VARIABLES = {"$__rate_interval": "2s", "$instance": ".*", "$node": ".*"}


class GrowingPage:
    """A metrics page whose counters grow with each scrape."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.scrapes = 0

    def __call__(self, _query: Query) -> StatusPage:
        self.scrapes += 1
        grown = _COUNTER.sub(lambda row: f"{row[1]} {float(row[2]) * self.scrapes}", self._text)
        return StatusPage(grown.encode(), "text/plain; version=0.0.4")


@contextmanager
def prometheus(folder: Path, pages: dict[str, GrowingPage]) -> Iterator[str]:
    """The address of a Prometheus that scrapes them five times a second, and has all rules."""
    server = StatusServer("127.0.0.1:0", {f"/{name}": page for name, page in pages.items()})
    server.start()
    rules = installed("alerts")["PrometheusRule", NAMESPACE, "koordinator"]["spec"]
    (folder / "rules.yaml").write_text(yaml.safe_dump(rules))
    jobs = [
        {
            "job_name": name,
            "metrics_path": f"/{name}",
            "static_configs": [{"targets": [server.address], "labels": {"instance": name}}],
        }
        for name in pages
    ]
    seldom = {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "1s"}
    config = {"global": seldom, "rule_files": ["rules.yaml"], "scrape_configs": jobs}
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
    assert PROMETHEUS is not None
    address = f"127.0.0.1:{free_port()}"
    command = [
        PROMETHEUS,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={address}",
        "--log.level=error",
    ]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield f"http://{address}/api/v1"
        finally:
            process.terminate()
            server.stop()


def ask(api: str, path: str, **parameters: str) -> Any:
    """Its answer; HTTPError with its reason where it does not take the query."""
    url = f"{api}/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)["data"]


def test_every_panel_has_data_and_every_rule_is_evaluated(tmp_path: Path) -> None:
    pages = {
        name: GrowingPage(text + program_metrics(name)) for name, text in metrics_pages().items()
    }
    with prometheus(tmp_path, pages) as api:
        until(lambda: min(page.scrapes for page in pages.values()) >= 6, "scrapes")
        empty = []
        for program, panel in PANELS:
            for target in panel["targets"]:
                query = target["expr"]
                for name, value in _VARIABLES.items():
                    query = query.replace(name, value)
                # No strategy of these pages has failed.
                if not ask(api, "query", query=query)["result"] and "_failures_" not in query:
                    empty.append(f"{program}, {panel['title']}: {query}")
        assert not empty, "\n".join(empty)
        rules = [rule for group in ask(api, "rules")["groups"] for rule in group["rules"]]
        assert len(rules) > 30
        assert {rule["health"] for rule in rules} <= {"ok", "unknown"}, rules
