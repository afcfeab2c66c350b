"""Election: one of several servers holds a lease."""

import threading

from sqlalchemy import Engine
from tests.journals import SECOND_NS, T0_NS

from kwhere.database.leases import hold, holder_of, release


def test_one_of_two_holds_it(engine: Engine) -> None:
    assert hold(engine, "passes", "s1", T0_NS, 60.0)
    assert not hold(engine, "passes", "s2", T0_NS, 60.0)
    assert hold(engine, "passes", "s1", T0_NS + 30 * SECOND_NS, 60.0)
    assert holder_of(engine, "passes", T0_NS + 89 * SECOND_NS) == "s1"


def test_it_is_free_when_it_has_run_out(engine: Engine) -> None:
    hold(engine, "passes", "s1", T0_NS, 60.0)

    assert holder_of(engine, "passes", T0_NS + 60 * SECOND_NS) is None
    assert hold(engine, "passes", "s2", T0_NS + 60 * SECOND_NS, 60.0)
    assert not hold(engine, "passes", "s1", T0_NS + 60 * SECOND_NS, 60.0)


def test_it_is_free_when_it_is_given_back(engine: Engine) -> None:
    hold(engine, "passes", "s1", T0_NS, 60.0)
    release(engine, "passes", "s2")
    still = holder_of(engine, "passes", T0_NS)
    release(engine, "passes", "s1")

    assert (still, holder_of(engine, "passes", T0_NS)) == ("s1", None)


def test_leases_of_other_names_are_others(engine: Engine) -> None:
    assert hold(engine, "passes", "s1", T0_NS, 60.0)
    assert hold(engine, "mail", "s2", T0_NS, 60.0)


def test_of_many_at_once_one_wins(engine: Engine) -> None:
    won: list[str] = []
    gate = threading.Barrier(6)

    def run(holder: str) -> None:
        gate.wait()
        if hold(engine, "passes", holder, T0_NS, 60.0):
            won.append(holder)

    threads = [threading.Thread(target=run, args=(f"s{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(won) == 1
