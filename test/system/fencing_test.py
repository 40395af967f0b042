"""Enforced fencing with kazoo's clients as they are: who writes below a bound prefix, what becomes of late writers, of
delays and of questions for tokens when servers go; and that nothing of it is there unless it was asked for.

Promise: real servers on loopback, killed and stopped, a holder that is stopped for longer than its session lives.
Limits: no secret between the servers; times are bounded generously, not measured.

usage: fencing_test.py [NAME...]
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import zookeeper  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import ConclaveMember, Ensemble  # noqa: E402
from zookeeper import ZooKeeper  # noqa: E402

try:
    from kazoo.client import KazooClient
    from kazoo.exceptions import (BadArgumentsError, KazooException, NoAuthError, NoNodeError, RolledBackError,
                                  RuntimeInconsistency, UnimplementedError)
except ImportError:
    print("skipped: no module kazoo (Debian: python3-kazoo)")
    sys.exit(cases.SKIPPED_EXIT)

ON = ["--fencing.enabled", "yes"]
LEAF = "/zookeeper/fence%s/conclave_fence"
WAIT_S = 60

# A holder in a process of its own, to be stopped: takes the lock, then writes once for each line it is given, with its
# session and then with another one that checks its node.
HOLDER = """
import sys
from kazoo.client import KazooClient
owner = KazooClient(hosts=sys.argv[1], timeout=4)
owner.start()
writer = KazooClient(hosts=sys.argv[1], timeout=60)
writer.start()
lock = owner.Lock("/lock")
lock.acquire()
node = "/lock/" + lock.node
print(node, flush=True)
for line in sys.stdin:
    t = writer.transaction()
    t.check(node, -1)
    t.set_data("/app", line.encode())
    results = [type(result).__name__ for result in t.commit()]
    try:
        owner.set("/app", line.encode())
        results.append("written")
    except Exception as error:
        results.append(type(error).__name__)
    print(*results, flush=True)
"""


class Clients:
    """kazoo's clients of one case, stopped at its end."""

    def __init__(self):
        self.all = []

    def __call__(self, hosts, timeout=20):
        client = KazooClient(hosts=hosts, timeout=timeout)
        self.all.append(client)
        client.start(WAIT_S)
        return client

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for client in self.all:
            client.stop()
            client.close()


