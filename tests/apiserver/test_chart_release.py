"""The chart as a release in a real API server: installed, upgraded, and removed by Helm."""

from __future__ import annotations

import json
import subprocess

from koord_kube.definitions.catalogue import DEFINITIONS

from tests.apiserver.real_cluster import ROOT, RealCluster
from tests.deploy.helm import helm, needs_helm
from tests.deploy.manifests import Id, identity
from tests.deploy.test_profiles import kustomized
from tests.support.kube_apiserver import ADMIN, KubeApiserver
from tools.deploy_files import CHART

pytestmark = needs_helm
PROFILE = str(ROOT / "deploy/profiles/everything/values.yaml")


def test_a_release_is_installed_upgraded_and_removed_and_its_definitions_stay(
    server: KubeApiserver,
) -> None:
    cluster = RealCluster(server)
    config = f"--kubeconfig={server.kubeconfig('admin', ADMIN)}"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        done = helm(*words, config)
        assert done.returncode == 0, done.stderr
        assert "level=WARN" not in done.stderr
        return done

    def versions() -> dict[Id, str]:
        """Of every object of the release; one that is not there fails."""
        manifest = run("get", "manifest", "pykoord").stdout
        found = json.loads(cluster.kubectl("get", "-f", "-", "-o", "json", stdin=manifest))
        return {identity(one): one["metadata"]["resourceVersion"] for one in found["items"]}

    run("install", "pykoord", str(CHART), "-f", PROFILE)
    before = versions()
    assert before.keys() == kustomized("everything").keys()
    assert len(cluster.get("crd")["items"]) == len(DEFINITIONS)
    run("upgrade", "pykoord", str(CHART), "-f", PROFILE)
    assert versions() == before, "the same again changes nothing"
    # Its definitions are established.
    cluster.kubectl("apply", "-f", str(ROOT / "deploy/examples/elastic-quotas.yaml"))

    policies = ("--set", "networkPolicies.enabled=true", "--set", "descheduler.enabled=false")
    run("upgrade", "pykoord", str(CHART), "-f", PROFILE, *policies)
    ours = ("-n", "koordinator-system")
    there = {one["metadata"]["name"] for one in cluster.get("networkpolicy", *ours)["items"]}
    assert there == {"koord-manager", "koord-scheduler", "koord-descheduler"}
    deployments = {one["metadata"]["name"] for one in cluster.get("deployment", *ours)["items"]}
    assert deployments == {"koord-manager", "koord-scheduler"}

    refused = helm("upgrade", "pykoord", str(CHART), "--set", "maneger.replicas=3", config)
    assert "additional properties 'maneger' not allowed" in refused.stderr
    manifest = run("get", "manifest", "pykoord").stdout
    run("uninstall", "pykoord")
    left = cluster.kubectl("get", "--ignore-not-found", "-o", "name", "-f", "-", stdin=manifest)
    assert left.split() == ["namespace/koordinator-system"]  # nobody here ends a Namespace
    assert len(cluster.get("crd")["items"]) == len(DEFINITIONS)
    assert len(cluster.get("elasticquotas", "-n", "kube-system")["items"]) == 3
