import numpy as np
import pytest
from koord_model.priority import PriorityClass
from koord_prediction.amount import ResourceAmount
from koord_prediction.checkpoint import Checkpoint, LearntHistogram
from koord_prediction.histogram import CPU, MEMORY
from koord_prediction.models import NODE, RESULTS, SYS, Models, PodUse, item_uid, samples

PROD, MID, BATCH, FREE, NONE = PriorityClass
GIB = 2.0**30
NOW = 1.7e9
NOTHING = ResourceAmount()


def test_uids_are_koordinators() -> None:
    assert (NODE, SYS) == ("__node__", "__node-sys__")
    classes = ("koord-prod", "koord-mid", "koord-batch", "koord-free", "")
    assert [item_uid(name) for name in PriorityClass] == [f"__node-{one}__" for one in classes]


def test_a_step_sums_the_classes_and_takes_the_rest_for_the_system() -> None:
    pods = [
        PodUse("a", PROD, ResourceAmount(1, 2)),
        PodUse("b", PROD, ResourceAmount(3, 4)),
        PodUse("c", BATCH, ResourceAmount(5, 6)),
    ]
    assert samples(pods, ResourceAmount(10, 10)) == {
        "a": ResourceAmount(1, 2),
        "b": ResourceAmount(3, 4),
        "c": ResourceAmount(5, 6),
        item_uid(PROD): ResourceAmount(4, 6),
        item_uid(MID): NOTHING,
        item_uid(BATCH): ResourceAmount(5, 6),
        item_uid(FREE): NOTHING,
        item_uid(NONE): NOTHING,
        NODE: ResourceAmount(10, 10),
        SYS: NOTHING + ResourceAmount(1, 0),
    }


def test_what_was_not_measured_does_not_count() -> None:
    one, two = ResourceAmount(1, 1), ResourceAmount(2, 2)
    found = samples([PodUse("a", PROD, one)], None)
    assert not {NODE, SYS} & found.keys()
    assert found[item_uid(PROD)] == one
    nine = ResourceAmount(9, 9)
    found = samples([PodUse("a", PROD, None), PodUse("b", BATCH, None)], nine)
    assert found.keys() == {NODE, item_uid(MID), item_uid(FREE), item_uid(NONE)}
    some = samples([PodUse("a", PROD, None), PodUse("b", PROD, two)], nine)
    assert (some[item_uid(PROD)], some[SYS]) == (two, ResourceAmount(7, 7))
    assert samples([], ResourceAmount(2, 3))[SYS] == ResourceAmount(2, 3)


def test_training_makes_models_and_percentiles_tell_them_apart() -> None:
    models = Models()
    for minute in range(100):
        models.train(
            {"a": ResourceAmount(minute / 100, GIB), "b": ResourceAmount(2, GIB * (1 + minute))},
            NOW + 60 * minute,
        )
    found = models.percentiles(0.95, 0.5)
    assert found["a"].cpu == pytest.approx(0.95, rel=0.06)
    assert found["a"].memory == pytest.approx(GIB, rel=0.06)
    assert found["b"].cpu == pytest.approx(2, rel=0.06)
    assert found["b"].memory == pytest.approx(51 * GIB, rel=0.06)
    assert models.percentiles(0.95, 0.5, ("b", "nobody")) == {"b": found["b"]}
    assert models.results().keys() == {"a", "b"}
    results = models.results()["a"]
    assert list(results) == list(RESULTS)
    assert 0.6 < results["p60"].cpu < 0.66, "a bucket above, and newer samples weigh more"
    assert results["max"].cpu == pytest.approx(0.99, rel=0.06)
    alone = {name: models.percentiles(part, part, ("a",))["a"] for name, part in RESULTS.items()}
    assert results == alone


def test_many_models_find_room_and_keep_apart() -> None:
    models = Models()
    for batch in range(5):
        models.train({f"{batch}-{n}": ResourceAmount(1 + n, GIB) for n in range(50)}, NOW)
    found = models.percentiles(1.0, 1.0)
    assert len(found) == 250
    assert all(one.cpu == pytest.approx(1 + int(uid[2:]), rel=0.06) for uid, one in found.items())


def test_models_without_samples_are_forgotten_and_their_rows_start_clean() -> None:
    models = Models(expiration=1800)
    models.train({"old": ResourceAmount(64, 64 * GIB), "kept": ResourceAmount(1, GIB)}, NOW)
    models.train({"kept": ResourceAmount(1, GIB)}, NOW + 1000)
    assert models.forget(NOW + 1800) == ()
    assert models.forget(NOW + 1801) == ("old",)
    assert models.uids() == ("kept",)
    models.train({f"new-{n}": ResourceAmount(1, GIB) for n in range(100)}, NOW + 1801)
    assert max(one.cpu for one in models.percentiles(1.0, 1.0).values()) < 2


def test_a_model_survives_a_checkpoint() -> None:
    models, again = Models(), Models(expiration=1800)
    for hour in range(30):
        models.train({"a": ResourceAmount(1 + hour % 7, GIB * (1 + hour % 5))}, NOW + 3600 * hour)
    later = NOW + 30 * 3600
    again.restore(models.checkpoint("a"), later)
    assert again.results() == models.results()
    # It has one expiration to be seen in.
    assert again.forget(later + 1800) == ()
    assert again.forget(later + 1801) == ("a",)
    again.restore(models.checkpoint("a"), later)
    both = {"a": ResourceAmount(20, 20 * GIB)}
    models.train(both, later)
    again.train(both, later)
    assert again.results() == models.results(), "weights still fit those of new samples"


@pytest.mark.parametrize("kept", [40 * 86400.0, -NOW, 0.0, -40 * 86400.0])
def test_what_was_learnt_by_a_wrong_clock_counts_as_lately(kept: float) -> None:
    models, again = Models(), Models()
    for _ in range(10):
        models.train({"a": ResourceAmount(1, GIB)}, NOW + kept)
    again.restore(models.checkpoint("a"), NOW)
    assert again.results() == models.results()
    again.train({"a": ResourceAmount(9, 9 * GIB)}, NOW)
    found = again.results()["a"]
    assert found["max"].cpu == pytest.approx(9, rel=0.06), "what is new counts"
    assert found["p60"].cpu == pytest.approx(1, rel=0.06), "and what is old"


def test_an_empty_checkpoint_predicts_nothing() -> None:
    models = Models()
    models.train({}, NOW)
    assert models.percentiles(0.5, 0.5) == {}
    empty = LearntHistogram(0.0, np.zeros(CPU.count)), LearntHistogram(0.0, np.zeros(MEMORY.count))
    models.restore(Checkpoint("a", *empty, NOW), NOW)
    assert models.percentiles(0.95, 0.98) == {}
    assert models.results() == {}
    models.train({"a": ResourceAmount(1, GIB)}, NOW)
    assert models.results()["a"]["max"].cpu == pytest.approx(1, rel=0.06)
