#!/usr/bin/env python3
"""`conclave users` and `conclave secret`: the files that servers authenticate by.

Promise: the commands write whole, private files as requested; a failed command changes nothing. The prompt
for a password shows nothing of it. Limits: security_test.py tests how servers use the file.

usage: users_test.py [CASE...]
"""

import os
import pty
import select
import stat
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
from conclave import program, why_missing  # noqa: E402

PATIENCE_S = 60
OK, FAILED, USAGE, IO = 0, 1, 64, 74


def run(*words, code=OK, text="", out=subprocess.PIPE):
    done = subprocess.run([program(), *words], stdout=out, stderr=subprocess.PIPE, text=True, input=text, check=False,
                          timeout=PATIENCE_S)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stderr if code else done.stdout


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def users(path):
    return run("users", "list", path).split()


def test_users_come_and_go():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "users")
        run("users", "add", path, "anna", text="one\n")
        run("users", "add", path, "otto", text="two")
        assert users(path) == ["anna", "otto"] and stat.S_IMODE(os.stat(path).st_mode) == 0o600
        lines = read(path).splitlines()
        write(path, "# who may come in\n\n" + "\n".join(lines))  # without a newline at the end
        os.chmod(path, 0o600)
        run("users", "add", path, "anna", text="three\n")
        after = read(path).splitlines()
        assert after[:3] == ["# who may come in", "", lines[1]] and after[3].startswith("anna:$scrypt$"), after
        assert after[3] != lines[0] and users(path) == ["otto", "anna"]
        assert "there is no user ann" in run("users", "remove", path, "ann", code=FAILED)
        run("users", "remove", path, "otto")
        assert users(path) == ["anna"] and "# who may come in" in read(path)
        run("users", "remove", path, "anna")
        assert users(path) == []
        assert os.listdir(folder) == ["users"], "nothing is left beside it"


def test_passwords():
    with tempfile.TemporaryDirectory() as folder:
        path, secret = os.path.join(folder, "users"), os.path.join(folder, "secret")
        for text in ("", "\n", "\r\n"):
            assert "the password is empty" in run("users", "add", path, "anna", text=text, code=USAGE)
        # One that would be cut off could never be given again.
        assert "too long" in run("users", "add", path, "anna", text="x" * 1023 + "\n", code=USAGE)
        assert "too long" in run("users", "add", path, "anna", text="x" * 5000, code=USAGE)
        assert not os.path.exists(path)
        run("users", "add", path, "anna", text="x" * 1022 + "\n")
        write(secret, "from a file\nnot this\n")
        run("users", "add", path, "otto", "--password-file", secret, text="nor this\n")
        assert users(path) == ["anna", "otto"]
        assert secret + "x" in run("users", "add", path, "eve", "--password-file", secret + "x", code=IO)
        write(secret, "")
        assert "empty" in run("users", "add", path, "eve", "--password-file", secret, code=USAGE)
        assert users(path) == ["anna", "otto"]


def test_the_prompt_hides_the_password():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "users")
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(program(), [program(), "users", "add", path, "anna"])
        shown = b""
        typed = False
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.1)[0]:
                try:
                    part = os.read(terminal, 4096)
                except OSError:
                    break
                if not part:
                    break
                shown += part
            if b"Password of anna: " in shown and not typed:
                typed = True
                time.sleep(0.2)  # it empties its input when it hides
                os.write(terminal, b"sesame\n")
        os.close(terminal)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown
        assert b"sesame" not in shown and users(path) == ["anna"], shown


def test_what_cannot_be_done_changes_nothing():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "users")
        for name in ("", "a b", "a:b", "#a", "a\tb"):
            assert "cannot be a user" in run("users", "add", path, name, text="x\n", code=USAGE)
        for words, text in ((["add", path], "too few arguments: conclave users add FILE NAME"), (["remove", path], "too few"),
                            (["list", path, "anna"], "an argument too many"),
                            (["change", path, "anna"], "is none of add, remove and list")):
            assert text in run("users", *words, code=USAGE), words
        for verb in (["list"], ["remove", "anna"]):
            assert "No such file" in run("users", verb[0], path, *verb[1:], code=IO)
        run("users", "add", path, "anna", text="x\n")
        good = read(path)
        write(path, good + "otto:in clear\n")
        for words in (["list", path], ["add", path, "eve"], ["remove", path, "anna"]):
            assert f"{path} line 2: " in run("users", *words, text="x\n", code=IO)
        assert read(path) == good + "otto:in clear\n"
        assert "larger than 1 MiB" in run("users", "list", "/dev/zero", code=IO)
        assert "cannot be read" in run("users", "list", folder, code=IO)
        nowhere = os.path.join(folder, "none", "users")
        assert nowhere in run("users", "add", nowhere, "anna", text="x\n", code=IO)
        write(path, good)
        with open("/dev/full", "w", encoding="ascii") as full:
            run("users", "list", path, code=IO, out=full)


def test_secrets():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "secret")
        assert len({run("secret") for _ in range(3)}) == 3
        run("secret", path)
        first = read(path)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600 and len(first.strip()) >= 32, first
        assert path in run("secret", path, code=IO), "a secret in use is not replaced"
        assert read(path) == first
        with open("/dev/full", "w", encoding="ascii") as full:
            run("secret", code=IO, out=full)


def main():
    if why_missing():
        return cases.skip_all(why_missing())
    return cases.run(cases.named("test_", globals()), sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
