#!/usr/bin/env python3
"""Debian's kazoo 2.8, the Python client, on Apache ZooKeeper and on ours: the same calls, the same outcomes.

Promise: each case runs on both servers, asserts what must hold, and returns what it saw; that must be the same.
Covered: the tree, transactions, watchers and kazoo's recipes on top of them, ACLs, expiry, a server's restart.
Limits: session ids, zxids and times are left out of what is compared.
"""

import contextlib
import logging
import os
import queue
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import pair  # noqa: E402
import zkwire  # noqa: E402

try:
    from kazoo import exceptions
    from kazoo.client import KazooClient, KazooState
    from kazoo.security import make_acl, make_digest_acl
except ImportError:
    print("skipped: no module kazoo (Debian: python3-kazoo)")
    sys.exit(77)

logging.disable(logging.CRITICAL)
PATIENCE_S = 60
TICK_MS = 500


class Clients:
    """Started clients that are stopped at the end of a case."""

    losses = 0  # of a connection, by all clients that there were

    def __init__(self, server):
        self.server = server
        self.started = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client in self.started:
            client.stop()
            client.close()

    def __call__(self, chroot="", timeout=10.0, times=1, **options):
        """A connected client. kazoo waits timeout / times for a server that accepts its connection and does not answer."""
        client = KazooClient(hosts=",".join([self.server.host] * times) + chroot, timeout=timeout, **options)
        client.start(timeout=PATIENCE_S)
        client.add_listener(self._note)
        self.started.append(client)
        return client

    @staticmethod
    def _note(state):
        Clients.losses += state == KazooState.SUSPENDED

    @staticmethod
    def lost():
        return Clients.losses


def stat_of(stat):
    """A stat without what differs from server to server."""
    return {name: getattr(stat, name) for name in ("version", "cversion", "aversion", "dataLength", "numChildren")}


def error_of(call, *args, **options):
    """The name of the exception a call raises, or what it returns."""
    try:
        return f"returned {call(*args, **options)!r}"
    except exceptions.ZookeeperError as error:
        return type(error).__name__


def wait_until(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE_S} s for: {what}")
        time.sleep(0.01)


def session_of(client):
    """(id, password) of the client's session, as soon as it is connected."""
    found = []
    wait_until(lambda: found.append(client.client_id) or found[-1], "the client to be connected")
    return found[-1]


def take(events):
    """The next thing put into a queue; raised, when it is an exception."""
    thing = events.get(timeout=PATIENCE_S)
    if isinstance(thing, Exception):
        raise thing
    return thing


def take_event(events):
    """The next event of a watch that was put into a queue. Together with its connection kazoo drops its one-shot watches."""
    event = take(events)
    if event.type == "NONE":
        raise exceptions.ConnectionLoss("told to a watch")
    return event


def spawn(results, function, *args):
    """A thread that puts what the function returns, or raises, into a queue."""
    def run():
        try:
            results.put(function(*args))
        except Exception as error:  # noqa: BLE001: raised by take
            results.put(error)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def crud(server):
    with Clients(server) as new_client:
        client = new_client()
        seen = [client.create("/crud", b"one"), client.get("/crud")[0], stat_of(client.get("/crud")[1])]
        seen += [stat_of(client.set("/crud", b"two")), error_of(client.set, "/crud", b"x", version=7)]
        seen += [error_of(client.create, "/crud"), error_of(client.create, "/crud/missing/x"),
                 error_of(client.get, "/nothing"), error_of(client.delete, "/nothing"), client.exists("/nothing")]
        client.ensure_path("/crud/a/b/c")
        seen += [client.create("/crud/deep/er", b"", makepath=True), sorted(client.get_children("/crud"))]
        children, stat = client.get_children("/crud", include_data=True)
        seen += [sorted(children), stat_of(stat), error_of(client.delete, "/crud/a")]
        client.delete("/crud", recursive=True)
        seen += [client.exists("/crud"), client.sync("/"), error_of(client.delete, "/")]
        return seen


def create_modes(server):
    with Clients(server) as new_client:
        client, other = new_client(), new_client()
        client.create("/modes")
        seen = [client.create("/modes/s-", b"", sequence=True) for _ in range(3)]
        seen.append(client.create("/modes/e", b"", ephemeral=True))
        seen.append(client.exists("/modes/e").ephemeralOwner == session_of(client)[0])
        seen.append(error_of(client.create, "/modes/e/child"))
        seen.append(client.create("/modes/es-", b"", ephemeral=True, sequence=True))
        path, stat = client.create("/modes/both", b"data", include_data=True)
        seen += [path, stat_of(stat), client.exists("/modes/s-0000000000").ephemeralOwner]
        seen.append(client.create("/modes/unicode-\u00e9\u65e5", b""))
        client.stop()
        wait_until(lambda: not other.exists("/modes/e"), "the ephemeral to go with its session")
        seen.append(sorted(other.get_children("/modes")))
        return seen


