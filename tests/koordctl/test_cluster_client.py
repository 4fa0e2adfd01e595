from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from koord_kube.definitions.catalogue import DEFINITIONS
from koord_kube.protocol.resources import DEFINITIONS as KIND
from koord_kube.protocol.resources import LEASES, RECOMMENDATIONS

from tests.koordctl.conftest import Ctl
from tests.support.kube_api import KubeApi

SPEC = {"target": {"type": "workload", "workload": {"kind": "Deployment", "name": "web"}}}


@pytest.fixture
def recommendations(api: KubeApi) -> None:
    for one in DEFINITIONS:
        api.put(KIND, one)
    for namespace in ("shop", "bank"):
        api.put(RECOMMENDATIONS, {"metadata": {"name": "web"}, "spec": SPEC}, namespace)


@pytest.mark.usefixtures("recommendations")
async def test_of_one_namespace_or_of_all(ctl: Ctl) -> None:
    _, out, _ = await ctl("recommend", "-n", "shop")
    assert "shop/web (Deployment web): not processed yet" in out
    assert "bank" not in out
    _, out, _ = await ctl("recommend", "-A", "--json")
    assert out.count('"name": "web"') == 4
    code, out, _ = await ctl("recommend", "-n", "nowhere")
    assert (code, out.splitlines()) == (
        0,
        ["No Recommendation found. Create one for each workload to get a recommendation for."],
    )


@pytest.mark.usefixtures("recommendations")
@pytest.mark.parametrize(
    ("code", "arguments", "said"),
    [
        (
            1,
            ["web"],
            (
                "recommendations default/web: 404 "
                'recommendations.analysis.koordinator.sh "web" not found'
            ),
        ),
        (2, ["web", "-A"], "leave out --all-namespaces"),
        (1, ["--kubeconfig", "/nonexistent/file"], "/nonexistent/file: No such file or directory"),
    ],
)
async def test_what_is_not_there(ctl: Ctl, code: int, arguments: list[str], said: str) -> None:
    failed, out, error = await ctl("recommend", *arguments)
    assert (failed, out, len(error.splitlines())) == (code, "", 1)
    assert said in error


async def test_a_cluster_that_refuses_or_does_not_answer(
    request: pytest.FixtureRequest, api: KubeApi, ctl: Ctl
) -> None:
    code, _, error = await ctl("recommend")
    assert code == 1
    assert "is its CRD installed?" in error
    request.getfixturevalue("recommendations")
    api.fail(status=403, plural="recommendations", message="user may not list recommendations")
    code, _, error = await ctl("recommend")
    assert code == 1
    assert "403 user may not list recommendations" in error
    await api.stop()
    code, _, error = await ctl("recommend")
    assert (code, len(error.splitlines())) == (1, 1)
    assert "Connection refused" in error


@pytest.mark.usefixtures("recommendations")
@pytest.mark.parametrize(
    ("named", "code"),
    [("{}", 0), ("/nonexistent:{}", 0), (":{}", 0), ("/nonexistent", 1), ("/nonexistent:/x", 1)],
)
async def test_kubeconfig_names_several_files(
    ctl: Ctl, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, named: str, code: int
) -> None:
    monkeypatch.setenv("KUBECONFIG", named.format(kubeconfig).replace(":", os.pathsep))
    found, _, error = await ctl("recommend")
    assert found == code
    if code:
        assert f"{named}: No such file or directory" in error


@pytest.mark.usefixtures("recommendations")
async def test_the_usual_file(
    ctl: Ctl, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.setenv("HOME", str(tmp_path))
    code, _, error = await ctl("recommend")
    assert code == 1
    assert "no --kubeconfig is given" in error
    (tmp_path / ".kube").mkdir()
    kubeconfig.rename(tmp_path / ".kube" / "config")
    assert (await ctl("recommend"))[0] == 0


async def test_a_user_without_a_home(ctl: Ctl, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_: Any) -> Any:
        raise KeyError

    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr("pwd.getpwuid", nobody)
    code, _, error = await ctl("recommend")
    assert code == 1
    assert "no --kubeconfig is given" in error


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("why batch-cpu n1", "no manager leads: there is no Lease koordinator-system/koordinator-"),
        ("why pending a/b", "no scheduler leads: there is no Lease koordinator-system/koord-sched"),
        ("gangs", "is koord-scheduler installed, and are these its --namespace and --lease?"),
        ("recommend", "is its CRD installed? (koordctl crds install)"),
        ("quota tree", "is its CRD installed? (koordctl crds install)"),
        ("devices n1", "koordlet reports devices with the gates Accelerators and RDMADevices"),
    ],
)
async def test_a_cluster_that_lacks_a_part(ctl: Ctl, command: str, words: str) -> None:
    code, out, error = await ctl(*command.split())
    assert (code, out, len(error.splitlines())) == (1, "", 1)
    assert words in error


async def test_a_leader_outside_of_the_cluster_has_to_be_asked_at_its_address(
    ctl: Ctl, api: KubeApi
) -> None:
    lease = {"metadata": {"name": "koord-scheduler"}, "spec": {"holderIdentity": "laptop_1"}}
    api.put(LEASES, lease, "koordinator-system")
    code, out, error = await ctl("gangs")
    assert (code, out) == (1, "")
    assert "the leading scheduler is laptop_1, which is no pod" in error
    assert "--address=HOST:10251" in error
