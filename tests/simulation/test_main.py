from __future__ import annotations

import json
from pathlib import Path

import pytest
from koord_simulation.main import main

SHIPPED = sorted((Path(__file__).parents[2] / "simulation" / "scenarios").glob("*.yaml"))
TEXT = """
name: small
seconds: 20
node: {cpus: 8}
pods:
  - {name: web, qos: LS, cpu: 1, requests: {cpu: 1}}
  - {name: job, qos: BE, cpu: 8, requests: {batch-cpu: 1000}}
slo: {resourceUsedThresholdWithBE: {enable: true}}
strategies: [cpu_suppress]
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(TEXT)
    return path


def test_people_read_a_table(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(scenario), "--without", "--decisions"]) == 0
    shown = capsys.readouterr().out
    assert "small: 20 s" in shown
    assert "small, without strategies: 20 s" in shown
    assert "cpu_suppress" in shown
    assert "default/web  LS" in shown


def test_programs_read_json(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(scenario), "--json", "--seed", "5"]) == 0
    assert json.loads(capsys.readouterr().out)["pods"][0]["pod"] == "default/web"
    assert main([str(scenario), "--json", "--without"]) == 0
    held, free = json.loads(capsys.readouterr().out)
    assert held["be_cpu_hours"] < free["be_cpu_hours"]
    assert held["pods"][0]["p99"] < free["pods"][0]["p99"]


def test_what_cannot_be_run_is_one_line(scenario: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario.write_text(TEXT.replace("cpu_suppress", "magic"))
    assert main([str(scenario)]) == 2
    assert "there is no strategy magic" in capsys.readouterr().err


def test_what_a_node_slo_ignores_is_reported(
    scenario: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scenario.write_text(TEXT.replace("enable: true", "enable: 3"))
    assert main([str(scenario)]) == 0
    assert "enable" in capsys.readouterr().err


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_scenarios_that_are_shipped_run(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = tmp_path / path.name
    lines = path.read_text().splitlines()
    short.write_text(
        "\n".join("seconds: 65" if line.startswith("seconds:") else line for line in lines)
    )
    assert main([str(short)]) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "problem" not in shown.out
