"""What Apache ZooKeeper 3.8 serves and Conclave does not: the one list that the suites of this folder leave out.

Promise: `still_unserved` fails as soon as an entry is served, so that the list cannot outlive its reason.
"""

import zkwire as zk

# Operations that ours answers UNIMPLEMENTED, with a request to ask for.
OPERATIONS = {
    zk.CHECK_WATCHES: zk.check_watches("/x", 1),
    zk.REMOVE_WATCHES: zk.check_watches("/x", 1, zk.REMOVE_WATCHES),
    zk.MULTI_READ: zk.multi([], zk.MULTI_READ),
    zk.GET_EPHEMERALS: zk.get_ephemerals("/"),
    zk.GET_ALL_CHILDREN_NUMBER: zk.get_all_children_number("/"),
    zk.SET_WATCHES2: zk.set_watches(0, persistent=[]),
    zk.ADD_WATCH: zk.add_watch("/x", 0),
}

# Features without an operation of their own.
QUOTA_STATS = "the counts of a subtree with a quota (/zookeeper/quota/.../zookeeper_stats)"
FEATURES = {QUOTA_STATS}


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
