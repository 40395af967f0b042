"""What the clients of takeover_load.py wrote down, compared with the tree that the servers show: the verdict of takeover_test.py.

Promise: names each acknowledged write that is lost or was done twice, each session that expired or changed, each holder
whose node or czxid changed, two holders at once, each watch that did not fire, and what a client itself found wrong.
Limits: a write whose answer was lost may be done once or not at all. Call it while the clients rest. Needs no server.
"""

import bisect
import dataclasses


@dataclasses.dataclass
class Tree:
    """What the servers show below /load."""

    appended: dict  # {client: [name of a child, VALUE-NUMBER]}
    counters: dict  # {client: (version, data)}
    ephemeral: dict  # {client: session that owns its node}
    groups: dict  # {path: {name of a child: (czxid, session)}}


class Client:
    """One client's own account."""

    def __init__(self):
        self.session = None
        self.appended = {}  # {value: name}
        self.unknown = set()  # values
        self.counted = 0  # the version that it knows last
        self.uncertain = 0  # its counter may have this version, too
        self.times = []  # of acknowledged writes, ns
        self.connects = []  # ns
        self.seen = -1  # version of its changing node
        self.armed = set()
        self.fired = []
        self.wrong = []


class Check:
    """Takes the lines of all clients with `take`; `problems` compares what they tell with a Tree."""

    def __init__(self):
        self.clients = {}
        self.holders = {}  # {path: (client, name, czxid)}
        self.held = {}  # {path: [client]}: all that ever held

    def take(self, line):
        """A line: NANOSECONDS CLIENT EVENT WORD..."""
        at, name, event, *words = line.split()
        client = self.clients.setdefault(name, Client())
        getattr(self, "_" + event.replace("-", "_"))(name, client, int(at), *words)

    def _session(self, _name, client, _at, session):
        if client.session not in (None, int(session, 16)):
            client.wrong.append(f"has another session, {session}, before {client.session:#x}")
        client.session = int(session, 16)

    def _connected(self, _name, client, at):
        client.connects.append(at)

    def _expired(self, _name, client, _at):
        client.wrong.append("its session has expired")

    def _problem(self, _name, client, _at, *text):
        client.wrong.append(" ".join(text))

    def _appended(self, _name, client, at, value, name):
        client.appended[int(value)] = name
        client.times.append(at)

    def _append_unknown(self, _name, client, _at, value):
        client.unknown.add(int(value))

    def _counted(self, _name, client, at, version):
        if int(version) != client.counted + 1:
            client.wrong.append(f"its counter went from version {client.counted} to {version}")
        client.counted = int(version)
        client.times.append(at)

    def _count_unknown(self, _name, client, _at, version):
        client.uncertain = int(version)

    def _counter_read(self, _name, client, _at, version):
        if int(version) not in (client.counted, client.uncertain):
            client.wrong.append(f"its counter has version {version}, not {client.counted} or {client.uncertain}")
        client.counted = int(version)

    def _seen(self, _name, client, _at, version):
        client.seen = int(version)

    def _armed(self, _name, client, _at, number):
        client.armed.add(int(number))

    def _fired(self, _name, client, _at, number):
        client.fired.append(int(number))

    def _holds(self, name, client, _at, path, node, czxid):
        if path in self.holders:
            client.wrong.append(f"holds {path} while {self.holders[path][0]} holds it")
        self.holders[path] = (name, node, int(czxid, 16))
        self.held.setdefault(path, []).append(name)

    def _released(self, name, client, _at, path):
        if self.holders.pop(path, (None,))[0] != name:
            client.wrong.append(f"released {path}, which it does not hold")

    # --- the verdict ---------------------------------------------------------------------------

    def problems(self, tree, rounds=(), changes=None):
        """A text for each thing that is wrong. rounds: numbers whose nodes exist; changes: times each changing node was set."""
        found = []
        for name, client in sorted(self.clients.items()):
            wrong = list(client.wrong)
            wrong += _appends(client, tree.appended.get(name, []))
            wrong += _counter(client, tree.counters.get(name))
            if tree.ephemeral.get(name) != client.session:
                wrong.append(f"its ephemeral node belongs to {tree.ephemeral.get(name)}, not to {client.session}")
            wrong += self._watches(client, rounds, changes)
            found += [f"{name}: {text}" for text in wrong]
        return found + self._groups(tree)

    @staticmethod
    def _watches(client, rounds, changes):
        wrong = []
        for number in rounds:
            if number in client.armed and client.fired.count(number) != 1:
                wrong.append(f"its watch of round {number} fired {client.fired.count(number)} times")
        if changes is not None and client.seen != changes:
            wrong.append(f"saw version {client.seen} of its changing node last, not {changes}")
        return wrong

    def _groups(self, tree):
        wrong = []
        for path, (name, node, czxid) in sorted(self.holders.items()):
            have = tree.groups.get(path, {}).get(node)
            session = self.clients[name].session
            if have is None:
                wrong.append(f"{name}: its node {path}/{node} is gone, but it holds")
            elif have != (czxid, session):
                wrong.append(f"{name}: its node {path}/{node} has czxid {have[0]:#x} and owner {have[1]:#x}, "
                             f"not {czxid:#x} and {session:#x}")
        return wrong

    # --- measurements --------------------------------------------------------------------------

    def writes(self):
        """How many were acknowledged."""
        return sum(len(client.times) for client in self.clients.values())

    def unknown(self):
        """How many appended values had no answer."""
        return sum(len(client.unknown) for client in self.clients.values())

    def pauses(self, begin, end, kind=""):
        """For each client whose name begins so, the longest time in ms without an acknowledged write that touches the time from
        begin to end (ns); ascending."""
        return sorted(longest_gap(client.times, begin, end) / 1e6 for name, client in self.clients.items() if name.startswith(kind))

    def first_writes(self, begin, end, kind=""):
        """From each time that a client was connected between begin and end (ns), the ms to its next acknowledged write; ascending."""
        return sorted((client.times[bisect.bisect_right(client.times, at)] - at) / 1e6
                      for name, client in self.clients.items() if name.startswith(kind)
                      for at in client.connects if begin <= at <= end and at < client.times[-1])

    def silence(self, begin, end):
        """The longest time in ms in which no client's write was acknowledged."""
        return longest_gap(sorted(at for client in self.clients.values() for at in client.times), begin, end) / 1e6


