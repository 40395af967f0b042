#!/usr/bin/env python3
"""Apache's command line client, zkCli.sh, with one script of commands on Apache ZooKeeper and on ours: same output.

Promise: its stdout and stderr are compared line by line. Normalised are only times, session ids and
passwords, and the place of watch events among the lines, as another thread of the client prints them; their order is
compared. On a server of its own each, so that zxids and the whole tree are compared as they are.
Limits: one Java start per server and script: a few seconds.
"""

import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import pair  # noqa: E402

ZKCLI = "/usr/share/zookeeper/bin/zkCli.sh"

TREE = """
ls /
ls -R /
create /app hello
create /app
create -s /app/seq- one
create -s /app/seq- two
create -e /app/ephemeral three
create -e -s /app/es- four
create -c /app/container five
create /app/no/parent
create /app/ephemeral/child
ls /app
ls -s /app
ls -R /app
get /app
get -s /app
stat /app
stat /app/ephemeral/none
set /app changed
set -s /app again
set -v 1 /app wrong
set -v 2 /app right
set /none x
get -s /app
delete /app
delete -v 9 /app/seq-0000000000
delete -v 0 /app/seq-0000000000
delete /none
getEphemerals
getEphemerals /app
getEphemerals /none
getAllChildrenNumber /app
getAllChildrenNumber /
sync /app
sync /none
get /none
ls /none
create /app/a/ x
create /app/b\u00e9\u65e5 unicode
get /app/b\u00e9\u65e5
create bad x
deleteall /app
deleteall /none
ls /
version
quit
"""

WATCHES = """
create /w a
get -w /w
set /w b
ls -w /w
create /w/c x
stat -w /w
set /w c
addWatch -m PERSISTENT /w
set /w d
create /w/d x
addWatch /w
set /w/c y
delete /w/d
removewatches /w
removewatches /w
set /w e
addWatch -m PERSISTENT_RECURSIVE /nothing
create /nothing x
create /nothing/deep x
deleteall /nothing
deleteall /w
quit
"""

ACLS = """
create /acl data
getAcl /acl
getAcl -s /acl
setAcl /acl world:anyone:r
set /acl x
getAcl /acl
create /acl2 data world:anyone:rwa
setAcl -s -v 0 /acl2 world:anyone:cdrwa
setAcl -v 7 /acl2 world:anyone:r
setAcl /acl2 auth::cdrwa
setAcl /acl2 nosuch:x:r
addauth digest ann:secret
whoami
setAcl /acl2 auth::cdrwa
getAcl /acl2
create /acl2/x y auth::r
getAcl /acl2/x
set /acl2/x z
create /acl3 z digest:bob:AAAAAAAAAAAAAAAAAAAAAAAAAAA=:cdrwa
get /acl3
ls /acl3
delete /acl3
create /acl4 z ip:127.0.0.1:cdrwa
get /acl4
setAcl -R /acl2 world:anyone:cdrwa
getAcl /zookeeper/config
config
quit
"""

QUOTAS = """
create /q data
listquota /q
setquota -n 5 /q
listquota /q
create /q/a x
create /q/b xyz
listquota /q
setquota -b 100 /q
listquota /q
delquota -n /q
listquota /q
delquota /q
listquota /q
deleteall /q
quit
"""

EVENT = re.compile(r"^WatchedEvent ")
CLOSED = "WatchedEvent state:Closed"  # of its own session: its threads race for whether it is printed at the end
IDENTITY = re.compile(r"^(ip|digest): \S+$")
NOISE = (
    (re.compile(r"time = .*"), "time = TIME"),
    (re.compile(r"ephemeralOwner = 0x[0-9a-f]{6,}"), "ephemeralOwner = SESSION"),
    (re.compile(r"127\.0\.0\.1:\d+"), "SERVER"),
    (re.compile(r"sessionid:? ?0x[0-9a-f]+", re.I), "SESSION"),
)


def normalise(text):
    """(lines, watch events), without what differs from run to run."""
    lines, events = [], []
    for line in text.split("\n"):
        for pattern, to in NOISE:
            line = pattern.sub(to, line)
        if line.startswith(CLOSED):
            continue
        if EVENT.match(line):
            events.append(line)
        elif line.strip() and line != "WATCHER::":
            lines.append(line.rstrip())
    # whoami shows a set: its adjacent lines, in any order.
    ids = [index for index, line in enumerate(lines) if IDENTITY.match(line)]
    for index, line in zip(ids, sorted(lines[index] for index in ids)):
        lines[index] = line
    return lines, events


def run_script(server, script):
    """zkCli's output for a script, and its exit code, as lines."""
    if not os.access(ZKCLI, os.X_OK):
        raise pair.Skip(f"no {ZKCLI} (Debian: zookeeper)")
    env = {**os.environ, "CLIENT_JVMFLAGS": "-Dzookeeper.logger=none -Dfile.encoding=UTF-8 -Djline.terminal=dumb",
           "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    done = subprocess.run([ZKCLI, "-server", server.host], input=script, capture_output=True, text=True,
                          encoding="utf-8", errors="replace", timeout=60, check=False, env=env)
    out, events = normalise(done.stdout)
    err, _ = normalise(done.stderr)
    if not any("SyncConnected" in event for event in events):
        raise AssertionError(f"zkCli did not connect:\n{done.stdout}\n{done.stderr}")
    return ["out: " + line for line in out] + ["event: " + line for line in events] \
        + ["err: " + line for line in err] + [f"exit code {done.returncode}"]


def tree(server):
    lines = run_script(server, TREE)
    assert "err: Created /app/seq-0000000001" in lines or "out: Created /app/seq-0000000001" in lines, lines
    return lines


def watches(server):
    lines = run_script(server, WATCHES)
    assert any("NodeDataChanged path:/w" in line for line in lines), lines
    return lines


def acls(server):
    lines = run_script(server, ACLS)
    assert "out: 'world,'anyone" in lines, lines
    return lines


def quotas(server):
    return run_script(server, QUOTAS)


if __name__ == "__main__":
    pair.main((tree, watches, acls, quotas))
