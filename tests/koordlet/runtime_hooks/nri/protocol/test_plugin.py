"""One NRI connection, played with bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st
from koord_proto import nri_pb2 as pb
from koord_proto import nri_ttrpc_pb2 as ttrpc_pb
from koordlet.runtime_hooks.nri.protocol import ttrpc
from koordlet.runtime_hooks.nri.protocol.events import (
    ConfigureRequest,
    IncomingCall,
    RegistrationRejection,
    RegistrationResponse,
    RuntimeInfo,
    ShutdownRequest,
    UpdateResponse,
)
from koordlet.runtime_hooks.nri.protocol.methods import BY_NAME, METHODS
from koordlet.runtime_hooks.nri.protocol.plugin import NriPlugin, NriPluginState

from tests.support.nri_runtime import PLUGIN, RUNTIME, StrictReader, pieces, request, response

EVENTS = frozenset({pb.RUN_POD_SANDBOX, pb.CREATE_CONTAINER})
POD = pb.PodSandbox(id="s1", name="web", namespace="shop")
CONTAINER = pb.Container(id="c1", name="main")
UPDATE = pb.ContainerUpdate(container_id="c1")
EMPTY = pb.Empty()


class Dialogue:
    """A plugin's connection, and what it says."""

    def __init__(self, events: Iterable[int] = EVENTS) -> None:
        self.plugin = NriPlugin("koordlet", "10", events)
        self._reader = StrictReader()

    def said(self) -> list[tuple[int, int, bytes]]:
        """Connection, stream and payload of each frame since the last look."""
        data = b"".join(self.plugin.out)
        self.plugin.out.clear()
        return [
            (connection, stream, payload)
            for connection, stream, _, payload in self._reader.feed(data)
        ]

    def answers(self) -> list[ttrpc_pb.Response]:
        """The plugin's answers since the last look."""
        return [ttrpc_pb.Response.FromString(payload) for _, _, payload in self.said()]

    def ask(self, stream: int, method: str, message: Message) -> Any:
        """What the plugin makes of a call."""
        return self.plugin.receive(request(stream, method, message))


def configured(events: Iterable[int] = EVENTS, **runtime: Any) -> tuple[Dialogue, int]:
    """A registered plugin, and the mask it subscribed with."""
    dialogue = Dialogue(events)
    dialogue.plugin.register()
    dialogue.said()
    dialogue.plugin.receive(response(1, EMPTY))
    dialogue.ask(1, "Configure", pb.ConfigureRequest(**runtime))
    [answer] = dialogue.answers()
    return dialogue, pb.ConfigureResponse.FromString(answer.payload).events


def ready() -> Dialogue:
    """A plugin that is synchronised; the runtime's next stream is 5."""
    dialogue, _ = configured()
    [asked] = dialogue.ask(3, "Synchronize", pb.SynchronizeRequest())
    dialogue.plugin.answer(asked.id, None)
    dialogue.said()
    return dialogue


@pytest.mark.parametrize(
    ("name", "index"),
    [("koordlet", one) for one in ("", "1", "100", "1a", "١٢", "-1", "10\n")]
    + [(one, "10") for one in ("", "a b", "a/b", "ä")],
)
def test_a_name_or_index_that_no_runtime_takes_is_refused(name, index):
    with pytest.raises(ValueError, match=r"expected (two digits|letters)"):
        NriPlugin(name, index, EVENTS)


def test_registration():
    dialogue = Dialogue()
    assert dialogue.plugin.state is NriPluginState.NEW
    dialogue.plugin.register()
    [(connection, stream, payload)] = dialogue.said()
    call = ttrpc_pb.Request.FromString(payload)
    assert (connection, stream) == (RUNTIME, 1)
    assert (call.service, call.method) == ("nri.pkg.api.v1alpha1.Runtime", "RegisterPlugin")
    reported = pb.RegisterPluginRequest.FromString(call.payload)
    assert (reported.plugin_name, reported.plugin_idx) == ("koordlet", "10")


