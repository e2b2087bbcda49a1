"""Workers wait for each other by name, and say so when they wait in vain."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from ps_cluster.errors import RunError
from ps_cluster.job.membership import Membership
from ps_cluster.launch.ports import reserved_addresses
from ps_cluster.train.collective import _serve_rendezvous
from ps_cluster.train.notes import leave_note, wait_for_note, wait_for_rendezvous
from ps_cluster.train.reach import wait_until_reachable


@pytest.fixture
def address() -> Iterator[str]:
    with reserved_addresses(1) as (found,):
        yield found


def member(address: str, index: int = 1) -> Membership:
    return Membership("worker", index, (), ("127.0.0.1:1", "127.0.0.1:2"), address)


@pytest.fixture
def rendezvous(address: str) -> Iterator[str]:
    """Worker 0's rendezvous, as a job serves it."""
    server = _serve_rendezvous(address, ["127.0.0.1", "127.0.0.1"])
    yield address
    server.shutdown()
    server.server_close()


def test_a_note_is_waited_for(rendezvous: str) -> None:
    found = threading.Event()

    def wait() -> None:
        wait_for_note(member(rendezvous), "worker 0 is connected", 60)
        found.set()

    reader = threading.Thread(target=wait)
    reader.start()
    leave_note(member(rendezvous, 0), "another note")
    assert not found.wait(0.3)
    leave_note(member(rendezvous, 0), "worker 0 is connected")
    assert found.wait(10)
    reader.join()
    wait_for_note(member(rendezvous), "another note", 60)


def test_waiting_for_a_note_in_vain_names_it(rendezvous: str) -> None:
    with pytest.raises(RunError, match=r"worker 1: waited 0\.2 s for: worker 0 is connected"):
        wait_for_note(member(rendezvous), "worker 0 is connected", 0.2)


def test_a_rendezvous_that_is_gone_is_named(address: str) -> None:
    with pytest.raises(RunError, match=r"worker 1: worker 0's rendezvous is gone: .*refused"):
        wait_for_note(member(address), "worker 0 is connected", 60)


def test_a_ring_that_has_formed_is_not_joined_but_the_next_one(address: str) -> None:
    formed = "the ring has formed"
    found = threading.Event()

    def join() -> None:
        wait_for_rendezvous(member(address), formed, 60)
        found.set()

    worker = threading.Thread(target=join)
    worker.start()
    assert not found.wait(0.3)  # nobody serves yet
    former = _serve_rendezvous(address, ["127.0.0.1", "127.0.0.1"])
    leave_note(member(address, 0), formed)
    # The worker may have come between the two; a second one can not.
    second = threading.Thread(target=wait_for_rendezvous, args=(member(address), formed, 60))
    second.start()
    second.join(0.5)
    assert second.is_alive()
    former.shutdown()
    former.server_close()
    second.join(0.5)
    assert second.is_alive()
    next_one = _serve_rendezvous(address, ["127.0.0.1", "127.0.0.1"])
    second.join(30)
    worker.join(30)
    assert not second.is_alive() and found.is_set()
    next_one.shutdown()
    next_one.server_close()


def test_waiting_in_vain_for_the_ring_of_before_to_end_is_told(rendezvous: str) -> None:
    leave_note(member(rendezvous, 0), "formed")
    with pytest.raises(RunError, match=r"worker 1: waited 0\.2 s for worker 0 to leave the ring of before"):
        wait_for_rendezvous(member(rendezvous), "formed", 0.2)
    with pytest.raises(RunError, match=r"worker 1: worker 0's rendezvous at .* did not answer within 0 s: .*refused"):
        wait_for_rendezvous(member("127.0.0.1:9"), "formed", 0)


def test_a_single_worker_leaves_no_note() -> None:
    leave_note(Membership("worker", 0, (), ("127.0.0.1:1",)), "nobody reads this")


def test_a_port_that_listens_later_is_reached(address: str) -> None:
    port = int(address.rpartition(":")[2])
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)

        def listen() -> None:
            time.sleep(0.3)
            listener.bind(("", port))
            listener.listen()

        thread = threading.Thread(target=listen)
        thread.start()
        wait_until_reachable("PS 0", address, "worker 1", 60)
        thread.join()


def test_who_did_not_answer_is_named(address: str) -> None:
    with pytest.raises(RunError, match=rf"worker 1: PS 0 at {address} did not answer within 0\.2 s: .*refused"):
        wait_until_reachable("PS 0", address, "worker 1", 0.2)
