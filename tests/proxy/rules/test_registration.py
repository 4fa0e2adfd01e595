"""Registration files: what they say, what is wrong with them, and what changed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from koord_hooks.stages import Stage
from koord_proxy.rules.registration import (
    MAX_TIMEOUT,
    FailurePolicy,
    HookServerRegistration,
    HookServerRegistrations,
    RegistrationError,
    parse,
)

GOOD = {
    "remote-endpoint": "/run/koordlet.sock",
    "failure-policy": "Ignore",
    "runtime-hooks": ["PreRunPodSandbox", "PreCreateContainer"],
}


def text(**changes: Any) -> bytes:
    """A good file with some values changed (names with _ for -); None removes one."""
    merged = {**GOOD, **{name.replace("_", "-"): value for name, value in changes.items()}}
    return json.dumps({name: value for name, value in merged.items() if value is not None}).encode()


SOCKET = "expected the absolute path of a unix socket"
POLICY = 'expected "Fail" or "Ignore"'
SECONDS = "expected seconds, more than 0 and at most 120"


class TestParse:
    def test_a_file_as_koordlet_writes_it(self):
        assert parse("koordlet", text()) == HookServerRegistration(
            name="koordlet",
            endpoint="/run/koordlet.sock",
            policy=FailurePolicy.IGNORE,
            stages=frozenset({Stage.PRE_RUN_POD_SANDBOX, Stage.PRE_CREATE_CONTAINER}),
            timeout=2.0,
            priority=0,
            connections=1,
        )

    @pytest.mark.parametrize(
        ("changes", "expected"),
        [
            ({"failure_policy": "Fail"}, {"policy": FailurePolicy.FAIL}),
            ({"failure_policy": ""}, {"policy": FailurePolicy.IGNORE}),
            ({"failure_policy": None}, {"policy": FailurePolicy.IGNORE}),
            ({"remote_endpoint": "unix:///run/x.sock"}, {"endpoint": "/run/x.sock"}),
            ({"timeout": 0.001}, {"timeout": 0.001}),
            ({"timeout": 120}, {"timeout": MAX_TIMEOUT}),
            ({"priority": -5}, {"priority": -5}),
            ({"connections": 16}, {"connections": 16}),
            ({"runtime_hooks": None}, {"stages": frozenset()}),
            ({"runtime_hooks": []}, {"stages": frozenset()}),
            ({"runtime_hooks": ["NoneRuntimeHookType"]}, {"stages": frozenset(), "notes": ()}),
            ({"runtime_hooks": list(Stage)}, {"stages": frozenset(Stage)}),
            (
                {"runtime_hooks": ["PostStopContainer", "PostStopContainer"]},
                {"stages": frozenset({Stage.POST_STOP_CONTAINER})},
            ),
            ({"from_the_future": {"deep": [1]}}, {"endpoint": "/run/koordlet.sock"}),
        ],
        ids=str,
    )
    def test_good_values(self, changes, expected):
        found = parse("x", text(**changes))
        assert {name: getattr(found, name) for name in expected} == expected

    def test_unknown_stages_are_passed_over_with_a_note_each(self):
        hooks = ["PreFlight", "PreCreateContainer", "Pre\nFlight", "PreFlight"]
        found = parse("x", text(runtime_hooks=hooks))
        assert found.stages == {Stage.PRE_CREATE_CONTAINER}
        assert found.notes == (
            '"runtime-hooks" has "PreFlight", not known here',
            r'"runtime-hooks" has "Pre\nFlight", not known here',
        )

    @pytest.mark.parametrize(
        ("content", "line"),
        [
            (b"", "Input data was truncated"),
            (b'{"remote-endpoint": "/x', "Input data was truncated"),
            (b"\x00\x00\x00", "JSON is malformed: invalid character (byte 0)"),
            (b"[]", "Expected `object`, got `array`"),
            (b"{} {}", "JSON is malformed: trailing characters (byte 4)"),
            (text(timeout="2s"), "Expected `float`, got `str` - at `$.timeout`"),
            (text(priority=0.5), "Expected `int`, got `float` - at `$.priority`"),
            (
                text(runtime_hooks="PreCreateContainer"),
                "Expected `array | null`, got `str` - at `$.runtime-hooks`",
            ),
            (b'{"remote-endpoint": "/x", "deep": ' + b"[" * 100_000, ""),
            (b'{"remote-endpoint": "/\xff"}', ""),
            (b'{"timeout": 1e999}', ""),
        ],
        ids=range(11),
    )
    def test_files_that_cannot_be_decoded(self, content, line):
        with pytest.raises(RegistrationError) as caught:
            parse("x", content)
        assert str(caught.value).startswith(f"is not valid: {line}")
        assert str(caught.value).isprintable()

    @pytest.mark.parametrize(
        ("changes", "line"),
        [
            ({"remote_endpoint": None}, f'"remote-endpoint" is ""; {SOCKET}'),
            ({"remote_endpoint": "1.2.3.4:5"}, f'"remote-endpoint" is "1.2.3.4:5"; {SOCKET}'),
            ({"remote_endpoint": "a\nb"}, rf'"remote-endpoint" is "a\nb"; {SOCKET}'),
            ({"failure_policy": "Abort"}, f'"failure-policy" is "Abort"; {POLICY}'),
            ({"failure_policy": "fail" * 50}, f'"failure-policy" is "{"fail" * 15}"; {POLICY}'),
            ({"timeout": 0}, f'"timeout" is 0; {SECONDS}'),
            ({"timeout": -1}, f'"timeout" is -1; {SECONDS}'),
            ({"timeout": 120.5}, f'"timeout" is 120.5; {SECONDS}'),
            ({"connections": 0}, '"connections" is 0; expected 1 to 16'),
            ({"connections": 17}, '"connections" is 17; expected 1 to 16'),
        ],
        ids=str,
    )
    def test_bad_values(self, changes, line):
        with pytest.raises(RegistrationError) as caught:
            parse("x", text(**changes))
        assert str(caught.value) == line

    @given(
        st.binary(max_size=40)
        | st.dictionaries(
            st.sampled_from([*GOOD, "timeout", "priority", "connections"]),
            st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just([None]),
        ).map(lambda value: json.dumps(value).encode())
    )
    def test_anything_is_a_registration_or_one_line(self, content):
        try:
            found = parse("x", content)
        except RegistrationError as error:
            line = str(error)
            assert "\n" not in line
            return
        assert found.endpoint.startswith("/")
        assert 0 < found.timeout <= MAX_TIMEOUT


class TestUpdate:
    NEWS = "a.json: /run/koordlet.sock is asked about PreCreateContainer, PreRunPodSandbox"

    def test_everything_is_said_once(self):
        registrations = HookServerRegistrations({})
        servers, problems, news, good, _ = registrations.update({"a": text()})
        assert good == {"a": text()}
        assert [server.name for server in servers] == ["a"]
        assert (problems, news) == ([], [self.NEWS])
        assert registrations.update({"a": text()}) == (servers, [], [], {}, [])

    def test_a_file_without_stages(self):
        _, problems, news, *_ = HookServerRegistrations({}).update({"a": text(runtime_hooks=[])})
        assert (problems, news) == ([], ["a.json: /run/koordlet.sock is asked about nothing"])

    def test_half_written_then_good(self):
        registrations = HookServerRegistrations({})
        whole = text()
        expected = [
            "a.json: is not valid: Input data was truncated (file ignored, 0 others in use)"
        ]
        assert registrations.update({"a": b""}) == ([], expected, [], {}, [])
        assert registrations.update({"a": b""}) == ([], [], [], {}, [])
        assert registrations.update({"a": whole[:50]}) == ([], expected, [], {}, [])
        servers, problems, news, *_ = registrations.update({"a": whole})
        assert len(servers) == 1
        assert (problems, news) == ([], [self.NEWS])

    def test_the_last_good_version_stays(self):
        registrations = HookServerRegistrations({})
        first, *_ = registrations.update({"a": text(), "b": text()})
        servers, problems, news, good, _ = registrations.update({"a": b"{", "b": text()})
        assert servers == first
        assert good == {}
        truncated = "a.json: is not valid: Input data was truncated"
        assert problems == [f"{truncated} (its last good version stays in use)"]
        assert news == []
        assert registrations.errors == {"a": problems[0].removeprefix("a.json: ")}
        # Right again, as it was.
        both = {"a": text(), "b": text()}
        assert registrations.update(both) == (first, [], [self.NEWS], {}, [])
        assert registrations.errors == {}

    def test_a_bad_file_disturbs_no_other(self):
        servers, problems, *_ = HookServerRegistrations({}).update(
            {"a": text(), "b": text(failure_policy="Abort"), "c": text()}
        )
        assert [server.name for server in servers] == ["a", "c"]
        wrong = 'b.json: "failure-policy" is "Abort"; expected "Fail" or "Ignore"'
        assert problems == [f"{wrong} (file ignored, 1 others in use)"]

    def test_one_that_is_gone_is_expected_all_the_same(self):
        registrations = HookServerRegistrations({})
        servers, *_ = registrations.update({"a": text(), "b": b"bad"})
        found = registrations.update({})
        assert found.servers == servers
        [line] = found.problems
        assert line.startswith("a.json: is gone; its server is expected")
        # The bad one was not asked before either.
        assert registrations.errors.keys() == {"a"}
        assert registrations.update({}) == (servers, [], [], {}, [])
        assert registrations.update({"a": text()}) == (servers, [], [self.NEWS], {}, [])
        assert registrations.errors == {}

    @pytest.mark.parametrize("last", [text(), b"bad", None])
    def test_one_that_is_deregistered(self, last):
        registrations = HookServerRegistrations({})
        registrations.update({"a": text()})
        registrations.update({"a": last} if last else {})
        news = ["a.json: deregistered, its server is not asked any more"]
        assert registrations.update({}, ["a", "x"]) == ([], [], news, {}, ["a"])
        assert registrations.update({}) == ([], [], [], {}, [])
        assert registrations.errors == {}
        assert registrations.update({"a": text()}).good == {"a": text()}

    def test_the_last_good_versions_of_an_earlier_run(self):
        registrations = HookServerRegistrations({"a": text(priority=5), "b": b"of another release"})
        found = registrations.update({"a": b"bad"})
        assert [(one.name, one.priority) for one in found.servers] == [("a", 5)]
        assert registrations.errors["a"].endswith("(its last good version stays in use)")
        assert registrations.update({}, ["b"]).removed == ["b"]

    def test_order_is_by_priority_then_name(self):
        servers, *_ = HookServerRegistrations({}).update(
            {"z": text(priority=-1), "b": text(), "a": text(priority=2), "c": text()}
        )
        assert [server.name for server in servers] == ["z", "b", "c", "a"]

    def test_unknown_stages_are_reported_once(self):
        registrations = HookServerRegistrations({})
        files = {"a": text(runtime_hooks=["PreFlight", "NoneRuntimeHookType"])}
        servers, problems, *_ = registrations.update(files)
        assert len(servers) == 1
        assert problems == ['a.json: "runtime-hooks" has "PreFlight", not known here']
        assert registrations.update(files) == (servers, [], [], {}, [])
