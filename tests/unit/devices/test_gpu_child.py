"""Devices of one library are read one after another; one that hangs is in nobody's way for long."""

from threading import Event, Lock, Thread

from kwhere.devices.gpu_child import Turns


def test_one_is_read_at_a_time() -> None:
    turns, inside, most, guard = Turns(patience_seconds=30), [0], [0], Lock()

    def read() -> None:
        for _ in range(50):
            with turns.taken():
                with guard:
                    inside[0] += 1
                    most[0] = max(most[0], inside[0])
                with guard:
                    inside[0] -= 1

    threads = [Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == [1]


def test_who_hangs_is_waited_for_once() -> None:
    turns, hangs, over = Turns(patience_seconds=0.05), Event(), Event()

    def hang() -> None:
        with turns.taken():
            hangs.set()
            over.wait(30)

    thread = Thread(target=hang)
    thread.start()
    hangs.wait(30)
    with turns.taken():
        pass
    patient = Turns(patience_seconds=30)
    patient._turn = turns._turn
    with patient.taken():  # nobody waits for it any more
        pass
    over.set()
    thread.join()

    with turns.taken():
        assert not thread.is_alive()