@pytest.mark.parametrize(
    ("answer", "event", "state"),
    [
        (response(1, EMPTY), RegistrationResponse(), "REGISTERING"),
        (response(1, None, 2, "index taken"), RegistrationRejection("index taken"), "OVER"),
        (response(1, None, 2, ""), RegistrationRejection("code 2"), "OVER"),
    ],
    ids=["taken", "refused", "refused without a word"],
)
def test_the_answer_to_a_registration(answer, event, state):
    dialogue = Dialogue()
    dialogue.plugin.register()
    assert dialogue.plugin.receive(answer) == [event]
    assert dialogue.plugin.state is NriPluginState[state]


def test_configuration_may_come_before_the_registration_is_answered():
    dialogue = Dialogue()
    dialogue.plugin.register()
    configure = request(1, "Configure", pb.ConfigureRequest(runtime_name="containerd"))
    events = dialogue.plugin.receive(configure + response(1, EMPTY))
    assert events == [ConfigureRequest(RuntimeInfo("containerd", "")), RegistrationResponse()]
    assert dialogue.plugin.state is NriPluginState.CONFIGURED


@pytest.mark.parametrize(
    "broken",
    [
        (9).to_bytes(4, "big") + b"\xff" * 4,
        pieces(PLUGIN, b"\xff" * ttrpc.HEADER.size),
        pieces(RUNTIME, b"\xff" * ttrpc.HEADER.size),
    ],
    ids=["a piece", "a call", "an answer"],
)
def test_what_came_before_an_error_is_not_lost(broken):
    dialogue = Dialogue()
    dialogue.plugin.register()
    configure = request(1, "Configure", pb.ConfigureRequest(runtime_name="containerd"))
    events = dialogue.plugin.receive(configure + response(1, EMPTY) + broken)
    assert events == [ConfigureRequest(RuntimeInfo("containerd", "")), RegistrationResponse()]
    assert "bytes; at most" in str(dialogue.plugin.failed)


def test_a_piece_of_several_frames_of_which_the_last_is_broken():
    dialogue = Dialogue()
    dialogue.plugin.register()
    call = ttrpc_pb.Response(payload=EMPTY.SerializeToString()).SerializeToString()
    frames = ttrpc.pack(1, ttrpc.RESPONSE, call) + b"\xff" * ttrpc.HEADER.size
    assert dialogue.plugin.receive(pieces(RUNTIME, frames)) == [RegistrationResponse()]
    assert dialogue.plugin.failed


def test_configuration_and_subscription():
    dialogue, mask = configured()
    assert mask == 1 << 0 | 1 << 3
    message = pb.ConfigureRequest(
        config="a: b",
        runtime_name="containerd",
        runtime_version="v2.3.0",
        registration_timeout=5000,
        request_timeout=2500,
        NRI_version="v0.12.0",
    )
    assert dialogue.ask(3, "Configure", message) == [
        ConfigureRequest(RuntimeInfo("containerd", "v2.3.0", "a: b", "v0.12.0", 5.0, 2.5))
    ]


def test_the_answer_to_a_synchronisation():
    dialogue, _ = configured()
    dialogue.ask(3, "Synchronize", pb.SynchronizeRequest())
    assert dialogue.plugin.state is NriPluginState.CONFIGURED
    dialogue.plugin.answer(3, pb.SynchronizeResponse(update=[UPDATE]))
    [answer] = dialogue.answers()
    assert pb.SynchronizeResponse.FromString(answer.payload).update == [UPDATE]
    assert dialogue.plugin.state is NriPluginState.SYNCHRONIZED


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=5))
def test_split_synchronisation_is_one_call(parts):
    dialogue, _ = configured()
    whole = pb.SynchronizeRequest()
    asked = []
    for number, (pods, containers) in enumerate(parts):
        part = pb.SynchronizeRequest(more=number < len(parts) - 1)
        part.pods.extend(pb.PodSandbox(id=f"{number}.{n}") for n in range(pods))
        part.containers.extend(pb.Container(id=f"{number}.{n}") for n in range(containers))
        whole.pods.extend(part.pods)
        whole.containers.extend(part.containers)
        assert asked == []
        asked += dialogue.ask(3 + 2 * number, "Synchronize", part)
    assert asked == [IncomingCall(1 + 2 * len(parts), BY_NAME["Synchronize"], whole, 2.0)]
    for answer in dialogue.answers():
        assert pb.SynchronizeResponse.FromString(answer.payload) == pb.SynchronizeResponse(
            more=True
        )