def run(*words, timeout=60):
    """Runs one command to its end: (exit code, output, errors)."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("CONCLAVE_") or key == "CONCLAVE_BIN"}
    done = subprocess.run([program(), *words], capture_output=True, env=env, timeout=timeout, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def ask(server, path, token, timeout=20):
    """GET /fence: (status, answer)."""
    query = urllib.parse.urlencode({"path": path, "token": token})
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/fence?{query}", timeout=timeout) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else text.decode()


def metric(server, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{server.admin_port}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.split(" ")[0] == name:
                return float(line.split(" ")[1])
    raise AssertionError(f"no metric {name}")


def wait(what, good, seconds=WAIT_S):
    deadline = time.monotonic() + seconds
    while not good():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def bind(client, prefix, lock, delay_ms=0):
    wait("no /zookeeper/fence", lambda: client.exists("/zookeeper/fence"))
    client.ensure_path("/zookeeper/fence" + prefix)
    client.create(LEAF % prefix, f"lock={lock}\nlock_delay_ms={delay_ms}\n".encode())


def refused(write, error=NoAuthError):
    try:
        write()
    except error:
        return True
    return False


class Stopped:
    """The holder's process."""

    def __init__(self, hosts):
        self.process = subprocess.Popen([sys.executable, "-c", HOLDER, hosts], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.node = self.process.stdout.readline().strip()
        assert self.node.startswith("/lock/"), self.node

    def write(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().split()

    def signal(self, number):
        self.process.send_signal(number)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def test_off_is_as_without():
    with Conclave(admin=True) as server, Clients() as clients:
        client = clients(server.host)
        assert sorted(client.get_children("/zookeeper")) == ["config", "quota"]
        assert client.get("/")[1].czxid == 0 and client.create("/first", include_data=True)[1].czxid == 2
        assert refused(lambda: client.create("/zookeeper/fence/app"), NoNodeError)
        assert refused(lambda: client.create(LEAF % "/app", b"lock=/lock"), NoNodeError)
        status, text = ask(server, "/lock", 1)
        assert status == 404 and "fencing.enabled" in text["error"], (status, text)
        for words in (["bind", "/app", "/lock"], ["unbind", "/app"], ["list"]):
            code, out, err = run("fence", *words, "--server", server.host)
            assert code == 1 and out == "" and "fencing.enabled" in err, (words, code, out, err)
        # A node that a client makes there itself is an ordinary node, and no sign of fencing.
        client.create("/zookeeper/fence")
        client.create("/zookeeper/fence/app")
        client.create(LEAF % "/app", b"lock=/lock")
        client.create("/app")
        client.set("/app", b"x")
        assert run("fence", "list", "--server", server.host)[0] == 1


def test_kazoos_holder_writes_and_nobody_else():
    with Conclave(ON, admin=True) as server, Clients() as clients:
        first, second, other = (clients(server.host) for _ in range(3))
        first.create("/app")
        first.create("/app/a")
        bind(first, "/app", "/lock")
        one = first.Lock("/lock", "one")
        assert one.acquire()
        two = second.Lock("/lock", "two")
        waiting = threading.Thread(target=two.acquire)
        waiting.start()
        wait("no contender", lambda: len(first.get_children("/lock")) == 2)
        first.set("/app/a", b"first")
        first.create("/app/b", ephemeral=True)
        for client in (second, other):
            for write in (lambda: client.set("/app/a", b"x"), lambda: client.create("/app/c"),
                          lambda: client.delete("/app/a"), lambda: client.create("/app/c", sequence=True),
                          lambda: client.create("/app/c", ephemeral=True), lambda: client.delete("/app/b")):
                assert refused(write)
        token = first.exists("/lock/" + one.node).czxid
        assert ask(server, "/lock", token)[0] == 200
        t = other.transaction()
        t.set_data("/app/a", b"in its name")
        t.check("/lock/" + one.node, -1)
        assert t.commit()[1] is True
        t = other.transaction()
        t.create("/elsewhere")
        t.set_data("/app/a", b"x")
        results = t.commit()
        assert isinstance(results[0], RolledBackError) and isinstance(results[1], NoAuthError), results
        assert not other.exists("/elsewhere")
        node = one.node
        one.release()
        waiting.join(WAIT_S)
        second.set("/app/a", b"second")
        assert refused(lambda: first.set("/app/a", b"late"))
        t = other.transaction()
        t.check("/lock/" + node, -1)
        t.set_data("/app/a", b"late")
        results = t.commit()
        assert isinstance(results[0], NoNodeError) and isinstance(results[1], RuntimeInconsistency), results
        assert first.get("/app/a")[0] == b"second"
        status, answer = ask(server, "/lock", token)
        assert status == 409 and not answer["current"] and answer["newest"] > token, answer
        assert metric(server, "conclave_fenced_writes_refused_total") == 14
        assert metric(server, "conclave_fence_bindings") == 1
        assert metric(server, "conclave_token_checks_total") == 2 and metric(server, "conclave_token_checks_stale_total") == 1
        two.release()
        assert refused(lambda: second.set("/app/a", b"nobody"))


def test_a_holder_that_was_stopped_wakes_up_too_late():
    """It was about to write when it was stopped; both ways of writing come to nothing."""
    with Conclave(ON, tick_ms=1000) as server, Clients() as clients:
        client = clients(server.host)
        client.create("/app")
        bind(client, "/app", "/lock")
        with Stopped(server.host) as holder:
            assert holder.write("one") == ["bool", "ZnodeStat", "written"]
            holder.signal(signal.SIGSTOP)
            next_one = client.Lock("/lock", "next")
            assert next_one.acquire(timeout=WAIT_S)
            client.set("/app", b"next")
            holder.signal(signal.SIGCONT)
            results = holder.write("late")
            assert results[0] == "NoNodeError" and results[2] != "written", results
            assert client.get("/app")[0] == b"next"


def test_the_delay_outlives_the_leader():
    """A holder dies, and the leader with it: the new one refuses for as long."""
    delay_s = 12
    with Ensemble(3, options=ON, tick_ms=1000, admin=True) as ensemble, Clients() as clients:
        client = clients(ensemble.hosts)
        client.create("/app")
        bind(client, "/app", "/lock", delay_s * 1000)
        bind(client, "/other", "/lock")
        with Stopped(ensemble.hosts) as holder:
            next_one = client.Lock("/lock", "next")
            thread = threading.Thread(target=next_one.acquire)
            thread.start()
            wait("no contender", lambda: len(client.get_children("/lock")) == 2)
            assert holder.write("one")[2] == "written"
            holder.signal(signal.SIGKILL)
            began = time.monotonic()
            wait("it does not expire", lambda: not client.exists(holder.node))
            gone = time.monotonic()
        thread.join(WAIT_S)
        client.retry(client.create, "/other", b"")  # no delay there
        assert refused(lambda: client.retry(client.set, "/app", b"early"))
        leader = ensemble.leader()
        leader.kill()
        ensemble.wait_leader()
        assert refused(lambda: client.retry(client.set, "/app", b"early"))
        leader.start()
        ensemble.wait_leader(serving=3)
        assert time.monotonic() < gone + delay_s - 1, "too slow to see anything"
        assert refused(lambda: client.retry(client.set, "/app", b"early"))
        wait("the delay does not end", lambda: not refused(lambda: client.retry(client.set, "/app", b"in time")))
        over = time.monotonic()
        assert over > began + delay_s and over > gone + delay_s - 1, (over - began, over - gone)
        assert "until_ms=" in client.get(LEAF % "/app")[0].decode()
        assert sum(metric(member, "conclave_states_differed_total") for member in ensemble.members) == 0
        return f"{over - gone:.1f} s of {delay_s}"


def test_bindings_outlive_servers():
    """All killed, and started from their disks, with snapshots and without."""
    with Ensemble(3, options=[*ON, "--snapCount", "50"], tick_ms=1000, admin=True) as ensemble, Clients() as clients:
        client = clients(ensemble.hosts)
        client.create("/app")
        bind(client, "/app", "/lock")
        lock = client.Lock("/lock", "me")
        assert lock.acquire()
        other = clients(ensemble.hosts)
        for round_number in range(3):
            for number in range(60):
                client.retry(client.set, "/app", b"%d" % number)
            for member in ensemble.members:
                member.kill()
            for member in ensemble.members:
                member.start()
            ensemble.wait_leader(serving=3)
            assert refused(lambda: other.retry(other.set, "/app", b"x")), round_number
            client.retry(client.set, "/app", b"still")
        for member in ensemble.members:
            alone = clients(member.host)
            assert refused(lambda: alone.set("/app", b"x"))
        assert sum(metric(member, "conclave_states_differed_total") for member in ensemble.members) == 0


def test_any_member_answers_for_a_token_and_none_without_a_quorum():
    with Ensemble(3, options=ON, tick_ms=1000, admin=True) as ensemble, Clients() as clients:
        client = clients(ensemble.hosts)
        tokens = []
        for _ in range(10):
            lock = client.Lock("/lock", "me")
            assert lock.acquire()
            tokens.append(client.exists("/lock/" + lock.node).czxid)
            # Each member at once, however far it is behind: it has the leader asked first.
            for member in ensemble.members:
                assert ask(member, "/lock", tokens[-1])[0] == 200
                assert len(tokens) < 2 or ask(member, "/lock", tokens[-2])[0] == 409
            lock.release()
            for member in ensemble.members:
                assert ask(member, "/lock", tokens[-1])[0] == 409
        assert tokens == sorted(set(tokens))
        ensembles = {ask(member, "/lock", 1)[1]["ensemble"] for member in ensemble.members}
        assert len(ensembles) == 1 and len(ensembles.pop()) == 32
        alone, *others = ensemble.members
        for member in others:
            Ensemble.pause(member)
        began = time.monotonic()
        status, answer = ask(alone, "/lock", tokens[-1])
        assert status == 503 and "error" in answer, (status, answer)
        assert time.monotonic() - began < 10
        for member in others:
            Ensemble.resume(member)
        wait("no answer after", lambda: ask(alone, "/lock", tokens[-1])[0] == 409)
        for query in ("", "?path=/lock", "?token=1", "?path=lock&token=1", "?path=/lock&token=x", "?path=/&token="):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{alone.admin_port}/fence{query}", timeout=10)
                raise AssertionError(query)
            except urllib.error.HTTPError as error:
                assert error.code == 400, (query, error.code)


def test_servers_with_it_off_keep_what_others_bound():
    """One of three has it switched on, and need not lead."""
    def kind(number, lines, **more):
        return ConclaveMember(number, lines, options=ON if number == 1 else [], **more)

    with Ensemble(3, kind=kind, tick_ms=1000) as ensemble, Clients() as clients:
        on, *off = (clients(member.host) for member in ensemble.members)
        # Only a leader that has it on makes the first node: hand the lead over until it is that one.
        for _ in range(20):
            if ensemble.leader() is ensemble.members[0]:
                break
            leader = ensemble.leader()
            leader.kill()
            ensemble.wait_leader()
            leader.start()
            ensemble.wait_leader(serving=3)
        else:
            raise cases.Skip("the first member never came to lead")
        on.retry(on.create, "/app")
        bind(on, "/app", "/lock")
        for client in off:
            wait("no binding", lambda: client.exists(LEAF % "/app"))
            assert refused(lambda: client.create(LEAF % "", b"lock=/lock"), (UnimplementedError, BadArgumentsError))
            assert refused(lambda: client.set(LEAF % "/app", b"lock=/other"), UnimplementedError)
            assert refused(lambda: client.set("/app", b"x"))
        lock = off[0].Lock("/lock", "me")
        assert lock.acquire()
        off[0].set("/app", b"x")
        assert refused(lambda: off[1].set("/app", b"x"))
        off[1].delete(LEAF % "/app")
        off[1].set("/app", b"x")


def test_commands():
    with Conclave(ON) as server, Clients() as clients:
        where = ["--server", server.host]
        client = clients(server.host)
        wait("no /zookeeper/fence", lambda: client.exists("/zookeeper/fence"))
        assert run("fence", "list", *where) == (0, "", "")
        assert run("fence", "bind", "/app/x", "/lock", "--lock-delay", "15s", *where) == (0, "", "")
        assert run("fence", "bind", "/app", "/other", *where) == (0, "", "")
        assert run("fence", "list", *where)[1] == \
            "PREFIX\tLOCK\tDELAY\tLEFT\n/app\t/other\t0ms\t0ms\n/app/x\t/lock\t15s\t0ms\n"
        code, out, _ = run("fence", "bind", "/app/x", "/lock", "--json", *where)  # anew
        assert code == 0 and json.loads(out) == {"prefix": "/app/x", "lock": "/lock", "lock_delay_ms": 0}, out
        code, out, _ = run("fence", "list", "--json", *where)
        assert [row["closed_until_ms"] for row in json.loads(out)] == [None, None], out
        for prefix, lock in (("/", "/lock"), ("/zookeeper/x", "/lock"), ("/lock/x", "/lock"), ("/a", "/"), ("/a/", "/l")):
            code, _, err = run("fence", "bind", prefix, lock, *where)
            assert code in (1, 64), (prefix, lock, code, err)
        for words in (["bind", "/a"], ["list", "/a"], ["check", "/a"], ["check", "/a", "x"], ["check", "/a", "0"], ["fetter"],
                      ["bind", "a", "/b"], ["unbind", "/a", "--lock-delay", "1s"]):
            assert run("fence", *words, *where)[0] == 64, words
        assert run("fence", "unbind", "/nowhere", *where)[0] == 1
        assert run("fence", "unbind", "/app", *where) == (0, "", "")
        client.create("/app")
        code, _, err = run("create", "/app/x", *where)
        assert code == 77, (code, err)
        lock = client.Lock("/lock", "me")
        assert lock.acquire()
        client.create("/app/x")
        token = client.exists("/lock/" + lock.node).czxid
        assert run("fence", "check", "/lock", str(token), *where) == (0, "current\n", "")
        assert run("fence", "check", "/lock", str(token - 1), *where)[:2] == (76, "stale\n")
        assert run("fence", "check", "/nowhere", "1", *where)[:2] == (76, "stale\n")
        assert run("set", "/app/x", "y", *where)[0] == 77
        code, out, _ = run("set", "/app/x", "y", "--fenced-by", "/lock/" + lock.node, "--json", *where)
        assert code == 0 and json.loads(out)["stat"]["version"] == 1, out
        code, _, err = run("set", "/app/x", "z", "--fenced-by", "/lock/gone", *where)
        assert code == 76 and "gone" in err, (code, err)
        assert client.get("/app/x")[0] == b"y"
        assert run("set", "/app/none", "z", "--fenced-by", "/lock/" + lock.node, *where)[0] == 1
        holder = ["--fenced-by", "/lock/" + lock.node, *where]
        code, _, err = run("create", "/app/x/y/z", *where, "--parents")
        assert code == 77, (code, err)
        assert run("create", "/app/x/y/z", "--parents", *holder) == (0, "/app/x/y/z\n", "")
        assert run("rm", "/app/x/y", "--recursive", *where)[0] == 77
        assert run("rm", "/app/x/y", "--recursive", "--fenced-by", "/lock/gone", *where)[0] == 76
        assert run("rm", "/app/x/y", "--recursive", "--json", *holder)[:2] == (0, '{"path":"/app/x/y","removed":2}\n')


def test_an_election_within_what_it_fences():
    """Candidates come, acknowledge and take over though all around their path is closed, also while a delay runs."""
    with Conclave(ON, tick_ms=500) as server, Clients() as clients:
        where = ["--server", server.host]
        client = clients(server.host)
        wait("no /zookeeper/fence", lambda: client.exists("/zookeeper/fence"))
        assert run("fence", "bind", "/app", "/app/leader", "--lock-delay", "8s", *where)[0] == 0
        words = [program(), "elect", "/app/leader", *where, "--session", "4s", "--", "sh", "-c",
                 'echo leads; while ! "$0" create /app/$CONCLAVE_TOKEN --server "$1" 2>/dev/null && ! "$0" set /app '
                 '"$CONCLAVE_TOKEN" --fenced-by "$CONCLAVE_NODE" --server "$1" 2>/dev/null; do sleep 0.2; done; '
                 'echo wrote; exec sleep 100', program(), server.host]
        first = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        second = None
        try:
            assert [first.stdout.readline() for _ in range(2)] == ["leads\n", "wrote\n"]
            old = client.get("/app")[0]
            second = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            wait("no candidate", lambda: len(client.get_children("/app/leader")) == 2)
            first.kill()
            assert second.stdout.readline() == "leads\n"
            began = time.monotonic()
            assert client.exists("/app/leader.leader") and client.get("/app")[0] == old
            assert second.stdout.readline() == "wrote\n"
            assert time.monotonic() > began + 4, "nothing of the delay was left"
            assert int(client.get("/app")[0]) > int(old)
            assert second.poll() is None
        finally:
            for process in (first, second):
                if process:
                    process.kill()
                    process.wait()


def check_contenders(server, clients):
    """Which of a list of contenders is first, by the library and, on our server, by the server."""
    client = clients(server.host)
    other = clients(server.host)
    ours = isinstance(server, Conclave)

    def verdict(path, token):
        code = run("fence", "check", path, str(token), "--server", server.host)[0]
        assert code in (0, 76), code
        if ours:
            assert ask(server, path, token)[0] == (200 if code == 0 else 409), (path, token)
        return code == 0

    def make(path, ephemeral=True):
        client.create(path, ephemeral=ephemeral, makepath=True)
        return client.exists(path).czxid

    make("/plain/config0", False)
    make("/plain/x-0000000001", False)
    tokens = [make(f"/plain/{name}") for name in ("b-lock-0000000002", "c-lock-0000000003", "a-lock-0000000010")]
    assert [verdict("/plain", token) for token in tokens] == [True, False, False]
    client.delete("/plain/b-lock-0000000002")
    assert [verdict("/plain", token) for token in tokens] == [False, True, False]
    # Numbers that wrap or repeat decide nothing.
    tokens = [make(f"/wrap/{name}") for name in ("a-n_2147483647", "b-n_-2147483648", "c-n_-2147483647")]
    assert [verdict("/wrap", token) for token in tokens] == [True, False, False]
    tokens = [make(f"/same/{name}") for name in ("z-lock-2147483647", "a-lock-2147483647")]
    assert [verdict("/same", token) for token in tokens] == [True, False]
    # A reader holds nothing, and nobody behind it.
    tokens = [make(f"/rw/{name}") for name in ("a__rlock__0000000001", "a__lock__0000000002")]
    assert [verdict("/rw", token) for token in tokens] == [False, False]
    client.delete("/rw/a__rlock__0000000001")
    assert verdict("/rw", tokens[1])
    # A lock that is one node.
    other.create("/leader", ephemeral=True)
    assert verdict("/leader", other.exists("/leader").czxid) and not verdict("/leader", 1)
    # While the queue moves the answer is one that was true.
    stop = threading.Event()
    seen = []

    def move():
        while not stop.is_set():
            lock = other.Lock("/moving", "m")
            lock.acquire()
            seen.append(other.exists("/moving/" + lock.node).czxid)
            lock.release()

    thread = threading.Thread(target=move)
    thread.start()
    try:
        wait("no holder", lambda: len(seen) > 5)
        old = seen[0]
        for _ in range(5):
            assert not verdict("/moving", old)
    finally:
        stop.set()
        thread.join(WAIT_S)


def test_contenders_are_judged_alike():
    with Conclave(ON, admin=True) as server, Clients() as clients:
        check_contenders(server, clients)


def test_apache_refuses_bindings_and_answers_for_tokens():
    why = zookeeper.why_missing()
    if why:
        raise cases.Skip(why)
    with ZooKeeper() as server, Clients() as clients:
        for words in (["bind", "/app", "/lock"], ["unbind", "/app"], ["list"]):
            code, out, err = run("fence", *words, "--server", server.host)
            assert code == 1 and out == "" and "do not fence" in err, (words, code, out, err)
        client = clients(server.host)
        lock = client.Lock("/lock", "me")
        assert lock.acquire()
        token = client.exists("/lock/" + lock.node).czxid
        assert run("fence", "check", "/lock", str(token), "--server", server.host)[0] == 0
        lock.release()
        assert run("fence", "check", "/lock", str(token), "--server", server.host)[0] == 76
        check_contenders(server, clients)


if __name__ == "__main__":
    reason = why_missing()
    sys.exit(cases.skip_all(reason) if reason else cases.run(cases.named("test_", globals()), sys.argv[1:]))
