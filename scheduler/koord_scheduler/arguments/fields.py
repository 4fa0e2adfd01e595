"""Types of fields of the configuration, with Kubernetes' bounds. No IO."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

Int32 = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Float32 = Annotated[float, Meta(gt=-(2.0**128), lt=2.0**128)]
Positive = Annotated[int, Meta(ge=1, lt=2**31)]
Seconds = Annotated[int, Meta(ge=1, le=2**63 - 1)]
NotNegative = Annotated[int, Meta(ge=0, lt=2**31)]
PerCent = Annotated[int, Meta(ge=0, le=100)]


class Strict(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Fields that Kubernetes has; another one is an error."""
