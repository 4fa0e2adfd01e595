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


@pytest.mark.parametrize("index", ["", "1", "100", "1a", "١٢", "-1", "10\n"])
def test_index_that_no_runtime_takes_is_refused(index):
    with pytest.raises(ValueError, match="expected two digits"):
        NriPlugin("koordlet", index, EVENTS)


@pytest.mark.parametrize("name", ["", "a b", "a/b", "ä"])
def test_name_that_no_runtime_takes_is_refused(name):
    with pytest.raises(ValueError, match="expected letters"):
        NriPlugin(name, "10", EVENTS)


def test_registration():
    dialogue = Dialogue()
    assert dialogue.plugin.state is NriPluginState.NEW
    dialogue.plugin.register()
    [(connection, stream, payload)] = dialogue.said()
    call = ttrpc_pb.Request.FromString(payload)
    assert (connection, stream) == (RUNTIME, 1)
    assert (call.service, call.method) == ("nri.pkg.api.v1alpha1.Runtime", "RegisterPlugin")
    told = pb.RegisterPluginRequest.FromString(call.payload)
    assert (told.plugin_name, told.plugin_idx) == ("koordlet", "10")
    assert dialogue.plugin.receive(response(1, EMPTY)) == [RegistrationResponse()]
    assert dialogue.plugin.state is NriPluginState.REGISTERING


@pytest.mark.parametrize(("text", "reason"), [("index taken", "index taken"), ("", "code 2")])
def test_registration_refused(text, reason):
    dialogue = Dialogue()
    dialogue.plugin.register()
    assert dialogue.plugin.receive(response(1, None, 2, text)) == [RegistrationRejection(reason)]
    assert dialogue.plugin.state is NriPluginState.OVER


def test_configuration_may_come_before_the_registration_is_answered():
    dialogue = Dialogue()
    dialogue.plugin.register()
    configure = request(1, "Configure", pb.ConfigureRequest(runtime_name="containerd"))
    events = dialogue.plugin.receive(configure + response(1, EMPTY))
    assert events == [ConfigureRequest(RuntimeInfo("containerd", "")), RegistrationResponse()]
    assert dialogue.plugin.state is NriPluginState.CONFIGURED


def test_configuration_is_told():
    dialogue = Dialogue()
    message = pb.ConfigureRequest(
        config="a: b",
        runtime_name="containerd",
        runtime_version="v2.3.0",
        registration_timeout=5000,
        request_timeout=2500,
        NRI_version="v0.12.0",
    )
    assert dialogue.ask(1, "Configure", message) == [
        ConfigureRequest(RuntimeInfo("containerd", "v2.3.0", "a: b", "v0.12.0", 5.0, 2.5))
    ]


def test_subscription_is_the_events_asked_for():
    _, mask = configured()
    assert mask == 1 << 0 | 1 << 3


def test_synchronisation_in_one_message():
    dialogue, _ = configured()
    message = pb.SynchronizeRequest(pods=[POD], containers=[CONTAINER])
    assert dialogue.ask(3, "Synchronize", message) == [
        IncomingCall(3, BY_NAME["Synchronize"], message, 2.0)
    ]
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
def test_every_call_is_told_and_answered(method):
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
    dialogue = ready()
    change = pb.StateChangeEvent(event=pb.REMOVE_CONTAINER, pod=POD)
    [asked] = dialogue.ask(5, "StateChange", change)
    assert not asked.request.HasField("container")


def test_unknown_change_of_state_is_answered_and_not_told():
    dialogue = ready()
    change = pb.StateChangeEvent()
    change.MergeFromString(bytes([8, 99]))
    assert dialogue.ask(5, "StateChange", change) == []
    assert dialogue.answers() == [ttrpc_pb.Response()]


def test_adjustment_is_accepted_where_one_is_asked():
    dialogue = ready()
    assert dialogue.ask(5, "ValidateContainerAdjustment", EMPTY) == []
    [answer] = dialogue.answers()
    assert not pb.ValidateContainerAdjustmentResponse.FromString(answer.payload).reject


