"""``koordctl status`` where the proxy, koordlet, NRI or the cluster is there, or is not."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from koord_service.status import StatusServer, json_page
from koordctl.main import main
from koordctl.status import NO_HOOKS

from koordctl import cluster_status
from tests.koordctl.conftest import HEALTH, Ctl, Serve
from tests.support.kube_api import KubeApi

NRI = {"connected": True, "socket": "/run/nri/nri.sock", "calls": 12, "reason": ""}
NO_NRI = {"connected": False, "reason": "/run/nri/nri.sock: no runtime listens there"}
REGISTRATION = "/etc/runtime/hookserver.d/koordlet.json"
KOORDLET: dict[str, Any] = {
    "version": "0.1.0",
    "health": {"status": "degraded", "reasons": ["report NodeMetric: 403"]},
    "hooks": {
        "socket": "/run/koordlet/koordlet.sock",
        "registration": REGISTRATION,
        "plugins": ["batchresource", "groupidentity"],
        "stages": ["PreCreateContainer"],
        "nri": NRI,
    },
}

Status = Callable[..., tuple[object, str, str]]


@pytest.fixture
def status(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Status:
    """``koordctl status`` with what is there: exit code, output, error output."""

    def run(
        *flags: str, proxy: StatusServer | None = None, koordlet: StatusServer | None = None
    ) -> tuple[object, str, str]:
        addresses = (
            f"--address={proxy.address if proxy else tmp_path / 'no-proxy'}",
            f"--koordlet-address={koordlet.address if koordlet else tmp_path / 'no-koordlet'}",
        )
        code: object = 0
        try:
            main(["status", *addresses, *flags])
        except SystemExit as end:
            code = end.code
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def serving(serve: Serve, nri: dict[str, Any]) -> StatusServer:
    page = {**KOORDLET, "hooks": {**KOORDLET["hooks"], "nri": nri}}
    return serve(**{"v1/status": json_page(page)})


def test_the_proxy_and_koordlet(status: Status, serve: Serve) -> None:
    proxy, koordlet = serve(healthz=json_page(HEALTH)), serving(serve, NO_NRI)
    code, out, err = status(proxy=proxy, koordlet=koordlet)
    assert (code, err) == (0, "")
    first, second = out.split("\n\nkoordlet ")
    assert first.startswith(f"koord-runtime-proxy at {proxy.address}: degraded\n")
    assert second.splitlines() == [
        f"0.1.0 at {koordlet.address}: degraded",
        "",
        "problem      report NodeMetric: 403",
        "plugins      batchresource, groupidentity",
        f"hook server  /run/koordlet/koordlet.sock, registered in {REGISTRATION}",
        "NRI          not connected: /run/nri/nri.sock: no runtime listens there",
    ]


def test_a_node_with_nri_needs_no_proxy(status: Status, serve: Serve) -> None:
    code, out, err = status(koordlet=serving(serve, NRI))
    assert (code, err) == (0, "")
    first, *_, last = out.splitlines()
    assert first.startswith("koord-runtime-proxy: none at /")
    assert first.endswith("; not needed, since koordlet uses NRI")
    assert last == "NRI          connected to /run/nri/nri.sock, 12 calls"


def test_a_proxy_alone_with_plugins_of_its_own(status: Status, serve: Serve) -> None:
    code, out, err = status(proxy=serve(healthz=json_page(HEALTH)))
    assert (code, err) == (0, "")
    assert out.splitlines()[-1].startswith("koordlet: no answer from ")


@pytest.mark.parametrize("there", [True, False])
def test_nothing_that_calls_hooks(status: Status, serve: Serve, *, there: bool) -> None:
    code, out, err = status(koordlet=serving(serve, NO_NRI) if there else None)
    assert (code, err) == (1, f"koordctl: {NO_HOOKS}\n")
    assert out.startswith("koord-runtime-proxy: no answer from ")
    assert ("koordlet 0.1.0 at" in out) == there


def test_other_programs_at_the_addresses(status: Status, serve: Serve) -> None:
    code, out, _ = status(proxy=serving(serve, NRI), koordlet=serve(healthz=json_page(HEALTH)))
    assert code == 1
    assert "answers /healthz with 404; is this the --metrics-address of koord-runtime" in out
    assert "answers /v1/status with 404; is this the --status-address of koordlet?" in out


def test_json(status: Status, serve: Serve) -> None:
    # What a newer proxy says beyond what is known here stays in it.
    newer = {**HEALTH, "more": 1}
    _, out, _ = status("--json", proxy=serve(healthz=json_page(newer)))
    found = json.loads(out)
    assert found["proxy"] == newer
    assert list(found["errors"]) == ["koordlet"]
    _, out, _ = status("--json", koordlet=serving(serve, NRI))
    assert json.loads(out)["koordlet"] == KOORDLET


async def test_the_cluster(ctl: Ctl, api: KubeApi) -> None:
    code, out, err = await ctl("status", "--cluster")
    assert code == 1
    assert err == f"koordctl: {NO_HOOKS}\n"
    *_, manager, scheduler, descheduler = out.splitlines()
    absent = "not installed, or never ran: there is no Lease koordinator-system/"
    assert manager == f"koord-manager: {absent}koordinator-manager"
    assert scheduler == f"koord-scheduler: {absent}koord-scheduler"
    assert descheduler == f"koord-descheduler: {absent}koord-descheduler"


async def test_no_cluster(ctl: Ctl, tmp_path: Path) -> None:
    absent = f"{tmp_path}/none"
    code, out, _ = await ctl("status", "--cluster", "--json", f"--kubeconfig={absent}")
    assert code == 1
    assert list(json.loads(out)["errors"]) == ["proxy", "koordlet", "cluster"]
    _, out, _ = await ctl("status", "--cluster", f"--kubeconfig={absent}")
    assert out.splitlines()[-1] == f"cluster: {absent}: No such file or directory"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"holderIdentity": ""}, "no replica leads: the Lease ns/koordinator-manager has no hold"),
        (
            {
                "holderIdentity": "m-0_1",
                "renewTime": "2026-01-01T00:00:00.5Z",
                "leaseDurationSeconds": 15,
            },
            "m-0_1 leads, its Lease was renewed 10 s ago",
        ),
        (
            {
                "holderIdentity": "m-0_1",
                "renewTime": "2026-01-01T00:00:00.5Z",
                "leaseDurationSeconds": 5,
            },
            "m-0_1 leads, its Lease was renewed 10 s ago and has expired",
        ),
        ({"holderIdentity": "m"}, "m leads, its Lease has no valid renewTime"),
    ],
)
def test_leases(spec: dict[str, Any], words: str) -> None:
    now = datetime.datetime(2026, 1, 1, 0, 0, 10, 500_000, datetime.UTC)
    line, *_ = cluster_status.lines({"koord-manager": spec}, "ns", now)
    assert line.startswith(f"koord-manager: {words}")
