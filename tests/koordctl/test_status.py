"""``koordctl status`` where the proxy, koordlet, NRI or the cluster is there, or is not."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from koord_kube.protocol.resources import LEASES, PODS
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
    "started_at": 1_767_225_600.0,
    "mode": "dry run",
    "health": {"status": "degraded", "reasons": ["report NodeMetric: 403"]},
    "hooks": {
        "socket": "/run/koordlet/koordlet.sock",
        "registration": REGISTRATION,
        "plugins": ["batchresource", "groupidentity"],
        "stages": ["PreCreateContainer"],
        "nri": NRI,
    },
}

NAMESPACE = "koordinator-system"
PLACES = ("node", "cluster")

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


def rows(out: str) -> dict[tuple[str, str], str]:
    """The rest of each program's row by its name and place."""
    table, *_ = out.split("\n\n")
    cells = [line.split(maxsplit=2) for line in table.splitlines()]
    return {(program, place): rest for program, place, rest in cells if place in PLACES}


def test_the_proxy_and_koordlet(status: Status, serve: Serve) -> None:
    proxy, koordlet = serve(healthz=json_page(HEALTH)), serving(serve, NO_NRI)
    code, out, err = status("node", proxy=proxy, koordlet=koordlet)
    assert (code, err) == (0, "")
    found = rows(out)
    assert found["koord-runtime-proxy", "node"].split() == ["0.1.0", "degraded", *"–" * 3]
    assert found["koordlet", "node"].startswith("0.1.0    degraded, dry run  20")
    assert "koordlet (node): report NodeMetric: 403\n" in out
    hint = "  → restart it, or koordctl hooks remove koordlet if it will not come back\n"
    assert f"hook server koordlet does not answer: its calls are not made\n{hint}" in out
    first, second = out.split("\n\nkoordlet ")
    assert f"\n\nkoord-runtime-proxy at {proxy.address}: degraded\n" in first
    assert second.splitlines() == [
        f"0.1.0 at {koordlet.address}: degraded",
        "DRY RUN: decides all, and writes and reports nothing; koordctl why shows what it would do",
        "",
        "problem      report NodeMetric: 403",
        "plugins      batchresource, groupidentity",
        f"hook server  /run/koordlet/koordlet.sock, registered in {REGISTRATION}",
        "NRI          not connected: /run/nri/nri.sock: no runtime listens there",
    ]


def test_a_node_with_nri_needs_no_proxy(status: Status, serve: Serve) -> None:
    code, out, err = status("node", koordlet=serving(serve, NRI))
    assert (code, err) == (0, "")
    assert "not installed, koordlet uses NRI" in rows(out)["koord-runtime-proxy", "node"]
    assert out.splitlines()[-1] == "NRI          connected to /run/nri/nri.sock, 12 calls"


@pytest.mark.parametrize("there", [True, False])
def test_nothing_that_calls_hooks(status: Status, serve: Serve, *, there: bool) -> None:
    code, out, err = status("node", koordlet=serving(serve, NO_NRI) if there else None)
    assert (code, err) == (1, f"koordctl: {NO_HOOKS}\n")
    assert rows(out)["koord-runtime-proxy", "node"].split()[1] == "down"
    assert "koord-runtime-proxy (node): no answer from " in out
    assert ("koordlet 0.1.0 at" in out) == there


def test_other_programs_at_the_addresses(status: Status, serve: Serve) -> None:
    proxy, koordlet = serving(serve, NRI), serve(healthz=json_page(HEALTH))
    code, out, _ = status("node", proxy=proxy, koordlet=koordlet)
    assert code == 1
    assert "answers /healthz with 404; is this the --metrics-address of koord-runtime" in out
    assert "answers /v1/status with 404; is this the --status-address of koordlet?" in out


def test_json(status: Status, serve: Serve) -> None:
    _, out, _ = status("node", "-o", "json", proxy=serve(healthz=json_page(HEALTH)))
    found = json.loads(out)
    assert found["proxy"]["hookServers"][0]["breaker"] == "open"
    assert [(each["program"], each["health"]) for each in found["programs"]] == [
        ("koord-runtime-proxy", "degraded"),
        ("koordlet", "down"),
    ]


def pod(name: str, app: str, *, ready: bool) -> dict[str, Any]:
    waiting = {} if ready else {"state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"koord-app": app}},
        "spec": {"nodeName": "n1", "containers": [{"image": "r.io:5000/pykoord/x:0.9.1"}]},
        "status": {
            "startTime": "2026-01-01T00:00:00Z",
            "containerStatuses": [{"ready": ready, **waiting}],
        },
    }


async def test_the_cluster(ctl: Ctl, api: KubeApi) -> None:
    spec = {"holderIdentity": "m-0_1", "acquireTime": "2026-01-01T00:00:00Z"}
    renewed = datetime.datetime.now(datetime.UTC).isoformat().replace("+00:00", "Z")
    spec |= {"renewTime": renewed, "leaseDurationSeconds": 60}
    metadata = {"name": "koordinator-manager", "namespace": NAMESPACE}
    api.put(LEASES, {"metadata": metadata, "spec": spec}, NAMESPACE)
    for name, app, ready in (
        *(("m-0", "koord-manager", True), ("k-0", "koordlet", True)),
        ("k-1", "koordlet", False),
    ):
        api.put(PODS, pod(name, app, ready=ready), NAMESPACE)
    code, out, _ = await ctl("status", "cluster")
    found = rows(out)
    assert code == 0
    assert "m-0_1" in found["koord-manager", "cluster"]
    assert found["koord-manager", "cluster"].startswith("0.9.1    ok             2026-01-01 ")
    assert "not installed" in found["koord-scheduler", "cluster"]
    assert found["koordlet", "cluster"].split()[-3:-1] == ["1", "of"]
    unready = "koordlet (cluster): pod k-1 on n1 is not ready (CrashLoopBackOff)\n"
    assert f"{unready}  → kubectl -n {NAMESPACE} describe pod k-1\n" in out
    spec["holderIdentity"] = ""
    api.put(LEASES, {"metadata": metadata, "spec": spec}, NAMESPACE)
    code, out, err = await ctl("status", "cluster")
    assert (code, err) == (1, "koordctl: no leader: koord-manager\n")


async def test_no_cluster(ctl: Ctl, tmp_path: Path) -> None:
    absent = f"{tmp_path}/none"
    code, _, err = await ctl("status", "cluster", f"--kubeconfig={absent}")
    expected = f"koordctl: the cluster does not answer: {absent}: No such file or directory\n"
    assert (code, err) == (1, expected)


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
    state = cluster_status.leadership(spec, "ns/koordinator-manager", now)
    assert state.words.startswith(words)
