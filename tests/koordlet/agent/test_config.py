import pytest
from koord_service.settings import parse
from koordlet.agent.config import KoordletSettings, node_name, select_plugins


def settings(*argv: str) -> KoordletSettings:
    return parse(KoordletSettings, prog="koordlet", description="", argv=argv, environ={})


def test_defaults_are_koordinators_on_a_host():
    default = settings()
    assert default.runtime_hooks_addr == default.runtime_hooks_host_endpoint
    assert default.runtime_hooks_config_path == "/etc/runtime/hookserver.d"
    assert default.runtime_hooks_failure_policy == "Ignore"
    assert default.runtime_hooks_plugin_failure_policy == "Ignore"
    assert default.hook_plugins == ("batchresource", "cpusetallocator", "groupidentity")
    assert default.hook_timeout == 0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"runtime_hooks_addr": "k.sock"}, '--runtime-hooks-addr is "k.sock"; expected an abs'),
        ({"runtime_hooks_host_endpoint": ""}, '--runtime-hooks-host-endpoint is ""; expected'),
        ({"runtime_hooks_config_path": "hooks"}, "--runtime-hooks-config-path is"),
        (
            {"runtime_hooks_disable_stages": ("PreLunch",)},
            '--runtime-hooks-disable-stages: "PreLunch" is not a hook type; expected one of: ',
        ),
        (
            {"runtime_hooks_nri_plugin_index": "7"},
            '--runtime-hooks-nri-plugin-index is "7"; expected two digits',
        ),
        ({"kubelet_sync_interval": 0.0}, "--kubelet-sync-interval is 0; expected more than 0"),
        ({"pod_list_source": "127.0.0.1:10255/pods"}, "--pod-list-source is .*; expected an http"),
        ({"hook_timeout": -1.0}, "--hook-timeout is -1; expected 0 or more"),
        ({"kube_api_qps": 0.0}, "--kube-api-qps is 0; expected more than 0$"),
        ({"kube_api_burst": 0}, "--kube-api-burst is 0; expected 1 or more"),
        ({"kubelet_read_only_port": 70000}, "--kubelet-read-only-port is 70000; expected 1 to"),
        ({"tsdb_max_bytes": -1}, "--tsdb-max-bytes is -1; expected 1048576 or more"),
        ({"prediction_model_checkpoint_max_per_step": 0}, "-per-step is 0; expected 1 or more"),
        ({"prediction_safety_margin_percent": -5}, "-percent is -5; expected 0 or more"),
        ({"collect_res_used_interval": -1.0}, "-interval is -1; expected 0 or more"),
        ({"malachite_addr": ":9002"}, '--malachite-addr is ":9002"; its client has no credentials'),
        ({"malachite_addr": "9002"}, "--malachite-addr: status address is"),
    ],
)
def test_values_that_cannot_be_are_named(values, message):
    with pytest.raises(ValueError, match=message):
        KoordletSettings(**values)


def test_observing_can_be_off():
    assert settings("--collect-res-used-interval=0").collect_res_used_interval == 0


def test_a_node_is_called_as_its_kubelet_registers_it(monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "Node-1.Example")
    assert node_name(KoordletSettings(), {}) == "node-1.example"
    assert node_name(KoordletSettings(), {"NODE_NAME": "A"}) == "A"
    assert node_name(KoordletSettings(node_name="B"), {"NODE_NAME": "A"}) == "B"


KNOWN = ("batchresource", "coresched", "resctrl")


@pytest.mark.parametrize(
    ("names", "gates", "wanted"),
    [
        (("resctrl",), (), ("resctrl",)),
        (("all",), (), KNOWN),
        (("all",), ("CoreSched=false",), ("batchresource", "resctrl")),
        ((), ("CoreSched=true", "BatchResource=True"), ("coresched", "batchresource")),
        (("resctrl",), ("Resctrl=true",), ("resctrl",)),
        (("unknown",), (), ("unknown",)),
        (("batchresource",), ("AllAlpha=true",), KNOWN),
        (("batchresource",), ("CoreSched=false", "AllAlpha=true"), ("batchresource", "resctrl")),
        (("all",), ("AllBeta=false",), ("coresched", "resctrl")),
        (("resctrl",), ("AllBeta=true",), ("resctrl", "batchresource")),
    ],
)
def test_gates_are_laid_over_the_plugins(names, gates, wanted):
    assert select_plugins(names, gates, KNOWN) == (wanted, ())


def test_gates_of_something_else_are_passed_over():
    given = ("BECPUSuppress=true",)
    assert select_plugins((), given, KNOWN) == ((), given)


def test_a_gate_says_true_or_false():
    with pytest.raises(ValueError, match='"CoreSched"; expected NAME=true or NAME=false'):
        select_plugins((), ("CoreSched",), KNOWN)


@pytest.mark.parametrize(
    ("flags", "environ", "expected"),
    [
        (["--pods=/pods.json"], {}, ("/pods.json", False)),
        (["--node-writes=false"], {}, ("", True)),
        (["--node-writes=true"], {}, ("", False)),
        (
            [],
            {"KOORDLET_PODS": "/pods.json", "KOORDLET_NODE_WRITES": "false"},
            ("/pods.json", True),
        ),
        (["--pod-list-source=/pods.json", "--read-only"], {}, ("/pods.json", True)),
    ],
)
def test_renamed_flags_keep_their_old_names(flags, environ, expected):
    found = parse(KoordletSettings, prog="koordlet", description="", argv=flags, environ=environ)
    assert (found.pod_list_source, found.read_only) == expected
