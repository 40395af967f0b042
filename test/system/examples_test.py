#!/usr/bin/env python3
"""The library as its users get it: `make install` into a folder, pkg-config, each program of examples/ compiled and run.

Promise: every example compiles without a warning against the installed headers and does what its head says, on one
server; every public header compiles by itself as C11 and as C++17, and all *_INIT macros in both; exported functions carry a version; every file is
where it belongs, and nothing else is installed. An example without a case here fails the suite.
Limits: needs pkg-config, a C compiler, and g++ for what is C++; one server, on loopback.

usage: examples_test.py [NAME...]
"""

import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import conclave  # noqa: E402
import redis as redis_servers  # noqa: E402

ROOT = conclave.ROOT
BUILD = os.path.abspath(os.environ.get("CONCLAVE_BUILD", os.path.join(ROOT, "build")))
C_FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"]
CXX_FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"]
SESSION_S = 10  # the session timeout that the client asks for by default
WAIT_S = 60


class Program:
    """A running example, read line by line."""

    def __init__(self, words, environment, **more):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(words, stdout=self.log, stderr=subprocess.STDOUT, env=environment, **more)
        self.seen = 0

    def text(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def expect(self, pattern, seconds=WAIT_S):
        """Waits until what it writes matches, behind the last match; the match."""
        deadline = time.monotonic() + seconds
        while True:
            match = re.compile(pattern, re.M).search(self.text(), self.seen)
            if match:
                self.seen = match.end()
                return match
            if time.monotonic() > deadline or self.process.poll() is not None and not self.rest(pattern):
                raise AssertionError(f"{self.process.args} did not write {pattern!r}; exit {self.process.poll()}:\n"
                                     + self.text())
            time.sleep(0.02)

    def rest(self, pattern):
        """Whether what it wrote just before it ended matches."""
        return re.compile(pattern, re.M).search(self.text(), self.seen)

    def end(self, number=signal.SIGTERM, code=0):
        """Ends it by a signal (0: by itself) and checks the exit code."""
        if number:
            self.process.send_signal(number)
        assert self.process.wait(WAIT_S) == code, f"{self.process.args}: exit {self.process.returncode}\n{self.text()}"

    def kill(self):
        self.process.kill()
        self.process.wait()


class Bench:
    """The installed library, the compiled examples and a server for them."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="conclave-test-examples-")
        self.prefix = os.path.join(self.folder, "root")
        self.server = conclave.Conclave(tick_ms=500)
        self.programs = []

    def __enter__(self):
        # "-o all": a test neither builds, beside others that run what is built, nor installs packages.
        own = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        run = subprocess.run(["make", "--no-print-directory", "-o", "all", "install", f"BUILD={BUILD}",
                              f"DESTDIR={self.prefix}"], cwd=ROOT, env=own, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode:
            raise AssertionError(f"make install failed:\n{run.stdout}")
        self.server.__enter__()
        return self

    def __exit__(self, *why):
        for program in self.programs:
            if program.process.poll() is None:
                program.kill()
        self.server.__exit__(*why)
        shutil.rmtree(self.folder, ignore_errors=True)

    def installed(self, pattern):
        """Files below the folder, by the last parts of their paths."""
        return glob.glob(os.path.join(self.prefix, "**", pattern), recursive=True)

    def environment(self):
        libraries = os.path.dirname(self.installed("libconclave.so")[0])
        return {**os.environ, "LD_LIBRARY_PATH": libraries, "CONCLAVE_SERVER": self.server.host,
                "CONCLAVE": conclave.program()}

    def flags(self, *more):
        place = os.path.dirname(self.installed("conclave.pc")[0])
        run = subprocess.run(["pkg-config", "--cflags", "--libs", *more, "conclave"], stdout=subprocess.PIPE, text=True,
                             check=True, env={**os.environ, "PKG_CONFIG_SYSROOT_DIR": self.prefix,
                                              "PKG_CONFIG_PATH": place, "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "",
                                              "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": ""})
        return run.stdout.split()

    def compile(self, source, *more):
        """The program made of a source; more: what else to link."""
        name, kind = os.path.splitext(os.path.basename(source))
        binary = os.path.join(self.folder, name)
        compiler = [*os.environ.get("CXX", "g++").split(), *CXX_FLAGS] if kind == ".cpp" else \
            [*os.environ.get("CC", "cc").split(), *C_FLAGS]
        subprocess.run([*compiler, source, "-o", binary, *self.flags(), "-pthread", *more], check=True)
        return binary

    def start(self, name, *words, **more):
        """Starts a compiled example; more: as subprocess.Popen takes it."""
        program = Program([os.path.join(self.folder, name), *words], self.environment(), **more)
        self.programs.append(program)
        return program

    def conclave(self, *words, text=""):
        """The output of a command of ours."""
        run = subprocess.run([conclave.program(), *words], input=text, stdout=subprocess.PIPE, text=True, check=True,
                             env=self.environment())
        return run.stdout


# --- one function for each program of examples/, named after it ----------------------------------------------------------


def election(bench):
    """The second takes over when the first is killed; its token is larger."""
    first = bench.start("election", "/example/election", "alice")
    token = int(first.expect(r"alice leads, token (\d+)")[1])
    second = bench.start("election", "/example/election", "bob")
    second.expect(r"leader: alice, at work")
    first.kill()
    assert int(second.expect(r"bob leads, token (\d+)", SESSION_S + WAIT_S)[1]) > token
    second.end()


def master_switch(bench):
    """The next one goes on when the master is killed, and again when it ends in order."""
    first = bench.start("master_switch", "/example/master", "alice")
    token = int(first.expect(r"alice is the master, token (\d+)")[1])
    first.expect(r"alice does step \d+")
    second = bench.start("master_switch", "/example/master", "bob")
    time.sleep(0.3)
    assert "bob" not in second.text(), second.text()
    first.kill()
    assert int(second.expect(r"bob is the master, token (\d+)", SESSION_S + WAIT_S)[1]) > token
    third = bench.start("master_switch", "/example/master", "carol")
    second.end()
    assert "bob is a slave" in second.text(), second.text()
    third.expect(r"carol is the master")
    third.end()


def turns(bench):
    """Three lead in turn, with rising tokens; one is killed, and the other two go on."""
    programs = {name: bench.start("turns", "/example/turns", name) for name in ("alice", "bob", "carol")}
    tokens = {}
    for turn in range(2):
        for name, program in programs.items():
            tokens[name, turn] = int(program.expect(rf"{name} leads, token (\d+)")[1])
            program.expect(rf"{name} does step 1")
    assert len(set(tokens.values())) == 6 and all(tokens[name, 0] < tokens[name, 1] for name in programs), tokens
    programs.pop("carol").kill()
    for name, program in programs.items():
        for _ in range(3):
            program.expect(rf"{name} leads, token \d+", SESSION_S + WAIT_S)
    for program in programs.values():
        program.end()


def queue(bench):
    """Items are processed in their order; another worker gets the items of a killed one."""
    for text in ("one", "two"):
        bench.start("queue", "put", "/example/queue", text).end(0)
    alice = bench.start("queue", "work", "/example/queue", "alice")
    alice.expect(r"alice does one, attempt 1")
    alice.expect(r"alice does two, attempt 1")
    bob = bench.start("queue", "work", "/example/queue", "bob")
    alice.kill()
    bench.start("queue", "put", "/example/queue", "three").end(0)
    bob.expect(r"bob does three, attempt [12]", SESSION_S + WAIT_S)  # the line's first may be the killed one
    bob.end()


def barrier(bench):
    """Three begin when all are there."""
    first = [bench.start("barrier", "/example/barrier", "3", name) for name in ("alice", "bob")]
    for program in first:
        program.expect(r"waits")
    time.sleep(0.3)
    assert not any("begins" in program.text() for program in first)
    programs = [*first, bench.start("barrier", "/example/barrier", "3", "carol")]
    for program in programs:
        program.expect(r"begins")
        program.expect(r"ends with all others")
        program.end(0)


def poll_loop(bench):
    """Without threads, in a loop of the program's own: a watch gets an event for each change."""
    bench.conclave("create", "/example-poll", "one")
    program = bench.start("poll_loop", "/example-poll")
    program.expect(r"^/example-poll: one$")
    bench.conclave("set", "/example-poll", "two")
    program.expect(r"^/example-poll: two$")
    bench.conclave("rm", "/example-poll")
    program.expect(r"^/example-poll: no node")
    program.end()


def uv_loop(bench):
    """In a libuv loop: leads, tells so, and leaves at the end of its time."""
    program = bench.start("uv_loop", "/example/uv")
    program.expect(r"leads, token \d+")
    program.expect(r"closed")
    program.end(number=0)


def cpp_leader(bench):
    """In C++: two leaders in turn; the second's token is larger."""
    first = bench.start("cpp_leader", "/example/cpp", "carol")
    token = int(first.expect(r"carol leads, token (\d+), step 2")[1])
    second = bench.start("cpp_leader", "/example/cpp", "dave")
    first.end()
    assert int(second.expect(r"dave leads, token (\d+)")[1]) > token
    second.end()


def fencing(bench):
    """A resource takes tokens in rising order only, also after its end, and nothing with a damaged memory."""
    gate = os.path.join(bench.folder, "gate")

    def feed(text, code=0):
        run = subprocess.run([os.path.join(bench.folder, "fencing"), gate], input=text, text=True, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=bench.environment())
        assert run.returncode == code, run
        return run.stdout.splitlines()

    assert feed("5 a\n5 b\n9 c\n8 d\n") == ["done: a", "done: b", "done: c", "refused: fenced: the token is no longer the newest"]
    assert feed("8 e\n9 f\n")[0].startswith("refused") and feed("10 g\n") == ["done: g"]
    with open(gate, "r+b") as file:
        file.truncate(10)
    assert feed("11 h\n", 74) == []


def lock(bench):
    """Three add to one number at the same time, one of them is killed: none of the others' additions is lost."""
    programs = [bench.start("lock", "/example/lock", "/example-number", "40") for _ in range(2)]
    victim = bench.start("lock", "/example/lock", "/example-number", "1000")
    victim.expect(r"^\d+, token \d+$")
    victim.kill()
    for program in programs:
        program.end(number=0)
    lines = [line for program in (*programs, victim) for line in program.text().splitlines()]
    added = [int(line.split(",")[0]) for line in lines if ", token " in line]
    assert len(added) == len(set(added)) and max(added) <= len(added) + 1, sorted(added)  # one may have reported nothing more
    assert int(bench.conclave("get", "/example-number")) == max(added)


def nodes(bench):
    """A setting is stored, replaced and shown; a table without settings shows nothing."""
    def run(*words):
        program = bench.start("nodes", *words)
        program.end(number=0)
        return program.text()

    assert run("/example-settings") == ""
    assert run("/example-settings", "colour", "red") == "colour is red, version 0\n"
    assert run("/example-settings", "colour", "blue") == "colour is blue, version 1\n"
    assert run("/example-settings") == "colour is blue\n"


def semaphore(bench):
    """Two of three work; one is stopped, and the third has its place."""
    programs = [bench.start("semaphore", "/example/semaphore", "2", name) for name in ("alice", "bob")]
    for program in programs:
        program.expect(r"has a place, token \d+")
    third = bench.start("semaphore", "/example/semaphore", "2", "carol")
    time.sleep(0.5)
    assert "has a place" not in third.text(), third.text()
    programs[1].end()
    third.expect(r"carol has a place, token \d+")
    third.expect(r"carol works")
    programs[0].end()
    third.end()


def redis(bench):
    """Follows the record: writes to the master it names, holds while one is replaced, and refuses a server that says
    that it is a replica."""
    if redis_servers.why_missing():
        raise cases.Skip(redis_servers.why_missing())

    def record(state, epoch, server):
        return json.dumps({"version": 1, "epoch": epoch, "state": state, "master": server.host,
                           "run_id": server.info()["run_id"], "replicas": [], "unavailable": []})

    path = "/redis_failover/example/current"
    with redis_servers.RedisServer() as first, redis_servers.RedisServer(of=first) as second:
        second.wait_synced()
        bench.conclave("create", "-p", path, record("ok", 1, first))
        program = bench.start("redis", "example", "counter")
        program.expect(rf"connected to {first.host}")
        program.seen = 0  # two threads write these lines: either may be first
        program.expect(rf"OK: epoch 1, master {first.host}")
        program.expect(r"^\d+, on 1 replicas")  # those before may have been written before the replica could answer
        bench.conclave("set", path, record("failing_over", 1, first))
        program.expect(r"FAILING_OVER")
        written = len(re.findall(r"^\d+, on ", program.text()[:program.seen], re.M))
        bench.conclave("set", path, record("ok", 2, second))  # too early: it is a replica yet
        program.expect(rf"not to {second.host}: ")  # no write is under way any more
        count = int(first.call("GET", "counter"))
        assert written <= count <= written + 1, program.text()
        second.wait_value("counter", b"%d" % count)
        second.call("REPLICAOF", "NO", "ONE")
        program.expect(rf"connected to {second.host}")
        program.expect(rf"^{count + 1}, on 0 replicas")
        assert int(first.call("GET", "counter")) == count
        program.end()


def redis_client(bench):
    """Writes to the master that the record names, reads from the replica that the managers report; both change their roles."""
    if redis_servers.why_missing():
        raise cases.Skip(redis_servers.why_missing())

    def publish(verb, state, epoch, master, replica):
        record = {"version": 1, "epoch": epoch, "state": state, "master": master.host, "run_id": master.info()["run_id"],
                  "replicas": [replica.host], "unavailable": []}
        report = {"id": "m", "period_ms": 1000, "nodes": {replica.host: {
            "state": "up", "age_ms": 1, "role": "replica", "master": master.host, "link": "up", "offset": 1}}}
        more = ["-p"] if verb == "create" else []
        bench.conclave(verb, *more, "/redis_failover/example2/managers/m", json.dumps(report))
        bench.conclave(verb, *more, "/redis_failover/example2/current", json.dumps(record))

    with redis_servers.RedisServer() as first, redis_servers.RedisServer(of=first) as second:
        second.wait_synced()
        publish("create", "ok", 1, first, second)
        program = bench.start("redis_client", "example2", "counter")
        program.expect(rf"^\d+ at {first.host}, on a replica$")
        program.expect(rf"^read \d+ from the (replica {second.host}|master {first.host})$")
        publish("set", "failing_over", 1, first, second)
        second.call("REPLICAOF", "NO", "ONE")
        first.call("REPLICAOF", *second.host.split(":"))
        first.wait_synced()
        publish("set", "ok", 2, second, first)
        program.expect(rf"^\d+ at {second.host}, on a replica$")
        program.end()
        safe = [int(line.split()[0]) for line in program.text().splitlines() if line.endswith("on a replica")]
        assert safe == sorted(set(safe)) and int(second.call("GET", "counter")) >= safe[-1], program.text()


LINK = {"uv_loop": ["-luv"], "redis": ["-lhiredis"], "redis_client": ["-lconclave-redis"]}


# --- installed files -------------------------------------------------------------------------------------------------------


def group(bench):
    """Each sees the other come, and go when it is killed."""
    first = bench.start("group", "/example/group", "alice", "a:1")
    first.expect(r"this process: IN")
    second = bench.start("group", "/example/group", "bob", "b:2")
    first.expect(r"JOINED bob b:2")
    second.expect(r"2 members")
    second.kill()
    first.expect(r"LEFT bob", SESSION_S + WAIT_S)
    first.end()


def config(bench):
    """A good state is applied and acknowledged, a bad one refused; the file serves while no server is there."""
    file = os.path.join(bench.folder, "config.cache")
    program = bench.start("config", "/example/config", "web1", file)
    program.expect(r"1 workers")
    bench.conclave("config", "put", "/example/config", "workers 4")
    program.expect(r"4 workers")
    bench.conclave("config", "put", "/example/config", "nonsense")
    for _ in range(100):
        status = bench.conclave("config", "status", "/example/config")
        if "ECANCELED" in status:
            break
        time.sleep(0.05)
    assert 'not of the form "workers N"' in status, status
    program.end()
    with open(file, encoding="utf-8") as kept:
        assert kept.read() == "workers 4"
    away = bench.start("config", "/example/config", "web1", file, "127.0.0.1:1")
    away.expect(r"4 workers, change 0, from the file")
    away.end()


def cache(bench):
    """Each change is printed; a path is answered from memory, also while the server is away."""
    bench.conclave("create", "/example/cache", "0", "--parents")
    program = bench.start("cache", "/example/cache", stdin=subprocess.PIPE, bufsize=0)
    program.expect(r"CREATED /example/cache = 0\nloaded\nfresh, 1 nodes")
    bench.conclave("create", "/example/cache/a", "1")
    program.expect(r"CREATED /example/cache/a = 1")
    bench.conclave("set", "/example/cache/a", "2")
    program.expect(r"CHANGED /example/cache/a = 2")
    program.process.stdin.write(b"/example/cache/a\n/example/cache/b\n/elsewhere\n")
    program.expect(r"found /example/cache/a = 2\n/example/cache/b: no node at this path\n/elsewhere: invalid argument")
    bench.conclave("rm", "/example/cache/a")
    program.expect(r"DELETED /example/cache/a = 2")
    program.process.stdin.close()
    program.end(0)


def counter(bench):
    """Three at once, and no addition is missed."""
    programs = [bench.start("counter", "/example/count", "20") for _ in range(3)]
    for program in programs:
        program.end(0)
    counts = sorted(int(line) for program in programs for line in program.text().split())
    assert counts == list(range(1, 61)), counts


def registry(bench):
    """Both find both; one that goes is found no more."""
    first = bench.start("registry", "/example/services", "shop", "8001")
    first.expect(r"registered")
    second = bench.start("registry", "/example/services", "shop", "8002")
    second.expect(r"2 instances.*use 127.0.0.1:800[12]")
    first.end()
    second.expect(r"1 instances: 127.0.0.1:8002; use 127.0.0.1:8002")
    second.end()


def persistent_node(bench):
    """A deleted node comes back; the name of a sequential one is told; a kept one stays."""
    program = bench.start("persistent_node", "/example/kept", "plain", "ephemeral")
    program.expect(r"/example/kept: IN")
    bench.conclave("rm", "/example/kept")
    deadline = time.monotonic() + WAIT_S
    while "kept" not in bench.conclave("ls", "/example").split():
        assert time.monotonic() < deadline, program.text()
        time.sleep(0.05)
    program.end()
    named = bench.start("persistent_node", "/example/kept", "plain", "sequential")
    named.expect(r"/example/_c_[0-9a-f-]{36}-kept\d{10}: IN")
    named.kill()
    lasting = bench.start("persistent_node", "/example/kept", "plain", "persistent")
    lasting.expect(r"/example/kept: IN")
    lasting.end()
    assert bench.conclave("get", "/example/kept").strip() == "plain"


def lease(bench):
    """Another process renews and ends a lease by its id."""
    holder = bench.start("lease", "hold", "5000", "/example/lease", "me", "delete")
    holder.expect(r"holds for 5000 ms, token [1-9]")
    name = holder.text().split()[0]
    assert bench.conclave("get", "/example/lease").strip() == "me"
    bench.start("lease", "keep-alive", name).expect(r"of 5000 ms")
    bench.start("lease", "revoke", name).rest(r"")
    holder.expect(r"ended: the session has expired")


def test_server(bench):
    """A session expires, an answer is lost, time passes; the example checks itself."""
    bench.start("test_server").expect(r"ready after .*\n(.*\n)*passed")


def partitioner(bench):
    """Two members have two items each; when one is killed, the other has all."""
    first = bench.start("partitioner", "/example/set", "alice", "a", "b", "c", "d")
    first.expect(r"has: a b c d$")
    second = bench.start("partitioner", "/example/set", "bob", "a", "b", "c", "d")
    second.expect(r"has: b d$")
    first.expect(r"has: a c$")
    second.kill()
    first.expect(r"has: a b c d$", SESSION_S + WAIT_S)
    first.end()


def backends(bench):
    """The file lists the present members, and the gateway is notified."""
    bench.compile(os.path.join(ROOT, "examples", "group.c"))
    file = os.path.join(bench.folder, "backends.txt")
    reloads = os.path.join(bench.folder, "reloads")
    program = bench.start("backends", "/example/backends", file, f"cat {file} >> {reloads}")
    program.expect(r"0 backends")
    member = bench.start("group", "/example/backends", "web1", "10.0.0.1:80")
    program.expect(r"1 backends")
    with open(file, encoding="utf-8") as now:
        assert now.read() == "10.0.0.1:80\n"
    with open(reloads, encoding="utf-8") as told:
        assert told.read() == "10.0.0.1:80\n"
    member.end()
    program.expect(r"0 backends")
    program.end()


def headers(bench):
    """Each header is whole by itself, as C11 and as C++."""
    found = bench.installed("include/conclave/*.h")
    with open(bench.installed("include/conclave/conclave.h")[0], encoding="utf-8") as umbrella:
        named = re.findall(r"#include <(conclave/\w+\.h)>", umbrella.read())
    assert len(found) == len(named) + 2 > 5, (found, named)  # not itself, nor what another library offers
    includes = [flag for flag in bench.flags() if flag.startswith("-I")]
    for header in found:
        for compiler, kind, flags in (("cc", "c", C_FLAGS), ("g++", "c++", CXX_FLAGS)):
            subprocess.run([compiler, *flags, "-x", kind, "-fsyntax-only", *includes, "-"], check=True, text=True,
                           input=f"#include <conclave/{os.path.basename(header)}>\nint main() {{ return 0; }}\n")
    return f"{len(found)} headers, twice"


def initializers(bench):
    """Every *_INIT macro compiles without a warning in C11, C++17 and C++20, by gcc and clang, and has one value in all.
    The version macros have the version of the library."""
    macros = []
    for header in bench.installed("include/conclave/*.h"):
        with open(header, encoding="utf-8") as file:
            macros += re.findall(r"#define CONCLAVE_(\w+)_INIT\b", file.read())
    source = "#include <conclave/conclave.h>\n#include <conclave/redis_client.h>\n#include <stdio.h>\n"
    source += "static void show(const char *name, const void *value, size_t len)\n{\n    printf(\"%s:\", name);\n"
    source += "    for (size_t i = 0; i < len; i++) {\n"
    source += "        printf(\" %02x\", ((const unsigned char *)value)[i]);\n    }\n    puts(\"\");\n}\nint main()\n{\n"
    for name in macros:
        variable = name.lower()
        source += f"    static struct conclave_{variable} {variable} = CONCLAVE_{name}_INIT;\n"
        source += f"    show(\"{variable}\", &{variable}, sizeof {variable});\n"
    source += "    return conclave_version() != CONCLAVE_VERSION || CONCLAVE_VERSION_MINOR > 99;\n}\n"
    source = source.replace("int main()", "int main(void)")
    binary = os.path.join(bench.folder, "initializers")
    values = {}
    warn = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"]
    for compiler, kind, standards in (("gcc", "c", ("c11",)), ("clang", "c", ("c11",)), ("g++", "c++", ("c++17", "c++20")),
                                      ("clang++", "c++", ("c++17", "c++20"))):
        for standard in standards if shutil.which(compiler) else ():
            subprocess.run([compiler, f"-std={standard}", *warn, "-x", kind, "-", "-o", binary, *bench.flags(), "-pthread"],
                           check=True, text=True, input=source)
            run = subprocess.run([binary], stdout=subprocess.PIPE, text=True, check=True, env=bench.environment())
            values[compiler, standard] = run.stdout
    assert len(macros) > 15 and len(set(values.values())) == 1, values
    return f"{len(macros)} macros, {len(values)} ways"


LIBRARIES = ("libconclave", "libconclave-redis")


def exported(bench):
    """Functions of the shared libraries, and their versions."""
    names = []
    for library in LIBRARIES:
        run = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", bench.installed(library + ".so")[0]],
                             stdout=subprocess.PIPE, text=True, check=True)
        names += [line.split()[-1] for line in run.stdout.splitlines() if " T " in line]
    return {name.partition("@@")[0]: name.partition("@@")[2] for name in names}


