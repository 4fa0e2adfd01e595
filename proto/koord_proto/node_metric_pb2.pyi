from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ReportRequest(_message.Message):
    __slots__ = ("node", "session", "sequence", "reported_at_ms", "status")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    REPORTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    node: str
    session: str
    sequence: int
    reported_at_ms: int
    status: bytes
    def __init__(self, node: _Optional[str] = ..., session: _Optional[str] = ..., sequence: _Optional[int] = ..., reported_at_ms: _Optional[int] = ..., status: _Optional[bytes] = ...) -> None: ...

class ReportResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