def test_synchronisation_begins_anew_after_one():
    dialogue, _ = configured()
    dialogue.ask(3, "Synchronize", pb.SynchronizeRequest(pods=[POD]))
    [again] = dialogue.ask(5, "Synchronize", pb.SynchronizeRequest(pods=[POD]))
    assert again.request == pb.SynchronizeRequest(pods=[POD])


@pytest.mark.parametrize("method", METHODS[1:], ids=lambda method: method.name)
def test_every_call_is_reported_and_answered(method):
    dialogue = ready()
    message = method.request(pod=POD)
    assert dialogue.ask(5, method.name, message) == [IncomingCall(5, method, message, 2.0)]
    assert dialogue.said() == []
    dialogue.plugin.answer(5, method.response())
    [(connection, stream, _)] = dialogue.said()
    assert (connection, stream) == (PLUGIN, 5)


@pytest.mark.parametrize("method", METHODS[1:], ids=lambda method: method.name)
def test_changes_of_state_are_the_same_calls(method):
    dialogue = ready()
    change = pb.StateChangeEvent(event=method.event, pod=POD, container=CONTAINER)
    wanted = method.request(pod=POD)
    if hasattr(wanted, "container"):
        wanted.container.CopyFrom(CONTAINER)
    assert dialogue.ask(5, "StateChange", change) == [IncomingCall(5, method, wanted, 2.0)]
    dialogue.plugin.answer(5, None)
    [answer] = dialogue.answers()
    assert answer == ttrpc_pb.Response()


def test_a_pods_change_of_state_has_no_container():
    change = pb.StateChangeEvent(event=pb.REMOVE_CONTAINER, pod=POD)
    [asked] = ready().ask(5, "StateChange", change)
    assert not asked.request.HasField("container")


@pytest.mark.parametrize(
    ("method", "message", "events", "state"),
    [
        # An event that is not known is answered; an adjustment is not rejected.
        ("StateChange", pb.StateChangeEvent.FromString(bytes([8, 99])), [], "SYNCHRONIZED"),
        ("ValidateContainerAdjustment", EMPTY, [], "SYNCHRONIZED"),
        ("Shutdown", EMPTY, [ShutdownRequest()], "OVER"),
    ],
)
def test_calls_that_are_answered_at_once(method, message, events, state):
    dialogue = ready()
    assert dialogue.ask(5, method, message) == events
    assert dialogue.answers() == [ttrpc_pb.Response()]
    assert dialogue.plugin.state is NriPluginState[state]


def test_what_is_not_declared_is_carried():
    dialogue = ready()
    unknown = bytes([0xFA, 0x3E, 1, 65])
    message = pb.CreateContainerRequest.FromString(unknown)
    [asked] = dialogue.ask(5, "CreateContainer", message)
    assert asked.request.SerializeToString() == unknown


PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"


@pytest.mark.parametrize(
    ("service", "method", "code", "words"),
    [(PLUGIN_SERVICE, "MakeCoffee", ttrpc.UNIMPLEMENTED, "MakeCoffee is not served")]
    + [("else.Where", "Configure", ttrpc.UNIMPLEMENTED, "")]
    + [
        (PLUGIN_SERVICE, method, ttrpc.INVALID_ARGUMENT, "")
        for method in ("CreateContainer", "Configure", "Synchronize", "StateChange")
    ],
)
def test_unknown_and_unreadable_calls_are_refused(service, method, code, words):
    dialogue = ready()
    call = ttrpc_pb.Request(service=service, method=method, payload=b"\xff").SerializeToString()
    assert dialogue.plugin.receive(pieces(PLUGIN, ttrpc.pack(5, ttrpc.REQUEST, call))) == []
    [answer] = dialogue.answers()
    assert answer.status.code == code
    assert words in answer.status.message


def test_a_call_that_is_refused_fails_in_the_runtime():
    dialogue = ready()
    dialogue.ask(5, "RunPodSandbox", pb.RunPodSandboxRequest(pod=POD))
    dialogue.plugin.refuse(5, "no NUMA node")
    [answer] = dialogue.answers()
    assert (answer.status.code, answer.status.message) == (
        ttrpc.FAILED_PRECONDITION,
        "no NUMA node",
    )
    with pytest.raises(ValueError, match="call 5 waits for no answer"):
        dialogue.plugin.answer(5, None)


