from __future__ import annotations

from typing import Any

import msgspec
from koord_service.status import json_page
from koordctl.output.tables import plain
from koordctl.why_service import ServiceDocument, lines

from tests.koordctl.conftest import Failing, Serve

PROFILE: dict[str, Any] = {
    "source": "ServiceProfileDescriptor",
    "workload": "Deployment web",
    "in_force": True,
    "targets": {"sched_wait": 460.0},
    "memory_offload": True,
    "weight_cores": 4,
    "weight_percent": 5,
    "baseline_percent": 10,
    "ignored": ['spec systemIndicator "x": left out'],
    "nodes": {"": 1, **{f"n{number:02}": 2 for number in range(30)}},
    "baseline": [f"p{number}" for number in range(12)],
}
TWIN = {"source": "ConfigMap", "reason": "ServiceProfileDescriptor shop/web goes before"}


def test_profiles_of_a_service() -> None:
    given = {"service": "shop/web", "profiles": [PROFILE, TWIN], "no_room": ["n3"]}
    shown = plain(lines(msgspec.convert(given, ServiceDocument)))
    assert shown[:8] == [
        "ServiceProfileDescriptor shop/web is in force for Deployment web: 61 pods on 30 nodes",
        "  target sched_wait: 460 ms for each second of CPU used",
        "  left alone by targets (10 %): p0, p1, p2, p3, p4, p5, p6, p7, p8, p9 and 2 more",
        "  memory offloading: on",
        "  CPU weight: that of a request for 4 cores",
        "  left alone by the weight (5 %): no pods yet",
        '  ignored: spec systemIndicator "x": left out',
        "    NODE  PODS",
    ]
    assert shown[-5:] == [
        "    … and 11 more (--json shows all)",
        "",
        f"ConfigMap shop/web has no effect: {TWIN['reason']}",
        "",
        "No room in the NodeSLOs of n3.",
    ]


def test_a_service_without_profiles(serve: Serve, failing: Failing) -> None:
    reason = "there are no profiles in namespace shop"
    page = serve(**{"v1/why": json_page({"service": "shop/web", "reason": reason})})
    asked = "why", "service", "shop/web", f"--address={page.address}"
    assert failing(*asked, "--json") == (1, f"koordctl: {reason}")
    code, line = failing(*asked[:2], "web")
    assert code == 2
    assert '"web" is not a service; expected NAMESPACE/NAME' in line
