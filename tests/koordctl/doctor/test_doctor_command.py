"""``koordctl doctor`` as it is typed: what is looked at, exit codes, and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.koordctl.conftest import Ctl
from tests.support.kube_api import KubeApi


async def test_a_cluster_without_anything(ctl: Ctl, api: KubeApi) -> None:
    code, out, err = await ctl("doctor", "cluster")
    assert (code, err) == (1, "")
    first, *_, last = out.splitlines()
    assert first == "cluster"
    assert "→ koordctl crds install" in out
    assert last.startswith("1 problem, ")


async def test_installed_as_it_says(ctl: Ctl, api: KubeApi) -> None:
    await ctl("crds", "install")
    code, out, _ = await ctl("doctor", "cluster", "--json")
    levels = {row["about"]: row["level"] for row in json.loads(out)}
    assert (code, levels["definitions"]) == (0, "ok")


async def test_a_cluster_that_does_not_answer(ctl: Ctl, tmp_path: Path) -> None:
    absent = f"--kubeconfig={tmp_path}/none"
    code, out, _ = await ctl("doctor", "cluster", absent)
    assert code == 1
    assert "API server" in out


async def test_neither_node_nor_cluster(
    ctl: Ctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    code, _, err = await ctl("doctor")
    assert code == 2
    assert "koordctl doctor cluster --kubeconfig=FILE" in err


async def test_a_node_without_koordlet(ctl: Ctl, tmp_path: Path) -> None:
    nobody = (f"--address=unix://{tmp_path}/p", f"--koordlet-address=unix://{tmp_path}/k")
    code, out, _ = await ctl("doctor", "node", *nobody)
    assert code == 1
    assert "problem  koordlet" in out
