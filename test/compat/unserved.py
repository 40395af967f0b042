"""What Apache ZooKeeper 3.8 serves and Conclave does not: the one list that the suites of this folder leave out.

Promise: `still_unserved` fails as soon as an entry is served, so that the list cannot outlive its reason.
"""

import zkwire as zk

# Operations that ours answers UNIMPLEMENTED, with a request to ask for.
OPERATIONS = {}

# Features without an operation of their own.
QUOTA_STATS = "the counts of a subtree with a quota (/zookeeper/quota/.../zookeeper_stats)"
FEATURES = set()


def still_unserved(address):
    """Whether ours still refuses each of OPERATIONS; says which it serves."""
    served = []
    for number, request in OPERATIONS.items():
        with zk.Connection(address) as connection:
            if connection.call(request)[0] != zk.ERRORS["UNIMPLEMENTED"]:
                served.append(zk.OP_NAMES[number])
    if served:
        print(f"served now, to be taken from test/compat/unserved.py: {' '.join(served)}")
    return not served