def big_data(server):
    with Clients(server) as new_client:
        client = new_client()
        client.create("/big", b"x" * 1000000)
        seen = [len(client.get("/big")[0])]
        client.set("/big", b"")
        seen.append(client.get("/big")[0])
        results = [client.create_async("/big/n%03d" % i, b"y" * 100) for i in range(500)]
        seen.append([result.get(timeout=PATIENCE_S) for result in results][-1])
        return seen + [len(client.get_children("/big"))]


def transactions(server):
    with Clients(server) as new_client:
        client = new_client()
        client.create("/tx")
        good = client.transaction()
        good.create("/tx/a", b"1")
        good.create("/tx/s-", b"", sequence=True)
        good.set_data("/tx/a", b"2")
        good.check("/tx/a", version=1)
        good.delete("/tx/a")
        seen = [repr(stat_of(part)) if hasattr(part, "version") else repr(part) for part in good.commit()]
        bad = client.transaction()
        bad.create("/tx/b")
        bad.check("/tx/b", version=5)
        bad.delete("/tx/b")
        seen += [type(part).__name__ for part in bad.commit()]
        with client.transaction() as nothing:
            del nothing
        return seen + [sorted(client.get_children("/tx")), client.exists("/tx/b")]


def one_shot_watches(server):
    with Clients(server) as new_client:
        client, other = new_client(), new_client()
        events = queue.Queue()
        seen = []
        watch = events.put
        for arm, act in ((lambda: client.exists("/w", watch), lambda: other.create("/w")),
                         (lambda: client.get("/w", watch), lambda: other.set("/w", b"x")),
                         (lambda: client.get_children("/w", watch), lambda: other.create("/w/c")),
                         (lambda: client.get_children("/w", watch), lambda: other.delete("/w/c")),
                         (lambda: client.get("/w", watch), lambda: other.delete("/w"))):
            arm()
            act()
            event = take_event(events)
            seen.append((event.type, event.state, event.path))
        other.create("/w")
        return seen + [events.empty()]


def data_watch(server):
    with Clients(server) as new_client:
        client, other = new_client(), new_client()
        calls = queue.Queue()

        @client.DataWatch("/data-watch")
        def _changed(data, stat, event):
            calls.put((data, stat and stat.version, event and event.type))

        seen = [take(calls)]
        for act in (lambda: other.create("/data-watch", b"1"), lambda: other.set("/data-watch", b"2"),
                    lambda: other.delete("/data-watch"), lambda: other.create("/data-watch", b"3")):
            act()
            seen.append(take(calls))
        return seen


def children_watch(server):
    with Clients(server) as new_client:
        client, other = new_client(), new_client()
        client.create("/children-watch")
        calls = queue.Queue()

        @client.ChildrenWatch("/children-watch", send_event=True)
        def _changed(children, event):
            calls.put((sorted(children), event and event.type))

        seen = [take(calls)]
        for act in (lambda: other.create("/children-watch/a"), lambda: other.create("/children-watch/b"),
                    lambda: other.delete("/children-watch/a")):
            act()
            seen.append(take(calls))
        return seen


def lock(server):
    with Clients(server) as new_client:
        first, second = new_client(), new_client()
        held, waiting = first.Lock("/lock", "first"), second.Lock("/lock", "second")
        seen = [held.acquire(timeout=PATIENCE_S), held.contenders(), waiting.acquire(blocking=False)]
        outcome = queue.Queue()
        thread = spawn(outcome, lambda: waiting.acquire(timeout=PATIENCE_S))
        wait_until(lambda: len(first.get_children("/lock")) == 2, "the second contender")
        seen += [held.contenders(), outcome.empty()]
        held.release()
        seen += [take(outcome), waiting.contenders()]
        thread.join(PATIENCE_S)
        waiting.release()
        return seen + [first.get_children("/lock")]


def lock_released_by_death(server):
    with Clients(server) as new_client:
        first, second = new_client(), new_client()
        first.Lock("/lock-death", "first").acquire(timeout=PATIENCE_S)
        outcome = queue.Queue()
        waiting = second.Lock("/lock-death", "second")
        spawn(outcome, lambda: waiting.acquire(timeout=PATIENCE_S))
        wait_until(lambda: len(second.get_children("/lock-death")) == 2, "the second contender")
        first.stop()
        return [take(outcome), waiting.contenders()]


