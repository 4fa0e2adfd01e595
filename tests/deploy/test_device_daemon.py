"""The rights of koord-device-daemon's pods: no more than what each has to open."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploy.programs import PODS, settings_of

PLAIN, TOOLS = "koord-device-daemon", "koord-device-daemon-tools"


def host_paths(name: str) -> dict[str, dict[str, Any]]:
    """Where each directory of the host is mounted, and how."""
    spec, container = PODS[name]
    paths = {one["name"]: one["hostPath"]["path"] for one in spec["volumes"] if "hostPath" in one}
    return {paths[one["name"]]: one for one in container["volumeMounts"] if one["name"] in paths}


@pytest.mark.parametrize("name", [PLAIN, TOOLS])
def test_both_share_nothing_with_the_host_but_directories(name: str) -> None:
    spec, _ = PODS[name]
    assert not {"hostPID", "hostIPC", "hostNetwork"} & spec.keys()
    assert spec["automountServiceAccountToken"] is False
    directory = "/var/run/koordlet/xpu-device-infos"
    assert host_paths(name)[directory]["mountPath"] == directory
    assert settings_of(name).prints_output_file.startswith(f"{directory}/")


def test_without_tools_no_privilege_is_needed() -> None:
    security = PODS[PLAIN][1]["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert "privileged" not in security
    assert len(host_paths(PLAIN)) == 1


def test_tools_see_the_host_read_only() -> None:
    assert PODS[TOOLS][1]["securityContext"]["privileged"] is True
    root = settings_of(TOOLS).host_root
    assert host_paths(TOOLS)["/"]["mountPath"] == root
    assert host_paths(TOOLS)["/"]["readOnly"] is True
    assert host_paths(TOOLS)["/dev"]["mountPath"] == f"{root}/dev"


def test_no_vendor_is_described_twice() -> None:
    files = [settings_of(name).prints_output_file for name in (PLAIN, TOOLS)]
    vendors = [vendor for name in (PLAIN, TOOLS) for vendor in settings_of(name).vendors]
    assert len({*files}) == 2
    assert sorted(vendors) == ["amd", "cambricon", "huawei", "intel", "kunlun", "metax", "nvidia"]
