"""conclave doctor: faults planted one at a time, each named by exactly its finding, and sound servers without any.

Promise: what is found is compared as a whole set, so a finding too many fails a case as well as one too few. A look at a
data folder changes no byte in it.
Limits: the disk's own speed is not judged (--slow-sync 60s), except where strace slows it; clocks are stepped by
clock_step.so; members with another version or other data are imitated by a socket that answers memb.

usage: doctor_test.py [NAME...]
"""

import contextlib
import hashlib
import json
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import certs  # noqa: E402
import zkwire as zk  # noqa: E402
from conclave import Conclave, program, why_missing  # noqa: E402
from ensemble import Ensemble  # noqa: E402
from server import free_port  # noqa: E402

PRELOAD = os.path.join(os.environ.get("CONCLAVE_BUILD", "build"), "test", "system", "clock_step.so")
WAIT_S = 120
QUIET = ("--slow-sync", "60s", "--min-free", "1", "--timeout", "20s")
CODES = {"ok": 0, "warnings": 1, "problems": 2}


def doctor(*words, before=(), env=None, limit=None):
    """The names of what it finds, as a sorted list, and the whole answer."""
    done = subprocess.run([*before, program(), "doctor", "--json", *QUIET, *words], capture_output=True, text=True,
                          timeout=WAIT_S, check=False, env=env, preexec_fn=limit)
    assert done.stdout, (words, done.returncode, done.stderr)
    answer = json.loads(done.stdout)
    assert done.returncode == CODES[answer["verdict"]], (done.returncode, answer)
    levels = [finding["level"] for finding in answer["findings"]]
    assert [levels.count(level) for level in ("problem", "warning", "note")] == [
        answer[key] for key in ("problems", "warnings", "notes")], answer
    for finding in answer["findings"]:
        assert finding["what"] and finding["do"] and finding["where"], finding
    return sorted({finding["name"] for finding in answer["findings"]}), answer


def expect(names, *words, **more):
    found, answer = doctor(*words, **more)
    assert found == sorted(names), (names, answer)
    return answer


def expect_soon(names, *words):
    """As expect, of servers that just came or went: a look may fall into their election."""
    deadline = time.monotonic() + WAIT_S
    while True:
        found, answer = doctor(*words)
        if found == sorted(names):
            return answer
        assert time.monotonic() < deadline, (names, answer)
        time.sleep(0.3)


