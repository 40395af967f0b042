"""The C++ header (include/conclave/conclave.hpp): compiled, and run against a server as C++17 and C++20.

Promise: the header, its parts in both orders, every *_INIT macro of the C headers and every C++ example of README.md and
docs/ compile without a warning, by g++ and clang++ where they are there, in both standards; the cases of cpp_test.cpp pass in
both.
Limits: one server, on loopback; skipped without a C++ compiler.

usage: cpp_test.py [NAME...]
"""

import concurrent.futures
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
OPTIONS = ["--fencing.enabled", "yes", "--maxSessionTimeout", "60000"]
FLAGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-x", "c++", "-",
         "-I" + os.path.join(ROOT, "include"), "-I" + os.path.join(BUILD, "include")]


def compilers():
    return [name for name in ("g++", "clang++") if shutil.which(name)]


def compile_one(compiler, standard, source):
    run = subprocess.run([compiler, "-std=c++" + standard, *FLAGS], input=source, text=True, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert run.returncode == 0, f"{compiler}, C++{standard}:\n{run.stdout[:8000]}"


def parts(backwards):
    """Includes of all parts, and of the whole at last. A part that uses what only another one includes fails in one of the
    orders."""
    names = sorted(glob.glob(os.path.join(ROOT, "include", "conclave", "cpp", "*.hpp")), reverse=backwards)
    return "".join(f"#include <conclave/cpp/{os.path.basename(name)}>\n" for name in names) + \
        "#include <conclave/conclave.hpp>\n#include <conclave/conclave.h>\n"


def macros():
    """A use of each macro that begins a struct."""
    names = []
    for name in sorted(glob.glob(os.path.join(ROOT, "include", "conclave", "*.h"))):
        with open(name, encoding="utf-8") as file:
            names += re.findall(r"^#define (CONCLAVE_\w+_INIT)\b(?!\()", file.read(), re.M)
    assert len(names) >= 40, names
    return "".join(f"[[maybe_unused]] static const auto macro{i} = {name};\n" for i, name in enumerate(names)), len(names)


def examples():
    """The examples of the pages. A block with main is a whole program; all others of a page are parts of one function after
    the other, where `client` is a client."""
    pieces = []
    for page in [os.path.join(ROOT, "README.md"), *sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))]:
        with open(page, encoding="utf-8") as file:
            for block in re.findall(r"^```cpp\n(.*?)^```$", file.read(), re.M | re.S):
                number = len(pieces)
                if "int main(" in block:
                    pieces.append(re.sub(r"\}\n\Z", "return 0;\n}\n", block.replace("int main(", f"int main{number}(")))
                elif "co_await" in block:
                    pieces.append(f"#ifdef CONCLAVE_HAS_COROUTINES\n{block}#endif\n")
                elif re.match(r"(class|struct)\b", block):
                    pieces.append(block)
                else:
                    pieces.append(f"[[maybe_unused]] static void part{number}(conclave::client &client)\n"
                                  f"{{\n(void)client;\n{block}}}\n")
    assert len(pieces) >= 5, pieces
    return "#include <shared_mutex>\nusing namespace std::chrono_literals;\n" + "".join(pieces), len(pieces)


def compiled():
    """One text per compiler and standard, two at a time."""
    (uses, macro_count), (pages, example_count) = macros(), examples()
    ways = [(compiler, standard) for compiler in compilers() for standard in STANDARDS]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        done = [pool.submit(compile_one, *way, parts(i % 2 == 0) + uses + pages) for i, way in enumerate(ways)]
    for each in done:
        each.result()
    return f"{len(ways)} ways, {macro_count} macros, {example_count} examples"


def run_program(standard, names):
    """The cases in one standard."""
    program = os.path.join(BUILD, "test", "system", "cpp_test_" + standard)
    if not os.path.exists(program):
        raise cases.Skip("the build has no C++ compiler of the C compiler's kind")
    with conclave.Conclave(OPTIONS, tick_ms=500) as server:
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
    return cases.run([cpp17, cpp20] if sys.argv[1:] else [cpp17, cpp20, compiled])


if __name__ == "__main__":
    sys.exit(main())
