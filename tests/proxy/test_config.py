"""The proxy's own rules for its settings; how they are read is tested with ``koord_service``."""

from __future__ import annotations

import dataclasses

import pytest
from koord_proxy.config import ProxySettings
from koord_service.settings import SettingsError, flag_of, parse

GO_FLAGS = {
    "--koord-runtimeproxy-endpoint": "/var/run/koord-runtimeproxy/runtimeproxy.sock",
    "--remote-runtime-service-endpoint": "/var/run/containerd/containerd.sock",
    "--backend-runtime-mode": "Containerd",
    "--runtime-hook-server-key": "runtimeproxy.koordinator.sh/skip-hookserver",
    "--runtime-hook-server-val": "true",
}
PROXY, RUNTIME = "--koord-runtimeproxy-endpoint", "--remote-runtime-service-endpoint"


def read(*argv: str) -> ProxySettings:
    return parse(ProxySettings, prog="koord-runtime-proxy", description="", argv=argv, environ={})


def test_the_go_proxys_flags_with_its_defaults():
    ours = {flag_of(field): field.default for field in dataclasses.fields(ProxySettings)}
    assert GO_FLAGS.items() <= ours.items()


@pytest.mark.parametrize(
    ("argv", "field", "value"),
    [
        (["-backend-runtime-mode=Containerd"], "docker", False),
        ([f"{PROXY}=unix:///a"], "koord_runtimeproxy_endpoint", "/a"),
        ([f"{RUNTIME}=unix:///run/b"], "remote_runtime_service_endpoint", "/run/b"),
        (["--hook-plugins=a,b"], "hook_plugins", ("a", "b")),
        (["--state-path="], "state_path", ""),
        (["--drain-timeout=0"], "drain_timeout", 0.0),
        (["--socket-mode=600"], "socket_mode", "600"),
    ],
    ids=str,
)
def test_good_values(argv, field, value):
    assert getattr(read(*argv), field) == value


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ([f"{PROXY}=x"], f'{PROXY} is "x"; expected the absolute path of a socket'),
        (
            [f"{RUNTIME}=tcp://1.2.3.4:5"],
            f'{RUNTIME} is "tcp://1.2.3.4:5"; expected the absolute path of a socket',
        ),
        (
            [f"{PROXY}=/a", f"{RUNTIME}=unix:///a"],
            f'{PROXY} is "/a", the same as {RUNTIME}; the proxy cannot stand in front of itself',
        ),
        (["--socket-mode=rw"], 'socket mode is "rw"; expected octal digits such as "0660"'),
        (["--drain-timeout=-1"], "--drain-timeout is -1; expected 0 or more"),
    ],
    ids=str,
)
def test_bad_values(argv, line):
    with pytest.raises(SettingsError) as caught:
        read(*argv)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("argv", "socket"),
    [
        ([], "/var/run/containerd/containerd.sock"),
        (["--backend-runtime-mode=Docker"], "/var/run/docker.sock"),
        (["--backend-runtime-mode=Docker", f"{RUNTIME}=unix:///d.sock"], "/d.sock"),
    ],
    ids=str,
)
def test_where_the_runtime_is(argv, socket):
    settings = read(*argv)
    assert settings.remote_runtime_service_endpoint == socket
    assert settings.docker == bool(argv)