class Place:
    """A folder with a zoo.cfg of a sound server that does not run."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="conclave-test-doctor-")
        self.data = os.path.join(self.folder, "data")
        self.config = os.path.join(self.folder, "zoo.cfg")
        self.port = free_port()
        self.head = f"clientPort={self.port}\nclientPortAddress=127.0.0.1\nadmin.enableServer=false\n"

    def write(self, name, text, mode=0o600):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def servers(self, *hosts):
        """server.N lines; this one is the first. With hosts elsewhere the members need a secret."""
        os.makedirs(self.data, exist_ok=True)
        self.write("data/myid", "1\n")
        secret = self.write("secret", "a secret of more than sixteen characters\n")
        lines = "".join(f"server.{i + 1}={host}:{free_port()}:{free_port()};{free_port()}\n" for i, host in enumerate(hosts))
        local = all(host in ("127.0.0.1", "localhost") for host in hosts)
        return lines + ("" if local else f"clusterSecretFile={secret}\n")

    def expect(self, names, text="", *words, data=None, head=None, mode=0o600, **more):
        self.write("zoo.cfg", f"dataDir={data or self.data}\n" + (self.head if head is None else head) + text, mode)
        return expect(names, self.config, *words, **more)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder)


LOCAL3 = ("127.0.0.1", "127.0.0.1", "127.0.0.1")


def test_configuration():
    with Place() as place:
        place.expect([])
        place.expect([], place.servers(*LOCAL3))
        place.expect(["config-invalid"], "tickTime=soon\n")
        place.expect(["config-invalid"], "minSessionTimeout=5000\nmaxSessionTimeout=4000\n")
        place.expect(["key-unknown"], "tickTme=2000\n")
        place.expect(["key-without-effect"], "initLimit=10\nsyncLimit=5\n")
        place.expect(["key-repeated"], "tickTime=2000\ntickTime=3000\n")
        place.expect([], "tickTime=2000\ntickTime=2000\n")
        place.expect(["sync-off"], "forceSync=no\n")
        place.expect(["acl-off"], "skipACL=yes\n")
        place.expect(["voters-even"], place.servers("127.0.0.1", "127.0.0.1"))
        place.expect(["heartbeat-too-long"], place.servers(*LOCAL3) + "electionTimeout=400\nheartbeatTimeout=190\n")
        place.expect(["data-limit-too-high"], f"maxDataBytes={1 << 60}\n")
        admin = f"admin.serverAddress=0.0.0.0\nadmin.serverPort={free_port()}\n"
        place.expect(["admin-port-open"], admin, head=place.head.replace("admin.enableServer=false\n", ""))
        place.expect(["client-port-open"], head=place.head.replace("127.0.0.1", "0.0.0.0"))
        place.expect([], "", "--key", "tickTime=3000")
        place.expect(["config-invalid"], "", "--key", "tickTme=3000")
        place.expect(["config-advice"], "ssl.certFile=/nowhere.crt\nssl.keyFile=/nowhere.key\n")


def test_names_and_ports():
    brief = {**os.environ, "RES_OPTIONS": "timeout:1 attempts:1"}  # where nobody answers for DNS
    with Place() as place:
        place.expect(["host-unknown"], place.servers("127.0.0.1", "no-such-host.invalid", "127.0.0.1"), env=brief)
        place.expect(["host-loopback"], place.servers("localhost", "192.0.2.1", "192.0.2.2"), "--timeout", "1s")
        place.expect(["address-not-here"], "warnOpenClientPort=no\n", "--timeout", "1s", head=place.head.replace("127.0.0.1", "192.0.2.7"))
        with socket.socket() as other:
            other.bind(("127.0.0.1", place.port))
            other.listen()
            answer = place.expect(["port-in-use"])
            assert answer["findings"][0]["where"] == f"127.0.0.1:{place.port}", answer


def test_secrets():
    with Place() as place:
        lines = place.servers("127.0.0.1", "127.0.0.1", "127.0.0.1")
        secret = os.path.join(place.folder, "secret")
        place.expect([], lines + f"clusterSecretFile={secret}\n")
        os.chmod(secret, 0o644)
        answer = place.expect(["secret-readable"], lines + f"clusterSecretFile={secret}\n")
        assert answer["findings"][0]["where"] == secret, answer
        place.expect(["secret-readable"], lines + "clusterSecret=a_secret_in_the_file_itself\n", mode=0o644)
        place.expect([], lines + "clusterSecret=a_secret_in_the_file_itself\n")


def stepped(folder, seconds):
    """The environment of a program whose clock is that much ahead."""
    path = os.path.join(folder, f"step{seconds}")
    with open(path, "wb") as file:
        file.write(struct.pack("<qq", seconds * 10**9, 0))
    return {**os.environ, "LD_PRELOAD": PRELOAD, "CLOCK_STEP_FILE": path}


def test_certificates():
    if certs.why_missing():
        raise cases.Skip(certs.why_missing())
    with Place() as place:
        made = certs.Certificates(os.path.join(place.folder, "certs"))
        ca, other_ca = made.make("ca", "/CN=ca"), made.make("ca2", "/CN=other ca")
        good, other = made.make("good", "/CN=a", ca), made.make("other", "/CN=b", ca)
        old, strange = made.make("old", "/CN=c", ca, expired=True), made.make("strange", "/CN=d", other_ca)
        misnamed = made.make("misnamed", "/CN=e", ca, san="DNS:elsewhere.example")
        for item in (ca, other_ca, good, other, old, strange, misnamed):
            os.chmod(item.key, 0o600)

        def client(cert, key):
            return (f"secureClientPort={free_port()}\nsecureClientPortAddress=127.0.0.1\nssl.clientAuth=none\n"
                    f"ssl.certFile={cert}\nssl.keyFile={key}\n")

        def quorum(item):
            return (place.servers(*LOCAL3) + f"sslQuorum=true\nssl.quorum.certFile={item.cert}\nssl.quorum.keyFile={item.key}\n"
                    f"ssl.quorum.caFile={ca.cert}\n")
        short = ("--days", "7")
        place.expect([], client(good.cert, good.key), *short)
        place.expect(["certificate-unusable"], client(good.cert, other.key), *short)
        place.expect(["certificate-expired"], client(old.cert, old.key), *short)
        place.expect(["certificate-ends-soon"], client(good.cert, good.key), "--days", "60")
        place.expect(["certificate-not-yet-valid"], client(good.cert, good.key), *short,
                     env=stepped(place.folder, -10 * 86400))
        place.expect([], quorum(good), *short)
        place.expect(["certificate-name"], quorum(misnamed), *short)
        place.expect(["certificate-untrusted"], quorum(strange), *short)


def test_machine():
    with Place() as place:
        place.expect(["disk-space-low"], "", "--min-free", str(2**31 - 1))
        place.expect(["file-limit-low"], limit=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
        place.expect(["data-unwritable"], "", "--min-free", "0", data="/proc/conclave-data")
        with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
            place.expect(["data-in-memory"], data=os.path.join(memory, "data"))
        assert not os.path.exists(place.data), "the look made a data folder"
        if not shutil.which("strace") or subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode:
            return "disk-slow left out: no strace, or it may not trace here"
        slow = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync", "-e", "inject=fdatasync:delay_enter=150000"]
        answer = place.expect(["disk-slow"], "", "--slow-sync", "100ms", before=slow)
        assert answer["disk"]["sync_median_us"] >= 150000, answer
    return None


def state_of(folder):
    found = {}
    for top, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(top, name)
            with open(path, "rb") as file:
                found[path] = (hashlib.sha256(file.read()).hexdigest(), os.stat(path).st_mtime_ns)
    return found


def snapshots_of(folder):
    """The complete ones, oldest first."""
    folder = os.path.join(folder, "snapshot")
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".snapshot"))


def filled(options=()):
    """A server that was killed behind some writes and at least two snapshots, of which it noted one. Destroy it."""
    server = Conclave(["--snapCount", "50", "--preAllocSize", "64", *options])
    server.start()
    with zk.Connection(server.address, 30000) as client:
        for i in range(300):
            err, _ = client.call(zk.create(f"/n{i}", b"x" * 1000))
            assert err == 0, err
    deadline = time.monotonic() + 30
    while len(snapshots_of(os.path.join(server.folder, "data"))) < 2:
        assert time.monotonic() < deadline, "no two snapshots"
        time.sleep(0.05)
    server.kill()
    return server


def flip(path, offset):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)
        file.seek(offset)
        file.write(bytes([byte[0] ^ 0x55]))


def test_data_folder():
    server = filled()
    try:
        data = os.path.join(server.folder, "data")
        aim = ("--data", data, "--key", f"listen=127.0.0.1:{free_port()}", "--key", "admin=off")
        before = state_of(data)
        expect([], *aim)
        assert state_of(data) == before, "the look changed the folder"

        def planted(names, spoil):
            copy = os.path.join(server.folder, "copy")
            shutil.copytree(data, copy)
            spoil(copy)
            was = state_of(copy)
            answer = expect(names, "--data", copy, *aim[2:])
            assert state_of(copy) == was, "the look changed the folder"
            shutil.rmtree(copy)
            return answer

        def segments_of(folder):
            folder = os.path.join(folder, "log")
            return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".log"))

        def last_byte(path):
            with open(path, "rb") as file:
                return len(file.read().rstrip(b"\0")) - 1

        def middle_of_log(folder):
            flip(segments_of(folder)[0], 700)

        def end_of_log(folder):
            log = segments_of(folder)[-1]
            flip(log, last_byte(log))

        def no_segment(folder):
            os.remove(segments_of(folder)[0])

        def no_snapshot(folder):  # all of them: killed at once, the server may not have noted the newest
            for path in snapshots_of(folder):
                os.remove(path)

        def snapshot(folder):
            path = snapshots_of(folder)[-1]
            flip(path, os.path.getsize(path) // 2)
        planted(["log-damaged"], middle_of_log)
        planted(["log-damaged"], no_segment)
        planted(["log-torn"], end_of_log)
        planted(["snapshot-damaged"], snapshot)
        planted(["snapshot-damaged"], no_snapshot)
        planted(["folder-damaged"], lambda folder: flip(os.path.join(folder, "metadata"), 20))
        planted(["folder-damaged"], lambda folder: flip(os.path.join(folder, "conclave.format"), 40))
        planted(["folder-damaged"], lambda folder: os.remove(os.path.join(folder, "conclave.format")))
        planted(["damage-put-aside"], lambda folder: os.mkdir(os.path.join(folder, "damaged-2026")))

        def no_file(folder):
            path = segments_of(folder)[-1]
            os.remove(path)
            os.mkdir(path)
        planted(["file-unreadable"], no_file)

        with Place() as place:  # as the server says when it refuses to start
            os.mkdir(place.data)
            place.write("data/pg_hba.conf", "another program's\n")
            answer = place.expect(["folder-foreign"])
            assert "pg_hba.conf" in answer["findings"][0]["what"], answer
            lines = place.servers(*LOCAL3)
            os.remove(os.path.join(place.data, "pg_hba.conf"))
            place.expect([], lines)
            place.write("data/myid", "2\n")
            shutil.copytree(data, os.path.join(place.folder, "of1"))
            place.write("of1/myid", "2\n")
            answer = place.expect(["folder-foreign"], lines, data=os.path.join(place.folder, "of1"))
            assert "server 1, not to server 2" in answer["findings"][0]["what"], answer
    finally:
        server.destroy()


# As a server writes it.
CHOICE = """Conclave import choice
member 2
epoch 7
zxid 0000000000000099
digest 0000000000000000
checksum c274f4875b3dc25a
"""


def test_folder_of_zookeeper():
    """Before an import: what is there, how old and how damaged it is, and what an earlier start of an ensemble left."""
    server = filled()
    try:
        with Place() as place:
            done = subprocess.run([program(), "export", "--from", os.path.join(server.folder, "data"), place.data],
                                  capture_output=True, text=True, check=False)
            assert done.returncode == 0, done
            inner = os.path.join(place.data, "version-2")
            name, = os.listdir(inner)
            snapshot = os.path.join(inner, name)
            zxid = "0x" + name.split(".")[1]
            before = state_of(place.data)

            def what(answer, kind):
                finding, = [f for f in answer["findings"] if f["name"] == kind]
                return finding["where"], finding["what"]

            where, text = what(place.expect(["import-due"]), "import-due")
            assert where == place.data and f"last zxid {zxid}" in text and "epoch 0" in text and name in text, text
            assert "the first start imports them" in text, text
            assert time.strftime("%Y-", time.gmtime(os.stat(snapshot).st_mtime)) in text, text
            assert state_of(place.data) == before, "the look changed the folder"

            lines = place.servers(*LOCAL3)
            assert "newest files of a majority" in what(place.expect(["import-due"], lines), "import-due")[1]
            observer = lines.replace(";", ":observer;", 1)
            assert "an observer joins" in what(place.expect(["import-due", "voters-even"], observer), "import-due")[1]

            write = place.write
            for name, text in (("currentEpoch", "7\n"), ("acceptedEpoch", "7\n")):
                write(os.path.join("data", "version-2", name), text)
            assert "epoch 7" in what(place.expect(["import-due"], lines), "import-due")[1]

            week = time.time() - 30 * 86400
            os.utime(snapshot, (week, week))
            assert "30 days ago" in what(place.expect(["import-due", "import-old"], lines), "import-old")[1]
            os.utime(snapshot)

            kept = place.data + "-kept"
            shutil.copytree(place.data, kept)

            def again():
                shutil.rmtree(place.data)
                shutil.copytree(kept, place.data)

            flip(snapshot, os.path.getsize(snapshot) // 2)
            was = state_of(place.data)
            assert snapshot in what(place.expect(["import-damaged"], lines), "import-damaged")[1]
            assert state_of(place.data) == was
            again()
            with open(snapshot, "r+b") as file:
                file.seek(4)
                file.write(struct.pack(">i", 3))  # the format's version
            assert "format 3" in what(place.expect(["import-damaged"], lines), "import-damaged")[1]
            again()
            os.remove(snapshot)
            assert "no snapshot and no log" in what(place.expect(["import-damaged"]), "import-damaged")[1]
            again()
            write(os.path.join("data", "import-choice"), CHOICE)
            where, text = what(place.expect(["import-choice", "import-due"], lines), "import-choice")
            assert where == "import-choice" and "member 2 (epoch 7, zxid 0x99)" in text, text
            write(os.path.join("data", "import-choice"), "Conclave import choice\nmember 2\n")
            place.expect(["import-choice-damaged", "import-due"], lines)
            again()

            # After the import there is nothing to say, until ZooKeeper writes there again.
            head = [program(), "server", place.config, "--listen", "127.0.0.1:0"]
            place.expect(["import-due"])
            with subprocess.Popen(head, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
                assert "ready" in process.stdout.readline()
                process.kill()
            place.expect([])
            os.remove(os.path.join(place.data, "imported"))
            assert "were not imported" in what(place.expect(["data-beside-import"]), "data-beside-import")[1]
    finally:
        server.destroy()


def test_folder_in_use():
    """A server that writes, cuts its log and takes snapshots all the while: nothing of that is a fault."""
    with Conclave(["--snapCount", "40", "--preAllocSize", "64"], admin=True) as server:
        done = threading.Event()

        def write():
            with zk.Connection(server.address, 30000) as client:
                client.call(zk.create("/n", b""))
                while not done.is_set():
                    client.call(zk.set_data("/n", b"y" * 3000, -1))
        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(12):
                expect([], "--data", os.path.join(server.folder, "data"), "--key", f"listen={server.host}",
                       "--key", f"admin=127.0.0.1:{server.admin_port}")
        finally:
            done.set()
            writer.join()


def of_member(member):
    return (os.path.join(member.folder, "zoo.cfg"), "--key", f"listen={member.host}",
            "--key", f"admin=127.0.0.1:{member.admin_port}" if member.admin_port else "admin=off")


def test_ensemble():
    with Ensemble(3, admin=True) as ensemble:
        with zk.Connection(ensemble.members[0].address, 30000) as client:
            for i in range(60):
                client.call(zk.create(f"/n{i}", b"x"))
        for member in ensemble.members:
            expect_soon([], *of_member(member))
        expect_soon([], "--server", ensemble.hosts)
        one, two, three = ensemble.members
        three.stop()
        ensemble.wait_leader()
        answer = expect_soon(["member-down"], "--server", one.host)
        assert [f["where"] for f in answer["findings"]] == [three.host], answer
        expect_soon(["member-down", "peer-unreachable"], *of_member(one))
        two.kill()
        expect_soon(["member-down", "no-quorum"], "--server", one.host)
        one.stop()
        expect([], *of_member(one))  # nothing runs, and that is no fault


def test_clock_of_a_member():
    with Ensemble(3) as ensemble:
        member = ensemble.members[1]
        member.stop()
        environment = stepped(member.folder, 5)
        member.environment = lambda: environment
        member.start()
        ensemble.wait_leader(serving=3)
        answer = expect_soon(["clock-differs"], "--server", ensemble.hosts)
        assert [f["where"] for f in answer["findings"]] == [member.host], answer
        seconds = float(re.search(r"its clock is (\S+) s ahead of", answer["findings"][0]["what"]).group(1))
        assert 0.5 < seconds <= 5.1, answer  # less by the time that the look took


def test_clock_of_this_machine():
    """It is set forward while a member is asked."""
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        environment = stepped(folder, 0)

        def serve():
            link, _ = listener.accept()
            with link, open(environment["CLOCK_STEP_FILE"], "r+b") as file:
                link.recv(64)
                file.write(struct.pack("<q", 7 * 10**9))
                file.flush()
                link.sendall(f"{memb(1)}time_ms\t{round(time.time() * 1000) + 7000}\n".encode())
        threading.Thread(target=serve, daemon=True).start()
        found, answer = doctor("--server", f"127.0.0.1:{listener.getsockname()[1]}", env=environment)
        assert "clock-stepped" in found, answer


@contextlib.contextmanager
def imitated(*members):
    """Servers that answer every question with a text each; their addresses. The clock of each is right when it answers."""
    sockets = []

    def serve(listener, text):
        with contextlib.suppress(OSError):
            while True:
                link, _ = listener.accept()
                with link:
                    link.recv(64)
                    link.sendall((text + f"time_ms\t{round(time.time() * 1000)}\n").encode())
    for text in members:
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=serve, args=(listener, text), daemon=True).start()
        sockets.append(listener)
    try:
        yield ",".join(f"127.0.0.1:{s.getsockname()[1]}" for s in sockets)
    finally:
        for listener in sockets:
            listener.close()


def memb(number, version="3.9.5-conclave-0.1.0", digest="000000000000abcd", applied=50000, warning=""):
    return (f"id\t{number}\nmode\t{'leader' if number == 1 else 'follower'}\nstate\tok\nversion\t{version}\nzxid\t0x7\nterm\t3\n"
            f"leader\t1\nlast\t50000\ncommit\t50000\napplied\t{applied}\nconnections\t1\nsessions\t0\n{warning}"
            f"digest\t{applied}\t{digest}\ndigest\t16\t{digest}\n")


def test_other_members():
    with imitated(memb(1), memb(2), memb(3)) as hosts:
        expect([], "--server", hosts)
    with imitated(memb(1), memb(2), memb(3, version="3.9.5-conclave-0.0.9")) as hosts:
        expect(["version-differs"], "--server", hosts)
    with imitated(memb(1, digest="000000000000aaaa"), memb(2), memb(3)) as hosts:
        answer = expect(["data-differs"], "--server", hosts)
        assert {f["where"] for f in answer["findings"]} == {hosts.split(",")[0]}, answer
    with imitated(memb(1), memb(2), memb(3, applied=100)) as hosts:
        expect(["member-behind"], "--server", hosts)
    with imitated(memb(1), memb(2, warning="warning\tit reads from a damaged disk\n"), memb(3)) as hosts:
        expect(["member-warns"], "--server", hosts)
    with imitated(memb(1), memb(2)) as hosts:
        expect(["member-down"], "--server", hosts + f",127.0.0.1:{free_port()}")


def test_sizes():
    with Conclave(["--maxSessions", "5", "--jute.maxbuffer", "2000000"], admin=True) as server:
        aim = ("--server", server.host)
        expect([], *aim)
        with contextlib.ExitStack() as stack:
            clients = [stack.enter_context(zk.Connection(server.address, 30000)) for _ in range(4)]
            expect(["limit-near"], *aim)
            for client in clients[1:]:
                client.close_session()
            expect([], *aim)
            clients[0].call(zk.create("/large", b"x" * 900000))
            clients[0].call(zk.get_data("/large"))
            expect(["answer-large"], *aim)
    with Conclave(["--maxSessions", "1"], admin=True) as server:
        with zk.Connection(server.address, 30000) as first:
            with contextlib.suppress(Exception):
                zk.Connection(server.address, 30000).close_session()
            first.close_session()
        deadline = time.monotonic() + 30
        while (found := doctor("--server", server.host)[0]) != ["limit-reached"]:
            assert time.monotonic() < deadline, found
            time.sleep(0.5)


def test_words():
    done = subprocess.run([program(), "doctor", "--key", "nothing"], capture_output=True, text=True, check=False)
    assert done.returncode == 64 and "KEY=VALUE" in done.stderr, done
    done = subprocess.run([program(), "doctor", "--server", ""], capture_output=True, text=True, check=False)
    assert done.returncode == 64 and "--server wants host:port" in done.stderr, done
    with Place() as place:
        place.write("zoo.cfg", f"dataDir={place.data}\n{place.head}forceSync=no\n")
        done = subprocess.run([program(), "doctor", place.config, *QUIET], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and "problem  sync-off  forceSync\n" in done.stdout, done
        assert done.stdout.splitlines()[-1] == "problems: 1 problems, 0 warnings, 0 notes", done


def folder_on_disk():
    """Where the servers of these cases have their data: in memory each of them would be a finding. None: nowhere."""
    for folder in (tempfile.gettempdir(), "/var/tmp", os.path.abspath(os.environ.get("CONCLAVE_BUILD", "build"))):
        kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=False).stdout.strip()
        if os.access(folder, os.W_OK) and kind not in ("", "tmpfs", "ramfs"):
            return folder
    return None


def main():
    if why_missing():
        return cases.skip_all(why_missing())
    tempfile.tempdir = folder_on_disk()
    if tempfile.tempdir is None:
        return cases.skip_all("all folders for data are in memory, which the doctor reports")
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
