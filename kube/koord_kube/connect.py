"""Finds the cluster: from kubeconfig files, else from the pod's service account."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from koord_kube.client import Client, Cluster, Limits
from koord_kube.core.retry_schedule import RetryTiming
from koord_kube.credentials import ACCOUNT, TokenFile, server_context
from koord_kube.kubeconfig import KubeconfigContext, KubeconfigError, cluster_of
from koord_kube.shared_backoff import SharedBackoff


class ConnectError(ValueError):
    """No cluster was found; one line with the reason and what to do."""


async def connect(
    kubeconfig: str = "",
    limits: Limits | None = None,
    *,
    context: str = "",
    environ: Mapping[str, str] = os.environ,
    account: Path = ACCOUNT,
) -> Client:
    """A client of the configured cluster. It sends no request yet.

    ``kubeconfig`` may be several files, as ``$KUBECONFIG``; ``context`` is one of theirs, "" the
    current one.

    Raises:
        ConnectError: the cluster is not configured, or its configuration cannot be used.
    """
    try:
        if kubeconfig:
            paths = tuple(Path(path) for path in kubeconfig.split(os.pathsep) if path)
            cluster = await cluster_of(KubeconfigContext(paths, context))
        else:
            cluster = in_cluster(environ, account)
    except (OSError, KubeconfigError) as error:
        raise ConnectError(str(error)) from None
    limits = limits or Limits()
    backoff = SharedBackoff(RetryTiming(probe=limits.probe))
    return Client(replace(cluster, backoff=backoff), limits)


def in_cluster(environ: Mapping[str, str], account: Path = ACCOUNT) -> Cluster:
    """The cluster whose pod this is."""
    # Not by the kubernetes package: it costs 20 MB, reads tokens with their line end,
    # and forgets a token that is refused only after a minute.
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConnectError(
            "no Kubernetes API: not in a pod (KUBERNETES_SERVICE_HOST and _PORT are not set) "
            "and no --kubeconfig is given"
        )
    for name in ("token", "ca.crt"):
        if not (account / name).is_file():
            raise ConnectError(
                f"{account / name}: not there; the pod needs automountServiceAccountToken, "
                "or give --kubeconfig"
            )
    bracketed = f"[{host}]" if ":" in host else host
    return Cluster(
        f"https://{bracketed}:{port}",
        TokenFile(account / "token"),
        server_context(account / "ca.crt"),
        new_context=partial(server_context, account / "ca.crt"),
    )
