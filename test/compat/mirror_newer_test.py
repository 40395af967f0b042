"""mirror_test.py against ZooKeeper 3.9, where the system's own is older: Debian 13's package, which tools/install-deps unpacks.

usage: mirror_newer_test.py [--rounds N] [NAME...]
"""

import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FOLDER = os.path.realpath(os.path.join(ROOT, ".deps", "zookeeper"))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))

import cases  # noqa: E402

if not os.path.exists(os.path.join(FOLDER, "usr/share/java/zookeeper.jar")):
    sys.exit(cases.skip_all(f"no ZooKeeper 3.9 in {FOLDER}: run tools/install-deps --test with a network"))
os.environ["CONCLAVE_TEST_ZOOKEEPER"] = FOLDER

import mirror_test  # noqa: E402

if __name__ == "__main__":
    sys.exit(mirror_test.main())