def versions(bench):
    """Every function that a shared library gives away has a version, and programs ask for it by that."""
    functions = exported(bench)
    bare = [name for name, version in functions.items() if not version.startswith("CONCLAVE_")]
    assert functions and not bare, f"without a version: {bare or 'all'}"
    wanted = bench.flags("conclave-redis")
    assert "-lconclave-redis" in wanted and "-lconclave" in wanted and "-lhiredis" not in wanted, wanted
    for library in LIBRARIES:
        name = subprocess.run(["objdump", "-p", bench.installed(library + ".so")[0]], stdout=subprocess.PIPE, text=True, check=True)
        assert re.search(rf"SONAME\s+{library}\.so\.\d+$", name.stdout, re.M), name.stdout
    return f"{len(functions)} functions"


def places(bench):
    """Program, libraries, headers, .pc files and man pages, each where it belongs, and nothing else."""
    with open(os.path.join(BUILD, "conclave.pc"), encoding="utf-8") as file:
        prefix = re.search(r"^prefix=(.+)$", file.read(), re.M)[1]
    top = bench.prefix + prefix
    found = {os.path.relpath(path, top) for path in glob.glob(top + "/**", recursive=True) if not os.path.isdir(path)}
    libraries = os.path.relpath(os.path.dirname(bench.installed("libconclave.so")[0]), top)
    versions = {name for name in found if re.fullmatch(rf"{re.escape(libraries)}/libconclave(-redis)?\.so(\.[0-9.]+)?", name)}
    pages = {os.path.basename(path)[:-len(".scd")] for path in glob.glob(os.path.join(ROOT, "docs", "man", "*.scd"))}
    wanted = {"bin/conclave"} | versions
    wanted |= {f"{libraries}/{name}" for name in ("libconclave.a", "libconclave-redis.a", "pkgconfig/conclave.pc",
                                                  "pkgconfig/conclave-redis.pc")}
    wanted |= {os.path.relpath(path, ROOT) for pattern in ("*.h", "*.hpp", os.path.join("cpp", "*.hpp"))
               for path in glob.glob(os.path.join(ROOT, "include", "conclave", pattern))}
    wanted.add("include/conclave/version.h")
    wanted |= {"share/conclave/alerts.yml", "share/conclave/grafana-dashboard.json"}
    if shutil.which("scdoc"):
        wanted |= {f"share/man/man{page[-1]}/{page}" for page in pages}
    assert found == wanted and len(versions) == 6, f"missing: {wanted - found}; too many: {found - wanted}"
    assert set(os.listdir(bench.prefix)) == {prefix.split("/")[1]}, os.listdir(bench.prefix)
    shown = subprocess.run([os.path.join(top, "bin", "conclave"), "--version"], stdout=subprocess.PIPE, text=True, check=True)
    assert shown.stdout.startswith("conclave "), shown.stdout
    return f"{len(found)} files"


