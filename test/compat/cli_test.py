"""The commands for the tree on Apache ZooKeeper and on ours: the same output, and quotas that zkCli.sh understands.

Promise: as test/support/pair.py. whoami is not here: Apache ZooKeeper 3.8 on Debian 12 lacks it.

usage: cli_test.py [CASE...]
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import conclave  # noqa: E402
import pair  # noqa: E402
import zookeeper  # noqa: E402

WAIT_S = 30


def run(server, *words, stdin=""):
    """[exit code, output, names of the errors]"""
    env = {key: value for key, value in os.environ.items() if not key.startswith("CONCLAVE_AUTH")}
    done = subprocess.run([conclave.program(), *words], input=stdin, capture_output=True, text=True, timeout=WAIT_S,
                          env=dict(env, CONCLAVE_SERVER=server.host), check=False)
    return [done.returncode, done.stdout, re.findall(r"\(([A-Z_]+)\)", done.stderr)]


def zkcli(server, *words):
    """The output of one command of ZooKeeper's shell."""
    done = subprocess.run(["java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-cp",
                           f"{zookeeper.JAR}:{zookeeper.LOGGER}", zookeeper.CLIENT_MAIN, "-server", server.host, *words],
                          capture_output=True, text=True, timeout=WAIT_S, check=False)
    return done.stdout


def nodes(server):
    return [run(server, *words.split(" ")) for words in (
        "create /n one", "create /n/a --parents", "create /n/c --container", "create /n/t x --ttl 1h",
        "create /n/s- --sequential --ttl 1h", "create /n two", "create /none/x", "tree /n", "tree /n --depth 0",
        "count /n", "count /none", "sync /n", "ls /n", "set /n x --version 7", "rm /n", "rm -r /n", "get /n")]


def acls(server):
    secret = "digest:anna:pw"
    return [run(server, *words.split(" ")) for words in (
        "create /acl x", "acl get /acl", "acl set /acl world:anyone:r,ip:127.0.0.1:cdrwa", "acl get /acl",
        f"acl set /acl auth::cdrwa --auth {secret}", "acl get /acl", f"acl get /acl --auth {secret}", "get /acl",
        f"get /acl --auth {secret}", "acl set /acl auth::r", "acl set /none world:anyone:r",
        f"acl set /acl world:anyone:cdrwa --version 9 --auth {secret}", f"acl set /acl world:anyone:z --auth {secret}",
        f"acl set -r /acl world:anyone:cdrwa --auth {secret}", "acl get /acl")]


def quotas(server):
    seen = [run(server, *words.split(" ")) for words in (
        "create /q/a data --parents", "quota get /q", "quota set /q --count 3 --hard-bytes 100", "quota get /q",
        "quota set /q/a --count 3", "get /zookeeper/quota/q/zookeeper_limits")]
    listed = zkcli(server, "listquota", "/q")
    seen.append(re.findall(r"(?:count|bytes)=.*", listed))
    zkcli(server, "setquota", "-n", "7", "/q")
    return seen + [run(server, *words.split(" ")) for words in (
        "create /q/b", "quota get /q", "quota get /q --json", "quota rm /q", "quota rm /q", "ls /zookeeper/quota")]


def watches(server):
    process = subprocess.Popen([conclave.program(), "watch", "/w", "-r", "--count", "4", "--server", server.host],
                               stdout=subprocess.PIPE, text=True)
    first = process.stdout.readline()
    run(server, "shell", stdin="create /w\ncreate /w/a x\nset /w/a y\nrm -r /w\n")
    rest, _ = process.communicate(timeout=WAIT_S)
    return [first, rest, process.returncode]


def sessions(server):
    return run(server, "shell", stdin="create /s\ncreate /s/e x -e\nephemerals /s\nauth digest:a:b\nsetAcl /s auth::cdrwa\n"
               "getAcl /s\nget /none\nset /s x\ndeleteall /s\ngetAllChildrenNumber /zookeeper\n")


if __name__ == "__main__":
    pair.main([nodes, acls, quotas, watches, sessions], theirs_only={"properties": {"zookeeper.extendedTypesEnabled": "true"}},
              ours_only={"options": ["--extendedTypesEnabled", "true"]})