def election(server):
    with Clients(server) as new_client:
        clients = [new_client() for _ in range(3)]
        led = queue.Queue()
        ended = queue.Queue()
        done = [threading.Event() for _ in clients]
        seen = []

        def lead(index):
            led.put(index)
            done[index].wait(PATIENCE_S)

        def stands(count):
            if not ended.empty():
                take(ended)
            return clients[0].exists("/election") and len(clients[0].get_children("/election")) == count

        threads = []
        for index, client in enumerate(clients):
            threads.append(spawn(ended, client.Election("/election", f"candidate-{index}").run, lead, index))
            wait_until(lambda count=index + 1: stands(count), "the candidate to stand")
        seen.append(clients[0].Election("/election").contenders())
        for _ in clients:
            wait_until(lambda: not led.empty() or not ended.empty() and take(ended), "a leader")
            leader = take(led)
            seen.append(leader)
            assert led.empty(), "two leaders"
            done[leader].set()
            take(ended)
            threads[leader].join(PATIENCE_S)
        return seen + [clients[0].get_children("/election")]


def other_recipes(server):
    with Clients(server) as new_client:
        client, other = new_client(), new_client()
        counter = client.Counter("/counter")
        counter += 3
        counter -= 1
        jobs = client.Queue("/queue")
        jobs.put(b"low", priority=200)
        jobs.put(b"high", priority=1)
        locking = client.LockingQueue("/locking-queue")
        locking.put_all([b"1", b"2"])
        seen = [counter.value, jobs.get(), jobs.get(), jobs.get(), locking.get(5), locking.consume(), len(locking)]
        party = client.Party("/party", "p1")
        party.join()
        seen += [list(other.Party("/party")), len(party)]
        party.leave()
        seen.append(len(other.Party("/party")))
        semaphore, second = client.Semaphore("/sem", max_leases=1), other.Semaphore("/sem", max_leases=1)
        seen += [semaphore.acquire(timeout=PATIENCE_S), second.acquire(blocking=False)]
        semaphore.release()
        seen.append(second.acquire(timeout=PATIENCE_S))
        second.release()
        barrier = client.Barrier("/barrier")
        barrier.create()
        seen += [other.Barrier("/barrier").wait(0.1), barrier.remove(), other.Barrier("/barrier").wait(PATIENCE_S)]
        reader, writer = client.ReadLock("/rw"), other.WriteLock("/rw")
        seen += [reader.acquire(timeout=PATIENCE_S), writer.acquire(blocking=False)]
        reader.release()
        seen.append(writer.acquire(timeout=PATIENCE_S))
        writer.release()
        return seen


def digest_acl(server):
    with Clients(server) as new_client:
        owner, stranger = new_client(), new_client()
        owner.add_auth("digest", "ann:secret")
        acl = make_digest_acl("ann", "secret", all=True)
        owner.create("/acl", b"hidden", acl=[acl])
        seen = [error_of(stranger.get, "/acl"), error_of(stranger.set, "/acl", b"x"), owner.get("/acl")[0],
                error_of(stranger.create, "/acl/x"), error_of(stranger.get_children, "/acl"),
                error_of(stranger.set_acls, "/acl", [make_acl("world", "anyone", all=True)]),
                error_of(stranger.get_acls, "/acl")]
        acls, stat = owner.get_acls("/acl")
        seen += [acls, stat_of(stat)]
        stranger.add_auth("digest", "ann:wrong")
        seen.append(error_of(stranger.get, "/acl"))
        stranger.add_auth("digest", "ann:secret")
        seen.append(stranger.get("/acl")[0])
        seen.append(stat_of(owner.set_acls("/acl", [make_acl("world", "anyone", read=True)], version=0)))
        seen += [error_of(owner.set, "/acl", b"x"), error_of(owner.set_acls, "/acl", [acl]), owner.get_acls("/acl")[0]]
        seen.append(error_of(owner.create, "/acl-bad", acl=[make_acl("nosuch", "x", all=True)]))
        with_default = new_client(auth_data=[("digest", "bob:b")], default_acl=[make_digest_acl("bob", "b", all=True)])
        with_default.create("/acl-default")
        return seen + [with_default.get_acls("/acl-default")[0], error_of(owner.get, "/acl-default")]


def chroot(server):
    with Clients(server) as new_client:
        plain = new_client()
        plain.create("/jail")
        jailed = new_client(chroot="/jail")
        calls = queue.Queue()
        seen = [jailed.create("/x", b"in"), plain.get("/jail/x")[0], jailed.get_children("/")]
        jailed.get("/x", calls.put)
        plain.set("/jail/x", b"changed")
        return seen + [take_event(calls).path, jailed.create("/s-", sequence=True)]


def exists_soon(client, path, watch):
    """client.exists, as soon as the client is connected."""
    while True:
        try:
            return client.exists(path, watch)
        except exceptions.ConnectionLoss:
            time.sleep(0.01)


