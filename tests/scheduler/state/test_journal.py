from hypothesis import given
from hypothesis import strategies as st
from koord_scheduler.state.journal import FEW, RowJournal


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(0, 30))
def test_it_has_the_rows_since_a_position_or_has_forgotten_them(rows: list[int], since: int):
    journal = RowJournal(size=8)
    for row in rows:
        journal.add(row)
    since = min(since, len(rows))
    assert journal.position == len(rows)
    found = journal.changed_since(since)
    if len(rows) - since > 8:
        assert found is None
    else:
        assert found.tolist() == sorted(set(rows[since:]))
    few = journal.few_since(since)
    if len(rows) - since > FEW:
        assert few is None
    else:
        assert sorted(few) == sorted(set(rows[since:]))
