"""koordlet's ``main`` with the pauses cut short that no setting changes, for tests of the whole.

What a NodeMetric's policy may ask for begins at a second; reports begin at once. The
service account is where ``HURRIED_ACCOUNT`` says, and "managers.test", or the name in
``HURRIED_MANAGERS_NAME``, resolves to the addresses in ``HURRIED_MANAGERS``. With
``HURRIED_UNMANAGED`` it writes no kernel files, as one that is not root. Everything else is
the program as it is.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

from koord_kube import credentials

# Before anybody takes it over as a default.
credentials.ACCOUNT = Path(os.environ.get("HURRIED_ACCOUNT", credentials.ACCOUNT))

from koord_kube import client, informer  # noqa: E402
from koordlet.agent import agent, metrics_reporter  # noqa: E402
from koordlet.agent.main import main  # noqa: E402
from koordlet.metrics_reporter import direct_link, reporter  # noqa: E402
from koordlet.metrics_reporter.documents import metric_policy  # noqa: E402

_MANAGERS = os.environ.get("HURRIED_MANAGERS_NAME", "managers.test")

_really: Any = direct_link.DirectLink._resolved


async def _resolved(
    link: direct_link.DirectLink, host: str, port: int, tried: dict[str, str]
) -> list[direct_link.Place]:
    if host != _MANAGERS:
        return await _really(link, host, port, tried)  # type: ignore[no-any-return]
    return [(one, port) for one in os.environ["HURRIED_MANAGERS"].split(",")]


HURRY: dict[Any, dict[str, Any]] = {
    reporter: {"_FIRST_WITHIN": 0.0, "_NOT_YET_SECONDS": 0.2, "_FIRST_BACKOFF": 0.5, "_QPS": 5},
    metric_policy: {"_LEAST_INTERVAL": 1, "_LEAST_AGGREGATE": 1},
    informer: {"ReflectorTiming": partial(informer.ReflectorTiming, first=0.2, cap=0.5)},
    client: {"Limits": partial(client.Limits, answer=4.0, listing=4.0)},
    metrics_reporter: {"DirectLink": partial(direct_link.DirectLink, attempt_seconds=0.5)},
    direct_link.DirectLink: {"_resolved": _resolved},
}

if os.environ.get("HURRIED_UNMANAGED"):
    HURRY[agent.Agent] = {"_open_node": lambda *_: None}

if __name__ == "__main__":
    for changed, constants in HURRY.items():
        for name, value in constants.items():
            assert hasattr(changed, name), name
            setattr(changed, name, value)
    main()