def test_shutdown():
    dialogue = ready()
    assert dialogue.ask(5, "Shutdown", EMPTY) == [ShutdownRequest()]
    assert dialogue.answers() == [ttrpc_pb.Response()]
    assert dialogue.plugin.state is NriPluginState.OVER


def test_what_is_not_declared_is_carried():
    dialogue = ready()
    unknown = bytes([0xFA, 0x3E, 1, 65])
    message = pb.CreateContainerRequest.FromString(unknown)
    [asked] = dialogue.ask(5, "CreateContainer", message)
    assert asked.request.SerializeToString() == unknown


def test_unknown_method_is_said_to_be_unknown():
    dialogue = ready()
    assert dialogue.ask(5, "MakeCoffee", EMPTY) == []
    [answer] = dialogue.answers()
    assert answer.status.code == ttrpc.UNIMPLEMENTED
    assert "MakeCoffee is not served" in answer.status.message


def test_unknown_service_is_said_to_be_unknown():
    dialogue = ready()
    call = ttrpc_pb.Request(service="else.Where", method="Configure").SerializeToString()
    dialogue.plugin.receive(pieces(PLUGIN, ttrpc.pack(5, ttrpc.REQUEST, call)))
    [answer] = dialogue.answers()
    assert answer.status.code == ttrpc.UNIMPLEMENTED


@pytest.mark.parametrize("method", ["CreateContainer", "Configure", "Synchronize", "StateChange"])
def test_unreadable_request_is_refused(method):
    dialogue = ready()
    call = ttrpc_pb.Request(
        service="nri.pkg.api.v1alpha1.Plugin", method=method, payload=b"\xff"
    ).SerializeToString()
    assert dialogue.plugin.receive(pieces(PLUGIN, ttrpc.pack(5, ttrpc.REQUEST, call))) == []
    [answer] = dialogue.answers()
    assert answer.status.code == ttrpc.INVALID_ARGUMENT


def test_answers_may_come_in_another_order():
    dialogue = ready()
    for stream in (5, 7):
        dialogue.ask(stream, "CreateContainer", pb.CreateContainerRequest(pod=POD))
    dialogue.plugin.answer(7, None)
    dialogue.plugin.answer(5, None)
    assert [stream for _, stream, _ in dialogue.said()] == [7, 5]


def test_an_answer_is_given_once():
    dialogue = ready()
    dialogue.ask(5, "CreateContainer", pb.CreateContainerRequest(pod=POD))
    dialogue.plugin.answer(5, None)
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


def test_unsolicited_update():
    dialogue = ready()
    call = dialogue.plugin.update_containers([UPDATE], 3.0)
    [(connection, stream, payload)] = dialogue.said()
    made = ttrpc_pb.Request.FromString(payload)
    assert (connection, stream, made.method) == (RUNTIME, call, "UpdateContainers")
    assert made.timeout_nano == 3_000_000_000
    assert pb.UpdateContainersRequest.FromString(made.payload).update == [UPDATE]
    failed = pb.UpdateContainersResponse(failed=[UPDATE])
    assert dialogue.plugin.receive(response(call, failed)) == [UpdateResponse(call, (UPDATE,))]


def test_unsolicited_update_refused():
    dialogue = ready()
    call = dialogue.plugin.update_containers([UPDATE])
    events = dialogue.plugin.receive(response(call, None, 2, "not now"))
    assert events == [UpdateResponse(call, error="not now")]


def test_unreadable_answer_to_an_update():
    dialogue = ready()
    call = dialogue.plugin.update_containers([UPDATE])
    answer = ttrpc_pb.Response(payload=b"\xff").SerializeToString()
    [event] = dialogue.plugin.receive(pieces(RUNTIME, ttrpc.pack(call, ttrpc.RESPONSE, answer)))
    assert event == UpdateResponse(call, error="the answer cannot be read")


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
