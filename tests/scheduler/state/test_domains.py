"""Nodes by the values of a label."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.state.domains import Domains


@given(st.integers(0, 1 << 32))
def test_domains_with_a_node_among_some_rows(seed: int) -> None:
    rng = Random(seed)
    codes = np.array([rng.randrange(-1, 4) for _ in range(rng.randrange(1, 12))])
    is_node = np.array([rng.random() < 0.9 for _ in codes])
    has_domain = is_node & (codes >= 0)
    domains = Domains(0, codes, has_domain, is_node=is_node, lacking=is_node & ~has_domain)
    rows = [row for row in np.flatnonzero(has_domain) if rng.random() < 0.8]
    assert domains.number_among(np.array(rows, np.intp)) == len({codes[row] for row in rows})