def longest_gap(times, begin, end):
    """Of the gaps between neighbours in these ascending times, the longest that touches begin to end."""
    first = max(bisect.bisect_right(times, begin) - 1, 0)
    last = bisect.bisect_left(times, end)
    near = times[first:last + 1]
    return max((b - a for a, b in zip(near, near[1:])), default=end - begin)


def _appends(client, names):
    wrong = []
    by_value, numbers = {}, []
    for name in names:
        value, _, number = name.partition("-")
        by_value.setdefault(int(value), []).append(name)
        numbers.append((int(number), int(value)))
    for value, have in sorted(by_value.items()):
        if len(have) > 1:
            wrong.append(f"value {value} was appended twice: {' '.join(have)}")
        elif value not in client.appended and value not in client.unknown:
            wrong.append(f"value {value} is there, but was not sent: {have[0]}")
    for value, name in sorted(client.appended.items()):
        if value not in by_value:
            wrong.append(f"acknowledged value {value} ({name}) is lost")
        elif name not in by_value[value]:
            wrong.append(f"value {value} was acknowledged as {name}, but is {by_value[value][0]}")
    numbers.sort()
    if [number for number, _ in numbers] != list(range(len(numbers))):
        wrong.append(f"the numbers of its {len(numbers)} nodes end with {numbers[-1][0]}: not one after the other")
    if [value for _, value in numbers] != sorted(value for _, value in numbers):
        wrong.append("its values are not in the order in which it wrote them")
    return wrong


def _counter(client, have):
    if have is None:
        return ["its counter is gone"]
    version, data = have
    if version != client.counted or data != str(version).encode():
        return [f"its counter has version {version} and data {data!r}, but it has counted to {client.counted}"]
    return []
