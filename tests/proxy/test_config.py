"""The proxy's settings: the Go proxy's by name, and one line for each that is wrong."""

from __future__ import annotations

import dataclasses
from pathlib import Path

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


def read(*argv: str, **environ: str) -> ProxySettings:
    return parse(
        ProxySettings, prog="koord-runtime-proxy", description="", argv=argv, environ=environ
    )


def test_the_go_proxys_flags_with_its_defaults():
    ours = {flag_of(field): field.default for field in dataclasses.fields(ProxySettings)}
    assert GO_FLAGS.items() <= ours.items()


def test_what_is_new():
    settings = read()
    assert settings.hook_config_path == "/etc/runtime/hookserver.d"
    assert settings.hook_plugins == ()
    assert settings.state_path == "/var/lib/koord-runtime-proxy/state.db"
    assert (settings.socket_mode, settings.socket_owner) == ("0660", "")
    assert settings.drain_timeout == 10


@pytest.mark.parametrize(
    ("argv", "field", "value"),
    [
        (["-backend-runtime-mode=Containerd"], "backend_runtime_mode", "Containerd"),
        (["--koord-runtimeproxy-endpoint", "/a"], "koord_runtimeproxy_endpoint", "/a"),
        (["--koord-runtimeproxy-endpoint=unix:///a"], "koord_runtimeproxy_endpoint", "/a"),
        (
            ["--remote-runtime-service-endpoint=unix:///run/b"],
            "remote_runtime_service_endpoint",
            "/run/b",
        ),
        (["--hook-plugins=a,b"], "hook_plugins", ("a", "b")),
        (["--hook-plugins", "a", "b"], "hook_plugins", ("a", "b")),
        (["--runtime-hook-server-key="], "runtime_hook_server_key", ""),
        (["--state-path="], "state_path", ""),
        (["--metrics-address="], "metrics_address", ""),
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
        (
            ["--koord-runtimeproxy-endpoint=relative"],
            '--koord-runtimeproxy-endpoint is "relative"; expected the absolute path of a socket',
        ),
        (
            ["--remote-runtime-service-endpoint=tcp://1.2.3.4:5"],
            (
                '--remote-runtime-service-endpoint is "tcp://1.2.3.4:5"; '
                "expected the absolute path of a socket"
            ),
        ),
        (
            ["--koord-runtimeproxy-endpoint=/a", "--remote-runtime-service-endpoint=unix:///a"],
            (
                '--koord-runtimeproxy-endpoint is "/a", the same as '
                "--remote-runtime-service-endpoint; the proxy cannot stand in front of itself"
            ),
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
    "argv",
    [
        ["--backend-runtime-mode=Podman"],
        ["--drain-timeout=soon"],
        ["--drain-timeout=nan"],
        ["--log-format=xml"],
        ["--log-level=loud"],
        ["--no-such-flag"],
        ["--koord-runtime"],
        ["positional"],
        ["--config=/no/such/file"],
    ],
    ids=str,
)
def test_what_no_flag_takes(argv):
    with pytest.raises(SettingsError) as caught:
        read(*argv)
    name = argv[0].lstrip("-").partition("=")[0]
    assert name in str(caught.value) or argv[0].partition("=")[2] in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("argv", "socket"),
    [
        ([], "/var/run/containerd/containerd.sock"),
        (["--backend-runtime-mode=Docker"], "/var/run/docker.sock"),
        (
            ["--backend-runtime-mode=Docker", "--remote-runtime-service-endpoint=unix:///d.sock"],
            "/d.sock",
        ),
    ],
    ids=str,
)
def test_where_the_runtime_is(argv, socket):
    settings = read(*argv)
    assert settings.remote_runtime_service_endpoint == socket
    assert settings.docker == bool(argv)


def test_each_is_also_a_yaml_key_and_a_variable(tmp_path: Path):
    file = tmp_path / "proxy.yaml"
    values = {
        "koord_runtimeproxy_endpoint": "/a",
        "remote_runtime_service_endpoint": "/b",
        "backend_runtime_mode": "Containerd",
        "runtime_hook_server_key": "k",
        "runtime_hook_server_val": "v",
        "hook_config_path": "/h",
        "hook_plugins": "p",
        "state_path": "/s",
        "socket_mode": "0600",
        "socket_owner": "root",
        "metrics_address": "unix:///m",
        "drain_timeout": "3",
        "log_format": "json",
        "log_level": "debug",
    }
    assert values.keys() == {field.name for field in dataclasses.fields(ProxySettings)}
    file.write_text(
        "".join(f"{name.replace('_', '-')}: {value}\n" for name, value in values.items())
    )
    from_file = read("--config", str(file))
    variables = {f"KOORD_RUNTIME_PROXY_{name.upper()}": value for name, value in values.items()}
    assert from_file == read(**variables)
    assert from_file.hook_plugins == ("p",)
    assert from_file.drain_timeout == 3
    assert from_file != read()