def test_answers_may_come_in_another_order_and_only_once():
    dialogue = ready()
    for stream in (5, 7):
        dialogue.ask(stream, "CreateContainer", pb.CreateContainerRequest(pod=POD))
    dialogue.plugin.answer(7, None)
    dialogue.plugin.answer(5, None)
    assert [stream for _, stream, _ in dialogue.said()] == [7, 5]
    with pytest.raises(ValueError, match="call 5 waits for no answer"):
        dialogue.plugin.answer(5, None)


def test_bad_answers_leave_the_call_waiting():
    dialogue = ready()
    dialogue.ask(5, "CreateContainer", pb.CreateContainerRequest(pod=POD))
    with pytest.raises(TypeError, match="a StopContainerResponse where CreateContainerResponse"):
        dialogue.plugin.answer(5, pb.StopContainerResponse())
    large = pb.CreateContainerResponse()
    large.adjust.annotations["large"] = "x" * ttrpc.MAX_MESSAGE
    with pytest.raises(ValueError, match="at most"):
        dialogue.plugin.answer(5, large)
    assert dialogue.said() == []
    dialogue.plugin.answer(5, None)
    assert dialogue.answers() == [ttrpc_pb.Response()]


def test_an_unsolicited_update_is_called_for():
    dialogue = ready()
    call = dialogue.plugin.update_containers([UPDATE], 3.0)
    [(connection, stream, payload)] = dialogue.said()
    made = ttrpc_pb.Request.FromString(payload)
    assert (connection, stream, made.method) == (RUNTIME, call, "UpdateContainers")
    assert made.timeout_nano == 3_000_000_000
    assert pb.UpdateContainersRequest.FromString(made.payload).update == [UPDATE]


UNREADABLE = ttrpc_pb.Response(payload=b"\xff").SerializeToString()


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (
            lambda call: response(call, pb.UpdateContainersResponse(failed=[UPDATE])),
            {"failed": (UPDATE,)},
        ),
        (lambda call: response(call, None, 2, "not now"), {"error": "not now"}),
        (
            lambda call: pieces(RUNTIME, ttrpc.pack(call, ttrpc.RESPONSE, UNREADABLE)),
            {"error": "the answer cannot be read"},
        ),
    ],
    ids=["partly", "refused", "unreadable"],
)
def test_the_answer_to_an_unsolicited_update(answer, outcome):
    dialogue = ready()
    call = dialogue.plugin.update_containers([UPDATE])
    assert dialogue.plugin.receive(answer(call)) == [UpdateResponse(call, **outcome)]


def test_other_connections_are_passed_over():
    dialogue = ready()
    assert dialogue.plugin.receive(pieces(3, b"anything")) == []
    assert dialogue.said() == []


@given(st.integers(1, 400))
def test_a_whole_conversation_may_come_in_any_pieces(step):
    dialogue = Dialogue()
    dialogue.plugin.register()
    message = pb.CreateContainerRequest(pod=POD, container=CONTAINER)
    data = b"".join(
        [
            response(1, EMPTY),
            request(1, "Configure", pb.ConfigureRequest()),
            request(3, "Synchronize", pb.SynchronizeRequest(pods=[POD], more=True)),
            request(5, "Synchronize", pb.SynchronizeRequest(containers=[CONTAINER])),
            request(7, "CreateContainer", message),
        ]
    )
    events = []
    for start in range(0, len(data), step):
        events += dialogue.plugin.receive(data[start : start + step])
    assert events == [
        RegistrationResponse(),
        ConfigureRequest(RuntimeInfo("", "")),
        IncomingCall(
            5,
            BY_NAME["Synchronize"],
            pb.SynchronizeRequest(pods=[POD], containers=[CONTAINER]),
            2.0,
        ),
        IncomingCall(7, BY_NAME["CreateContainer"], message, 2.0),
    ]


@given(st.binary(max_size=300))
def test_no_bytes_do_anything_but_end_the_connection(data):
    dialogue = ready()
    try:
        dialogue.plugin.receive(data)
    except ttrpc.TtrpcError:
        pass
