#!/usr/bin/env python3
"""npm's node-zookeeper-client (pure JavaScript) on Apache ZooKeeper and on ours.

Promise: the same calls of two clients print the same: the tree, watches, ephemerals, transactions, ACLs.
Limits: installs the package with npm into ~/.cache/conclave/npm; skipped where node, npm or the registry is not there.
"""

import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import pair  # noqa: E402

PACKAGE = "node-zookeeper-client"
VERSION = "1.1.3"
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "node_client.js")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "conclave", "npm")
INSTALL_S = 60


def installed():
    """The package's folder; raises Skip when it cannot be had."""
    folder = os.path.join(CACHE, "node_modules", PACKAGE)
    if not shutil.which("node"):
        raise pair.Skip("no node (Debian: nodejs)")
    if os.path.exists(os.path.join(folder, "package.json")):
        return folder
    if not shutil.which("npm"):
        raise pair.Skip("no npm (Debian: npm)")
    os.makedirs(CACHE, exist_ok=True)
    try:
        done = subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", CACHE,
                               f"{PACKAGE}@{VERSION}"],
                              capture_output=True, text=True, timeout=INSTALL_S, check=False, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as late:
        raise pair.Skip(f"npm did not install {PACKAGE} in {INSTALL_S} s") from late
    if done.returncode != 0:
        raise pair.Skip(f"npm could not install {PACKAGE}: {(done.stderr.strip().splitlines() or ['no reason'])[-1]}")
    return folder


def node_zookeeper_client(server):
    done = subprocess.run(["node", SCRIPT, server.host, installed()], capture_output=True, text=True, timeout=60,
                          check=False)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout.splitlines()


if __name__ == "__main__":
    pair.main((node_zookeeper_client,))
