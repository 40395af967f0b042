#!/usr/bin/env python3
"""The check of takeover_test.py finds each planted fault: lost and double writes, changed holders, expired sessions, lost watches.

Promise: and nothing in an account without a fault. Needs no server.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
from takeover_check import Check, Tree  # noqa: E402

GOOD = """\
1 k0 session 0x10
2 k0 appended 1 1-0000000000
3 k0 counted 1
4 k0 append-unknown 2
5 k0 appended 3 3-0000000001
6 k0 count-unknown 2
7 k0 counter-read 2
8 k0 seen 4
9 k0 armed 0
10 k0 fired 0
11 k0 holds /load/groups/k0 lock-1 0x77
12 k1 session 0x11
13 k1 appended 1 1-0000000000
14 k1 seen 4"""


def good_tree():
    return Tree(appended={"k0": ["1-0000000000", "3-0000000001"], "k1": ["1-0000000000"]},
                counters={"k0": (2, b"2"), "k1": (0, b"0")}, ephemeral={"k0": 0x10, "k1": 0x11},
                groups={"/load/groups/k0": {"lock-1": (0x77, 0x10), "lock-2": (0x78, 0x11)}})


def problems(lines=GOOD, **changed):
    check = Check()
    for line in lines.splitlines():
        check.take(line)
    tree = good_tree()
    for field, (key, value) in changed.items():
        getattr(tree, field)[key] = value
    return check.problems(tree, rounds=[0], changes=4)


def finds(word, *args, **changed):
    found = problems(*args, **changed)
    assert any(word in text for text in found), (word, found)


def test_finds_nothing_in_order():
    assert problems() == [], problems()
    both = problems(appended=("k0", ["1-0000000000", "3-0000000001", "2-0000000002"]))
    assert len(both) == 1 and "order" in both[0], both  # the unknown one may be there, but not behind the next


def test_measures_each_kind():
    check = Check()
    for line in ("1000000 k0 session 0x10", "2000000 k0 appended 1 1-0000000000", "9000000 k0 connected",
                 "12000000 k0 appended 2 2-0000000001", "3000000 c0 appended 1 1-0000000000", "7000000 c0 appended 2 2-0000000001"):
        check.take(line)
    assert check.pauses(2500000, 10**9) == [4, 10], check.pauses(2500000, 10**9)
    assert check.pauses(2500000, 10**9, "k") == [10]
    assert check.first_writes(2500000, 10**9) == [3]
    assert check.silence(2500000, 10**9) == 5


def test_finds_lost_writes():
    finds("acknowledged value 3", appended=("k0", ["1-0000000000"]))
    finds("acknowledged value 1", appended=("k1", []))
    finds("counted to 2", counters=("k0", (1, b"1")))
    finds("its counter is gone", counters=("k0", None))
    finds("acknowledged as", appended=("k1", ["1-0000000001"]))


def test_finds_double_writes():
    finds("appended twice", appended=("k1", ["1-0000000000", "1-0000000001"]))
    finds("appended twice", appended=("k0", ["1-0000000000", "2-0000000001", "2-0000000002", "3-0000000003"]))
    finds("was not sent", appended=("k1", ["1-0000000000", "2-0000000001"]))
    finds("counted to 2", counters=("k0", (3, b"3")))
    finds("from version 2 to 4", GOOD + "\n20 k0 counted 4")
    finds("has version 5", GOOD + "\n20 k0 counter-read 5")


def test_finds_gaps_in_numbers():
    finds("one after the other", appended=("k0", ["1-0000000000", "3-0000000005"]))


def test_finds_changed_holders():
    finds("czxid", groups=("/load/groups/k0", {"lock-1": (0x79, 0x10)}))
    finds("owner", groups=("/load/groups/k0", {"lock-1": (0x77, 0x12)}))
    finds("is gone", groups=("/load/groups/k0", {"lock-2": (0x78, 0x11)}))
    finds("while k0 holds it", GOOD + "\n20 k1 holds /load/groups/k0 lock-2 0x78")
    finds("does not hold", GOOD + "\n20 k1 released /load/groups/k1")


def test_finds_sessions():
    finds("has expired", GOOD + "\n20 k1 expired")
    finds("another session", GOOD + "\n20 k1 session 0x12")
    finds("ephemeral", ephemeral=("k1", 0x10))


def test_finds_watches():
    finds("fired 0 times", GOOD.replace("10 k0 fired 0\n", ""))
    finds("fired 2 times", GOOD + "\n20 k0 fired 0")
    finds("saw version 3", GOOD + "\n20 k0 seen 3")


def test_measures_pauses():
    check = Check()
    for at in (0, 100, 900, 1000, 5000):
        check.take(f"{at * 1000000} k0 counted {len(check.clients['k0'].times) + 1 if check.clients else 1}")
    check.take("500000000 k1 counted 1")
    check.take("600000000 k1 counted 2")
    assert check.pauses(200 * 10**6, 800 * 10**6) == [100, 800], check.pauses(200 * 10**6, 800 * 10**6)
    assert check.pauses(950 * 10**6, 980 * 10**6)[1] == 100
    assert check.silence(200 * 10**6, 800 * 10**6) == 400


if __name__ == "__main__":
    sys.exit(cases.run(cases.named("test_", globals()), sys.argv[1:]))