def api_pages(bench):
    """The API's pages can be made, doxygen has nothing to complain of, and the pages have every function."""
    if not shutil.which("doxygen"):
        raise cases.Skip("no doxygen (Debian: doxygen)")
    output = os.path.join(bench.folder, "api")
    subprocess.run([os.path.join(ROOT, "tools", "api-pages"), "--output", output], check=True, stdout=subprocess.DEVNULL)
    shown = "".join(open(page, encoding="utf-8").read() for page in glob.glob(os.path.join(output, "*_8h.html")))
    missing = [name for name in exported(bench) if not re.search(rf"\b{name}\b", shown)]
    assert not missing, f"not in the pages: {missing}"


def static(bench):
    """A program linked with the archives needs no shared library of ours."""
    archives = [bench.installed(library + ".a")[0] for library in reversed(LIBRARIES)]
    for name, package in (("election", "conclave"), ("redis_client", "conclave-redis")):
        source = os.path.join(ROOT, "examples", f"{name}.c")
        binary = os.path.join(bench.folder, f"static_{name}")
        flags = [flag for flag in bench.flags("--static", package) if flag not in ("-lconclave", "-lconclave-redis")]
        subprocess.run(["cc", *C_FLAGS, source, *archives[name == "election":], "-o", binary, *flags], check=True)
        needs = subprocess.run(["objdump", "-p", binary], stdout=subprocess.PIPE, text=True, check=True).stdout
        assert "libconclave" not in needs, needs
    program = bench.start("static_election", "/example/static", "erin")
    program.expect(r"erin leads")
    program.end()


def compiled(bench, source):
    """The case of one example: compiles it, then runs its function."""
    name = os.path.splitext(os.path.basename(source))[0]

    def case():
        function = globals().get(name)
        assert function, f"{os.path.basename(source)} has no function `{name}` in {os.path.basename(__file__)}"
        bench.compile(source, *LINK.get(name, ()))
        function(bench)
    case.__name__ = name
    return case


def main():
    why = conclave.why_missing() or next((f"no {tool} (Debian: {package})" for tool, package in
                                          (("pkg-config", "pkg-config"), ("g++", "g++"), ("meson", "meson"),
                                           ("make", "make"))
                                          if not shutil.which(tool)), None)
    if why:
        return cases.skip_all(why)
    sources = sorted(glob.glob(os.path.join(ROOT, "examples", "*.c")) + glob.glob(os.path.join(ROOT, "examples", "*.cpp")))
    with Bench() as bench:
        return cases.run([cases.bound(function, bench) for function in (places, headers, initializers, versions,
                                                                       api_pages, static)]
                         + [compiled(bench, source) for source in sources], sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