def session_expiry(server):
    """A session whose client is silent goes after its timeout, with its ephemeral, and not before.

    Where the lead changes meanwhile it has its full timeout again.
    """
    with Clients(server) as new_client:
        client = new_client()
        timeout_ms = 2 * TICK_MS
        leaders = getattr(server, "leaders_ended", int)
        with getattr(server, "calm", contextlib.nullcontext)():  # a restart is counted before it begins
            before = leaders()
        silent = zkwire.Connection(server.address, timeout_ms=timeout_ms)
        assert silent.timeout_ms == timeout_ms, silent.timeout_ms
        last_sent = time.monotonic()
        silent.call(zkwire.create("/expiry", flags=zkwire.EPHEMERAL))
        last_heard = time.monotonic()
        events = queue.Queue()
        assert client.exists("/expiry", events.put)
        kind = take(events).type
        while kind == "NONE":
            kind = take(events).type if exists_soon(client, "/expiry", events.put) else "DELETED"
        gone = time.monotonic()
        latest_ms = (timeout_ms + 2 * TICK_MS + 500) * (1 + leaders() - before)
        assert gone - last_sent >= timeout_ms / 1000 - 0.005, f"expired {gone - last_sent:.3f} s after its last request"
        assert gone - last_heard <= latest_ms / 1000, f"expired {gone - last_heard:.3f} s after the last answer"
        again = zkwire.Connection(server.address, timeout_ms, silent.session_id, silent.passwd)
        return [kind, again.session_id, again.timeout_ms, again.passwd == bytes(16)]


def end_session(server, session_id, passwd):
    """Ends another client's session; that loses its connection when its session moves, and may be back with it first."""
    deadline = time.monotonic() + PATIENCE_S
    tries = 0
    while True:
        thief = zkwire.Connection(server.address, 10000, session_id, passwd)
        tries += 1
        try:
            if thief.session_id != session_id:
                assert tries > 1, "it had ended before"
                return  # the earlier request was done, only its answer was lost
            thief.call(zkwire.close_session())
            return
        except zkwire.Closed:
            if time.monotonic() > deadline:
                raise
        finally:
            thief.drop()


def expired_client(server):
    """kazoo learns that its session has expired, and gets a new one."""
    with Clients(server) as new_client:
        client = new_client()
        states = queue.Queue()
        client.add_listener(states.put)
        client.create("/expired-client", ephemeral=True)
        session_id, passwd = session_of(client)
        end_session(server, session_id, passwd)
        before = []
        while (state := take(states)) != KazooState.LOST:
            before.append(state)
        assert set(before[0::2]) == {KazooState.SUSPENDED} and set(before[1::2]) <= {KazooState.CONNECTED}, before
        seen = [before[-1], state, take(states)]
        return seen + [session_of(client)[0] != session_id, client.exists("/expired-client")]


def put_into(calls):
    """A function for DataWatch that keeps data and version of each call."""
    return lambda data, stat: calls.put((data, stat and stat.version))


def restarted(server, hard):
    """The view of a client that is connected before and after the server's restart."""
    with Clients(server) as new_client:
        # Left to itself kazoo waits longer and longer between two attempts, until the session is over.
        # The session outlasts the start of a JVM on a busy machine. Apache ZooKeeper neither serves nor closes a connection
        # that it accepts before its database is loaded.
        client = new_client(timeout=30.0, times=6, connection_retry={"max_tries": -1, "max_delay": 1.0})
        states = queue.Queue()
        calls = queue.Queue()
        path = f"/restart-{hard}"
        client.create(path, b"before", ephemeral=True)
        client.DataWatch(path, put_into(calls))
        seen = [take(calls)]
        session_id = session_of(client)[0]
        client.add_listener(states.put)
        server.restart(hard=hard)
        seen += [take(states), take(states)]
        assert session_of(client)[0] == session_id, "another session"
        client.set(path, b"after")
        result = take(calls)
        while result[0] == b"before":  # kazoo reads again on reconnect, and tells only what has changed
            result = take(calls)
        return seen + [result, client.get(path)[1].ephemeralOwner == session_id]


def server_restart(server):
    """The client comes back after the server's restart with the same session, ephemerals and watchers."""
    seen = []
    for hard in (False, True):
        with getattr(server, "calm", contextlib.nullcontext)():  # no restarts but this one
            seen += restarted(server, hard)
    return seen


CASES = (crud, create_modes, big_data, transactions, one_shot_watches, data_watch, children_watch, lock,
         lock_released_by_death, election, other_recipes, digest_acl, chroot, session_expiry, expired_client,
         server_restart)

if __name__ == "__main__":
    pair.main(CASES, tick_ms=TICK_MS)
