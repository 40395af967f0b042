#!/usr/bin/env python3
"""tools/check-abi: it finds each change of a library that breaks programs, and lets pass what only adds.

Promise: a small library with public headers is built, recorded, changed and compared. Every change is one case, with the exit code
and a word of the line that names it. The description of the last release can be read, and the built libconclave.so keeps to it.
Limits: needs a C compiler and Debian's abigail-tools.

usage: abi_test.py [NAME...]
"""

import os
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import conclave  # noqa: E402

TOOL = os.path.join(conclave.ROOT, "tools", "check-abi")
BUILD = os.path.abspath(os.environ.get("CONCLAVE_BUILD", os.path.join(conclave.ROOT, "build")))

HEADER = """
#include <stddef.h>
#include <stdint.h>
#define API __attribute__((visibility("default")))
struct conclave_thing;
enum conclave_kind { CONCLAVE_ONE, CONCLAVE_TWO };
struct conclave_pair { int64_t first; int64_t reserved[2]; };
struct conclave_options { size_t size; const char *path; struct conclave_pair pair; int64_t count; int8_t last; };
struct conclave_view { enum conclave_kind kind; const struct conclave_view *const *parts; size_t count; int8_t last; };
typedef void (*conclave_fn)(struct conclave_thing *thing, const struct conclave_view *view, void *ctx);
API int conclave_open(const struct conclave_options *options, conclave_fn fn, struct conclave_thing **ret);
API int conclave_set(struct conclave_thing *thing, int32_t value);
"""
SOURCE = """
struct conclave_thing { int value; };
int conclave_open(const struct conclave_options *options, conclave_fn fn, struct conclave_thing **ret)
{ (void)fn; (void)ret; return (int)options->count; }
"""
SET = "int conclave_set(struct conclave_thing *thing, int32_t value) { thing->value = value; return 0; }\n"

# name: (what is replaced, by what, the exit code, a word of the answer)
CHANGES = {
    "nothing": ("", "", 0, "as in the last release"),
    "function_added": (SET, SET + "API int conclave_more(void);\nint conclave_more(void) { return 1; }\n", 0,
                       "conclave_more"),
    "function_removed": (SET, "", 1, "conclave_set: this function is gone"),
    "parameter_changed": ("int32_t value)", "int64_t value)", 1, "conclave_set: was"),
    "callback_changed": ("*view, void *ctx", "*view, int why, void *ctx", 1, "conclave_open: was"),
    "sized_struct_grown": ("int8_t last; };\nstruct conclave_view", "int8_t last; int64_t more; };\nstruct conclave_view", 0,
                           "conclave_options.more"),
    "sized_struct_grown_within_its_size": ("int8_t last; };\nstruct conclave_view",
                                           "int8_t last, more; };\nstruct conclave_view", 1, "the new member more"),
    "returned_struct_grown": ("int8_t last; };\ntypedef", "int8_t last, more; int64_t most; };\ntypedef", 0,
                              "conclave_view.more"),
    "member_inserted": ("const char *path;", "int64_t more; const char *path;", 1, "member path was at byte 8, is at 16"),
    "member_removed": ("size_t count; int8_t", "int8_t", 1, "member count is gone"),
    "member_of_another_type": ("size_t count; int8_t last", "void *count; int8_t last", 1, "member count was 'unsigned long'"),
    "contained_struct_grown": ("reserved[2]; };", "reserved[2]; int64_t more; };", 1, "keep its size"),
    "reserve_used": ("reserved[2];", "second; int64_t reserved[1];", 0, "conclave_pair.second"),
    "enumerator_added": ("CONCLAVE_TWO }", "CONCLAVE_TWO, CONCLAVE_THREE }", 0, "CONCLAVE_THREE"),
    "enumerator_moved": ("CONCLAVE_ONE, CONCLAVE_TWO", "CONCLAVE_TWO, CONCLAVE_ONE", 1, "CONCLAVE_ONE was 0"),
    "inside_changed": ("{ int value; }", "{ int value; int64_t more; }", 0, "as in the last release"),
}


def library(folder, name, replaced="", by=""):
    """Builds it; check-abi finds public headers by their folder."""
    include = os.path.join(folder, name, "include", "conclave")
    os.makedirs(include)
    source = os.path.join(folder, name, "thing.c")
    header, code = HEADER, '#include "include/conclave/thing.h"\n' + SOURCE + SET
    if replaced and replaced in HEADER + code:
        header, code = header.replace(replaced, by), code.replace(replaced, by)
    elif replaced:
        raise AssertionError(f"the library does not contain {replaced!r}")
    for path, text in ((os.path.join(include, "thing.h"), header), (source, code)):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    built = os.path.join(folder, name, "libconclave.so")
    subprocess.run(["cc", "-g", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,-soname,libconclave.so.0", "-o",
                    built, source], check=True)
    return built


def check(*words):
    run = subprocess.run([sys.executable, "-B", TOOL, *words], capture_output=True, text=True)
    return run.returncode, run.stdout + run.stderr


def change_case(folder, baseline, name):
    replaced, by, code, words = CHANGES[name]

    def case():
        got = check("--library", library(folder, name, replaced, by), "--baseline", baseline)
        assert got[0] == code and words.lower() in got[1].lower(), got
    case.__name__ = name
    return case


def test_this_library():
    """The description of the last release is about this library, or the check says what differs."""
    code, text = check("--build", BUILD)
    assert code == 0, text
    return text.strip()


def test_without_abidw():
    run = subprocess.run([sys.executable, "-B", TOOL], capture_output=True, text=True, env={"PATH": "/nonexistent"})
    assert run.returncode == 0 and "skipped" in run.stdout and "abigail-tools" in run.stdout, run


def main():
    if not shutil.which("abidw"):
        return cases.skip_all("there is no abidw (Debian: abigail-tools)")
    folder = tempfile.mkdtemp()
    try:
        baseline = os.path.join(folder, "baseline.abi")
        code, text = check("--library", library(folder, "recorded"), "--baseline", baseline, "--record")
        assert code == 0, text
        todo = [change_case(folder, baseline, name) for name in CHANGES] + [test_this_library, test_without_abidw]
        return cases.run(todo, sys.argv[1:])
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
