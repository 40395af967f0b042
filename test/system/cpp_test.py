"""The C++ header (include/conclave/conclave.hpp): compiled, and run against a server as C++17 and C++20.

Promise: the header, each part of it by itself, and every C++ example of README.md and docs/ compile without a warning, by g++
and clang++ where they are there, in both standards; the cases of cpp_test.cpp pass in both.
Limits: one server, on loopback; skipped without a C++ compiler.

usage: cpp_test.py [NAME...]
"""

import glob
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))

import cases  # noqa: E402
import conclave  # noqa: E402

ROOT = conclave.ROOT
BUILD = os.path.abspath(os.environ.get("CONCLAVE_BUILD", os.path.join(ROOT, "build")))
STANDARDS = ("17", "20")
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c++", "-",
         "-I" + os.path.join(ROOT, "include"), "-I" + os.path.join(BUILD, "include")]


def compilers():
    return [name for name in ("g++", "clang++") if shutil.which(name)]


def compile_all(source):
    """Compiles a text by all compilers in both standards."""
    ways = 0
    for compiler in compilers():
        for standard in STANDARDS:
            run = subprocess.run([compiler, "-std=c++" + standard, *FLAGS], input=source, text=True, check=False,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            assert run.returncode == 0, f"{compiler}, C++{standard}:\n{source}\n{run.stdout[:8000]}"
            ways += 1
    return ways


def header():
    """The header alone, and twice."""
    return f"{compile_all('#include <conclave/conclave.hpp>' + chr(10) + '#include <conclave/conclave.hpp>' + chr(10))} ways"


def parts():
    """Each part compiles by itself."""
    names = sorted(glob.glob(os.path.join(ROOT, "include", "conclave", "cpp", "*.hpp")))
    for name in names:
        subprocess.run([compilers()[0], "-std=c++17", *FLAGS], check=True, text=True,
                       input=f"#include <conclave/cpp/{os.path.basename(name)}>\n")
    return f"{len(names)} parts"


def documented():
    """The examples of the pages: a block with main is a whole program; all others of a page are parts of one function after
    the other, where `client` is a client."""
    pages = [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))]
    count = 0
    for page in pages:
        with open(page, encoding="utf-8") as file:
            blocks = re.findall(r"^```cpp\n(.*?)^```$", file.read(), re.M | re.S)
        pieces = ""
        for block in blocks:
            count += 1
            if "int main(" in block:
                compile_all(block)
                continue
            # Classes and functions stay outside; statements get a function of their own.
            outside = re.match(r"(class|struct|conclave::task)\b", block)
            inside = f"[[maybe_unused]] static void part{count}(conclave::client &client)\n{{\n(void)client;\n{block}}}\n"
            pieces += f"#if !defined(CONCLAVE_HAS_COROUTINES)\n#else\n{block}#endif\n" if "co_await" in block else \
                block if outside else inside
        if pieces:
            compile_all("#include <conclave/conclave.hpp>\n#include <shared_mutex>\nusing namespace std::chrono_literals;\n"
                        + pieces)
    assert count >= 5, count
    return f"{count} examples"


def run_program(standard, names):
    """The cases in one standard."""
    program = os.path.join(BUILD, "test", "system", "cpp_test_" + standard)
    if not os.path.exists(program):
        raise cases.Skip("the build has no C++ compiler of the C compiler's kind")
    with conclave.Conclave(tick_ms=500) as server:
        run = subprocess.run([program, str(server.port), *names], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             check=False)
    print(run.stdout, end="", flush=True)
    counts = re.findall(r"^(\d+) passed, (\d+) failed$", run.stdout, re.M)
    assert run.returncode == 0 and counts, f"cpp_test_{standard} ended with {run.returncode}"
    return f"{counts[-1][0]} cases"


def cpp17():
    return run_program("17", sys.argv[1:])


def cpp20():
    return run_program("20", sys.argv[1:])


def main():
    why = conclave.why_missing() or (None if compilers() else "no g++ (Debian: g++)")
    if why:
        return cases.skip_all(why)
    return cases.run([cpp17, cpp20] if sys.argv[1:] else [cpp17, cpp20, header, parts, documented])


if __name__ == "__main__":
    sys.exit(main())
