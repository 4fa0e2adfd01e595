"""``--check`` of the programs of the control plane, by the files that people copy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import koord_descheduler.program.main
import koord_manager.program.main
import koord_scheduler.program.main
import pytest

from tests.deploy.test_all_plugins import EXAMPLE

MANAGER = koord_manager.program.main.main
SCHEDULER = koord_scheduler.program.main.main
DESCHEDULER = koord_descheduler.program.main.main


@pytest.mark.parametrize(
    ("program", "flags", "code", "out", "err"),
    [
        (SCHEDULER, "--config {}/all.yaml", 0, "profile koord-scheduler: Coscheduling, ", ""),
        (SCHEDULER, "--feature-gates=X=true", 1, "no effect: feature gate X=true", ""),
        (SCHEDULER, "--config {}/none.yaml", 2, "", "cannot read {}/none.yaml"),
        (DESCHEDULER, "", 0, "profile koord-descheduler: MigrationController", ""),
        (DESCHEDULER, "--feature-gates=TideNodePool=true", 0, "feature gates: TideNodePool", ""),
        (DESCHEDULER, "--feature-gates=X=true", 1, "no effect: feature gate X=true", ""),
        (DESCHEDULER, "--config {}/all.yaml", 2, "", "{}/all.yaml: "),
        (MANAGER, "", 0, "controllers: colocationprofile, nodemetric, ", ""),
        (MANAGER, "--controllers=rollout", 1, "no effect: rollout needs --feature-gates", ""),
        (MANAGER, "--feature-gates=RolloutGuard=no", 2, "", "RolloutGuard is"),
    ],
)
def test_settings_are_judged_and_nothing_runs(
    program: Callable[[], None],
    flags: str,
    code: int,
    out: str,
    err: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "all.yaml").write_text(EXAMPLE)
    words = flags.format(tmp_path).split()
    monkeypatch.setattr("sys.argv", ["program", "--check", *words])
    with pytest.raises(SystemExit) as end:
        program()
    captured = capsys.readouterr()
    assert end.value.code == code
    assert out in captured.out
    assert err.format(tmp_path) in captured.err
    assert bool(captured.err) is (code == 2)
