"""A real kube-apiserver over a real etcd, where somebody has brought the programs.

They are looked for where Kubernetes' own test tools have them, in the folder that
``KUBEBUILDER_ASSETS`` names (``setup-envtest use -p path`` prints one), and then on ``PATH``.
No registry of this project's has a kube-apiserver, so elsewhere the double
(``kube_api``) stands in for it, which is held to what this one does.
"""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

import yaml

from tests.support import network
from tests.support.certificates import HAVE_OPENSSL, make_certificates
from tests.support.processes import Program

ASSETS = "KUBEBUILDER_ASSETS"
ADMIN = "admin-token"
"""The bearer token of somebody who may do everything."""
_PORT = 6443
_ETCD = "http://127.0.0.1:2379"


def find_program(name: str) -> str | None:
    """The path of one of Kubernetes' programs, where there is one."""
    folder = os.environ.get(ASSETS)
    return shutil.which(name, path=folder) if folder else shutil.which(name)


def why_not() -> str | None:
    """What keeps one from running here; None where nothing does."""
    missing = [name for name in ("etcd", "kube-apiserver", "kubectl") if find_program(name) is None]
    if missing:
        return f"neither in {ASSETS} nor on PATH: {', '.join(missing)}"
    return network.why_not() if HAVE_OPENSSL else "not installed: openssl"


class KubeApiserver:
    """Serves at ``url`` while entered, over TLS that ``authority`` vouches for.

    It reaches the endpoints of Services itself, as there is no kube-proxy. There are no
    controllers either: nothing is garbage collected, and EndpointSlices are who wants them's.
    """

    def __init__(
        self,
        folder: Path,
        own: network.OwnNetwork,
        users: Sequence[Sequence[str]] = (),
        flags: Mapping[str, str] = MappingProxyType({}),
        ready: str = "/readyz",
    ) -> None:
        """``users`` are others than the administrator: token, name, id and group of each.

        It serves once it answers 200 at the path ``ready``.
        """
        self._ready_path = ready
        self.folder = folder
        self.network = own
        self.url = f"https://{own.address}:{_PORT}"
        names = f"IP:{own.address},DNS:kubernetes.default.svc"
        self._certificates = make_certificates(folder / "server", names)
        self._front_proxy = make_certificates(folder / "front-proxy")
        self.authority = self._certificates.authority
        self._webhook_client = make_certificates(folder / "webhook-client")
        self.webhook_authority = self._webhook_client.authority
        """Vouches for the server as a client of webhooks."""
        self.webhook_token = folder / "webhook.token"
        """What it shows webhooks besides."""
        self._flags = flags
        self._users = ((ADMIN, "admin", "admin", "system:masters"), *users)
        self.etcd = Program("etcd", folder)
        self.program = Program("kube-apiserver", folder)

    def __enter__(self) -> Self:
        tokens = "".join(f"{','.join(one)}\n" for one in self._users)
        (self.folder / "tokens.csv").write_text(tokens)
        try:
            self.start_etcd()
            self.start()
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.program.close()
        self.etcd.close()

    @property
    def pid(self) -> int:
        """kube-apiserver's."""
        return self.program.pid

    def kubeconfig(self, name: str, token: str) -> Path:
        """The file by which whoever has this token is its user."""
        file = self.folder / f"{name}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.authority)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "real",
            "contexts": [{"name": "real", "context": {"cluster": "real", "user": name}}],
            "clusters": [{"name": "real", "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
        }
        file.write_text(yaml.safe_dump(config))
        file.chmod(0o600)
        return file

    def command(self, *words: str, token: str = ADMIN) -> list[str]:
        """kubectl's."""
        return [
            find_program("kubectl") or "",
            f"--kubeconfig={self.kubeconfig('kubectl', token)}",
            *words,
        ]

    def kubectl(self, *words: str, token: str = ADMIN, stdin: str = "") -> str:
        """What kubectl prints.

        Raises:
            RuntimeError: it has failed; with what it said.
        """
        environ = {**os.environ, "HOME": str(self.folder)}
        done = subprocess.run(
            self.command(*words, token=token),
            input=stdin,
            env=environ,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    @property
    def key(self) -> Path:
        """Signs tokens of service accounts."""
        return self._certificates.key

    def start_etcd(self) -> None:
        """Start it, and wait for nothing: the API server does."""
        data = ("--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync", "--log-level=warn")
        urls = (f"--listen-client-urls={_ETCD}", f"--advertise-client-urls={_ETCD}")
        command = [
            find_program("etcd") or "",
            *data,
            *urls,
            "--listen-peer-urls=http://127.0.0.1:2380",
        ]
        self.etcd.spawn(self.network.inside(command))

    def start(self) -> None:
        """Start it, and wait for nothing."""
        key = self._certificates.key
        front = self._front_proxy
        flags = {
            "etcd-servers": _ETCD,
            "bind-address": self.network.address,
            "secure-port": _PORT,
            "tls-cert-file": self._certificates.certificate,
            "tls-private-key-file": key,
            "client-ca-file": self.authority,
            "token-auth-file": self.folder / "tokens.csv",
            "anonymous-auth": "false",
            "allow-privileged": "true",
            "authorization-mode": "Node,RBAC",
            "enable-admission-plugins": "NodeRestriction",
            "service-cluster-ip-range": "10.96.0.0/16",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": self._certificates.certificate,
            "service-account-signing-key-file": key,
            "endpoint-reconciler-type": "none",
            "enable-aggregator-routing": "true",
            "proxy-client-cert-file": front.certificate,
            "proxy-client-key-file": front.key,
            "requestheader-client-ca-file": front.authority,
            "requestheader-allowed-names": "server",
            "requestheader-username-headers": "X-Remote-User",
            "requestheader-group-headers": "X-Remote-Group",
            "requestheader-extra-headers-prefix": "X-Remote-Extra-",
            "admission-control-config-file": self._admission_config(),
        }
        command = [find_program("kube-apiserver") or ""]
        command += [f"--{name}={value}" for name, value in (flags | dict(self._flags)).items()]
        self.program.spawn(self.network.inside(command))

    def wait_until_ready(self) -> None:
        self.program.wait_until(self._ready, "it does not serve")

    def _admission_config(self) -> Path:
        """As docs/security says: as whom it asks webhooks."""
        self.webhook_token.write_text("none")
        client = self._webhook_client
        user = {
            "client-certificate": str(client.certificate),
            "client-key": str(client.key),
            "tokenFile": str(self.webhook_token),
        }
        kubeconfig = self.folder / "webhooks.kubeconfig"
        users = [{"name": "koordinator-webhook-service.koordinator-system.svc", "user": user}]
        kubeconfig.write_text(
            yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "users": users})
        )
        version = "apiserver.config.k8s.io/v1"
        configuration = {
            "apiVersion": version,
            "kind": "WebhookAdmissionConfiguration",
            "kubeConfigFile": str(kubeconfig),
        }
        plugins = [
            {"name": f"{kind}AdmissionWebhook", "configuration": configuration}
            for kind in ("Mutating", "Validating")
        ]
        made = self.folder / "admission.yaml"
        whole = {"apiVersion": version, "kind": "AdmissionConfiguration", "plugins": plugins}
        made.write_text(json.dumps(whole))
        return made

    def _ready(self) -> bool:
        context = ssl.create_default_context(cafile=str(self.authority))
        asked = urllib.request.Request(
            f"{self.url}{self._ready_path}", headers={"Authorization": f"Bearer {ADMIN}"}
        )
        try:
            with urllib.request.urlopen(asked, context=context, timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False
