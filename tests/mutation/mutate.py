#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-only
"""Does some test fail for whatever may be wrong in the engine?

Breaks one operator, constant or statement of the engine (of all but wire.c) after the other (a mutant), and runs the
unit tests, and for what survives them some runs of the simulator. What survives these too must be in
tests/mutation/survivors, with the reason why it does no harm; otherwise this fails. So it does for an entry there that
is no mutant any more. A mutant that is compiled to the same code is none.

Which mutants there are, and which N of them SEED stands for, depends on the sources only.
"""
import argparse
import concurrent.futures
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "mutation"
TESTS = ROOT / "tests" / "unit" / "reliability"
SURVIVORS = Path(__file__).parent / "survivors"

ENGINE = ["ack", "congestion", "conn", "credit", "loss", "receive", "rtt", "send", "timer", "wire"]
MUTATED = ["loss.c", "send.c", "ack.c", "rtt.c", "receive.c", "credit.c", "congestion.c", "conn.c", "timer.c", "engine.h",
           "bits.h", "seq.h"]    # of wire.c a fuzzer knows what is right
KINDS = ["compare", "boolean", "arithmetic", "constant", "statement"]

# What looks at an inline function itself is compiled anew with a mutant of a header.
HEADER_TESTS = {"bits.h": ["test_bits"], "seq.h": ["test_seq"]}

# Traps instead of reports: undefined behaviour ends a test, but needs no library.
C_FLAGS = ["-std=gnu11", "-O1", "-w", "-fsanitize=undefined", "-fsanitize=bounds-strict",
           "-fsanitize-undefined-trap-on-error"]
CXX_FLAGS = ["-std=c++20", "-O1", "-w"]
# In order of what they cost: packet by packet, and at random. wire.c is not mutated.
LONG = "ack_policy.*:credit.*:hostile.*:loss_recovery.*:test_pair.*"
STAGES = [
    ("unit", [f"--gtest_filter=-wire*:{LONG}", "--gtest_fail_fast"], {}),
    ("random", [f"--gtest_filter={LONG}", "--gtest_fail_fast"], {"IBRELK_SEEDS": "400"}),
]
LIMIT_S = 20    # of processor time; many times what it takes
LIMIT_BYTES = 1 << 30


class Mutant:
    def __init__(self, file, kind, line, before, after, text):
        self.file, self.kind, self.line = file, kind, line
        self.before, self.after, self.text = before, after, text
        self.end = None     # what caught it

    def __str__(self):
        return f"{self.file}:{self.line}: {self.before}  ->  {self.after}"

    def key(self):
        return self.file, self.before, self.after


def blank(source):
    """The source with everything that is no code replaced by spaces, so that places stay what they are."""
    def spaces(match):
        return re.sub(r"[^\n]", " ", match.group())

    source = re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', spaces, source, flags=re.S)
    # Of the preprocessor, only the constants are code.
    source = re.sub(r"^#(?!define\s+[A-Z_]+\s+\d)[^\n]*", spaces, source, flags=re.M)
    source = re.sub(r"^#define\s+[A-Z_]+", spaces, source, flags=re.M)
    # Kinds of integers, and what is asserted.
    source = re.sub(r"\b[us](?:8|16|32|64)\b", spaces, source)
    return re.sub(r"rel_assert\([^;{]*\)(?=\))", spaces, source)


def closing(code, at):
    """Where the parenthesis that opens at @at closes."""
    depth = 0
    for i in range(at, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if not depth:
            return i
    raise ValueError("unbalanced")


COMPARE = {"<": ["<=", ">="], "<=": ["<", ">"], ">": [">=", "<="], ">=": [">", "<"], "==": ["!="], "!=": ["=="]}
SEQ = {"rel_seq_before(": ["!rel_seq_before(", "!rel_seq_after("],
       "!rel_seq_before(": ["rel_seq_before(", "rel_seq_after("],
       "rel_seq_after(": ["!rel_seq_after(", "!rel_seq_before("],
       "!rel_seq_after(": ["rel_seq_after(", "rel_seq_before("]}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&",
              "+=": "-=", "-=": "+=", "*=": "/=", "&=": "|=", "|=": "&=", "^=": "|="}


def changes(code):
    """All (kind, from, to, replacement) of some code, in the order of places."""
    found = []

    def add(kind, match, replacement, group=0):
        found.append((kind, match.start(group), match.end(group), replacement))

    for match in re.finditer(r"(?<= )(<=|>=|==|!=|<|>)(?= )", code):
        for other in COMPARE[match.group()]:
            add("compare", match, other)
    for match in re.finditer(r"!?rel_seq_(?:before|after)\((?! )", code):
        for other in SEQ[match.group()]:
            add("compare", match, other)
    for match in re.finditer(r"(?<= )(&&|\|\|)(?= |\n)", code):
        add("boolean", match, "||" if match.group() == "&&" else "&&")
    for match in re.finditer(r"!(?!=|rel_seq_)", code):
        add("boolean", match, "")
    for match in re.finditer(r"\b(true|false)\b", code):
        add("boolean", match, "false" if match.group() == "true" else "true")
    for match in re.finditer(r"\b(?:if|while) (\()", code):
        end = closing(code, match.start(1))
        found.append(("boolean", match.start(1), end + 1, ("negate", match.start(1), end + 1)))
    for match in re.finditer(r"(?<= )(<<|>>|[-+*/%&|])(?= |\n)|(?<= )[-+*&|^]=(?= )", code):
        add("arithmetic", match, ARITHMETIC[match.group()])
    for match in re.finditer(r"\+\+|--", code):
        add("arithmetic", match, "--" if match.group() == "++" else "++")
    for match in re.finditer(r"~", code):
        add("arithmetic", match, "")
    for match in re.finditer(r"\b(min|max)(?=(_t)?\()", code):
        add("arithmetic", match, "max" if match.group() == "min" else "min")
    for match in re.finditer(r"(?<![\w.])(0x[0-9a-f]+|\d+)(?=(u|ull)?\b)", code):
        value = int(match.group(), 0)
        add("constant", match, str(value + 1))
        if value:
            add("constant", match, str(value - 1))
    statement = r"[^\s(]+ [-+*&|^]?= [^;\n]*;|\w+\([^;\n]*\);|[^\s(]+(?:\+\+|--);|return;"
    for match in re.finditer(rf"^\t+({statement})$", code, re.M):
        add("statement", match, ";", 1)
    return sorted(found, key=lambda change: (change[1], change[2], str(change[3])))


def plain(line):
    """As it is told and listed: without comments."""
    return " ".join(re.sub(r"/\*.*", "", line).split())


def mutants_of(file):
    source = (ROOT / "kernel" / "reliability" / file).read_text()
    code = blank(source)
    lines = [line for line in map(plain, source.splitlines()) if line]
    mutants = []
    for kind, start, end, replacement in changes(code):
        if isinstance(replacement, tuple):
            replacement = f"(!{source[start:end]})"
        text = source[:start] + replacement + source[end:]
        number = source.count("\n", 0, start)
        line_start = source.rfind("\n", 0, start) + 1
        line_end = source.find("\n", end)
        before = plain(source[line_start:line_end])
        after = plain(source[line_start:start] + replacement + source[end:line_end])
        # A line that is there twice is told with those before it.
        above = [line for line in map(plain, source[:line_start].splitlines()) if line]
        at, more = len(above), 0
        while sum(lines[i - more:i + 1] == lines[at - more:at + 1] for i in range(more, len(lines))) > 1:
            more += 1
        before, after = (" ".join([*lines[at - more:at], line]) for line in (before, after))
        mutants.append(Mutant(file, kind, number + 1, before, after, text))
    return mutants


def survivors_read():
    """Entries: "FILE: why", then "- line" and "+ what becomes of it", as often as it is for the same reason."""
    table = {}
    file = before = None
    for number, line in enumerate(SURVIVORS.read_text().splitlines(), 1):
        entry = re.match(r"(\w+\.[ch]): ", line)
        if line.startswith("- "):
            before = line[2:]
        elif line.startswith("+ ") and file and before:
            table[file, before, line[2:]] = number
        elif entry:
            file, before = entry.group(1), None
        elif line and not line.startswith("#"):
            sys.exit(f"{SURVIVORS}:{number}: {line}")
    return table


def survivors_check(table):
    """Ends with what no mutant is: nobody knows whether its reason is one for what the line has become."""
    keys = {mutant.key() for file in MUTATED for mutant in mutants_of(file)}
    stale = [f"{SURVIVORS}:{number}: no mutant of {key[0]} is this: {key[2]}" for key, number in table.items()
             if key not in keys]
    if stale:
        sys.exit("\n".join(stale))


def run(command, **arguments):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          **arguments)


def must(command, **arguments):
    done = run(command, **arguments)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


class Worker:
    """A copy of kernel/ to break, and what was built of it."""

    def __init__(self, number, simulator_runs):
        self.folder = BUILD / f"worker-{number}"
        self.kernel = self.folder / "kernel"
        self.engine = self.kernel / "reliability"
        self.runs = simulator_runs
        self.simulator = None
        shutil.rmtree(self.kernel, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.copytree(ROOT / "kernel", self.kernel, ignore=shutil.ignore_patterns("*.o"))
        self.objects = {}
        for name in ENGINE:
            if not self.compile(name):
                sys.exit(f"{name}.c does not compile")
            self.objects[name] = (self.folder / f"{name}.o").read_bytes()

    def compile(self, name):
        """Compiles one file of the engine, where the copies are: objects of the same code are the same."""
        return run(["gcc", *C_FLAGS, "-I.", f"-I{ROOT}/tests/unit", "-c", f"{name}.c", "-o", self.folder / f"{name}.o"],
                   cwd=self.engine).returncode == 0

    def compile_test(self, name):
        return run(["g++", *CXX_FLAGS, f"-I{self.engine}", f"-I{ROOT}/tests/unit", "-c", TESTS / f"{name}.cpp", "-o",
                    self.folder / f"{name}.o"]).returncode == 0

    def link(self, own):
        tests = [self.folder / f"{test.stem}.o" if test.stem in own else BUILD / f"{test.stem}.o"
                 for test in sorted(TESTS.glob("test_*.cpp")) if test.stem != "test_wire"]
        must(["g++", *tests, *(self.folder / f"{name}.o" for name in ENGINE), "-lgtest_main", "-lgtest", "-lpthread",
              "-o", self.folder / "test"])

    def judge(self, mutant, listed):
        path = self.engine / mutant.file
        original = path.read_text()
        path.write_text(mutant.text)
        names = ENGINE if mutant.file.endswith(".h") else [mutant.file[:-2]]
        try:
            return self.judge_changed(mutant, names, listed)
        finally:
            path.write_text(original)
            for name in names:
                (self.folder / f"{name}.o").write_bytes(self.objects[name])

    def judge_changed(self, mutant, names, listed):
        if not all([self.compile(name) for name in names]):
            return "does not compile"
        changed = any((self.folder / f"{name}.o").read_bytes() != self.objects[name] for name in names)
        end = self.test([]) if changed else None
        own = HEADER_TESTS.get(mutant.file)
        if not end and own:
            if not all([self.compile_test(name) for name in own]):
                return "does not compile"
            end = self.test(own)
        elif not changed:
            return "same code"
        return end if end or listed or not self.runs else self.simulate()

    def test(self, own):
        """What of the unit tests fails, if anything does."""
        self.link(own)
        for name, arguments, environment in STAGES:
            done = run(["prlimit", f"--cpu={LIMIT_S}", f"--as={LIMIT_BYTES}", self.folder / "test", *arguments],
                       cwd=self.folder, env={**os.environ, **environment})
            if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
                return f"{name}: endless"
            if done.returncode:
                failed = re.search(r"\[  FAILED  \] (\S+)", done.stdout) or re.search(
                    r"(?s:.*)\[ RUN      \] (\S+)", done.stdout)
                return f"{name}: {failed.group(1) if failed else done.returncode}"
        return None

    def simulate(self):
        build = self.folder / "sim"
        if not self.simulator:
            must(["cmake", "-S", ROOT / "tests" / "sim", "-B", build, "-G", "Ninja",
                  f"-DIBRELK_SIM_KERNEL={self.kernel}"])
            self.simulator = build / "ibrelk-sim"
        if run(["cmake", "--build", build, "--target", "ibrelk-sim", "-j1"]).returncode:
            return "does not compile"
        # Which has limits of its own.
        done = run([self.simulator, "--seed", "1", "--runs", str(self.runs), "--no-shrink"])
        failed = re.search(r"^seed \d+ FAILED: .*", done.stdout, re.M)
        return f"sim: {failed.group()}" if failed else f"sim: {done.returncode}" if done.returncode else None


def tests_build(jobs):
    BUILD.mkdir(parents=True, exist_ok=True)
    engine = ROOT / "kernel" / "reliability"
    shared = [*engine.glob("*.h"), *TESTS.glob("*.hpp"), *TESTS.parent.glob("*.h*"), Path(__file__)]

    def build(source):
        target = BUILD / f"{source.stem}.o"
        newest = max(path.stat().st_mtime for path in [source, *shared])
        if not target.exists() or target.stat().st_mtime < newest:
            must(["g++", *CXX_FLAGS, f"-I{engine}", f"-I{TESTS.parent}", "-c", source, "-o", target])

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        list(pool.map(build, [test for test in TESTS.glob("test_*.cpp") if test.stem != "test_wire"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=0, help="so many mutants, drawn by the seed; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--files", default=",".join(MUTATED), help="of these files (default: %(default)s)")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of these kinds (default: %(default)s)")
    parser.add_argument("--only", default="", help="whose changed line, or the one before, contains this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--sim-runs", type=int, default=150, help="runs of the simulator for what survives; 0: none")
    parser.add_argument("--list", action="store_true", help="say which mutants there are, and do nothing")
    parser.add_argument("--verbose", action="store_true", help="say what caught each mutant")
    options = parser.parse_args()

    table = survivors_read()
    survivors_check(table)
    mutants = [mutant for file in options.files.split(",") for mutant in mutants_of(file)
               if mutant.kind in options.kinds.split(",") and options.only in f"{mutant.before}\n{mutant.after}"]
    if options.count and options.count < len(mutants):
        chosen = set(random.Random(options.seed).sample(range(len(mutants)), options.count))
        mutants = [mutant for i, mutant in enumerate(mutants) if i in chosen]
    if options.list:
        for mutant in mutants:
            print(f"{mutant.kind:10} {mutant}")
        print(f"{len(mutants)} mutants")
        return 0

    began = time.monotonic()
    tests_build(options.jobs)
    workers = [Worker(i, options.sim_runs) for i in range(options.jobs)]
    free, lock = list(workers), threading.Lock()

    # A test that fails without any change would catch everything.
    workers[0].link([])
    for name, arguments, environment in STAGES:
        must([workers[0].folder / "test", *arguments], env={**os.environ, **environment}, cwd=workers[0].folder)

    def judge(mutant):
        with lock:
            worker = free.pop()
        try:
            mutant.end = worker.judge(mutant, mutant.key() in table)
        finally:
            with lock:
                free.append(worker)
        if options.verbose:
            print(f"{mutant}: {mutant.end or 'SURVIVES'}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(judge, mutants))

    good = bad = 0
    print(f"{'':14} {'mutants':>8} {'none':>6} {'unit':>6} {'random':>6} {'sim':>6} {'listed':>7} {'survive':>8}")
    for file in options.files.split(","):
        row = dict.fromkeys(["none", "unit", "random", "sim", "listed", "survive"], 0)
        for mutant in (mutant for mutant in mutants if mutant.file == file):
            if mutant.end in ("same code", "does not compile"):
                row["none"] += 1
            elif mutant.end:
                row[mutant.end.split(":")[0]] += 1
            else:
                row["listed" if mutant.key() in table else "survive"] += 1
        print(f"{file:14} {sum(row.values()):8} {row['none']:6} {row['unit']:6} {row['random']:6} {row['sim']:6} "
              f"{row['listed']:7} {row['survive']:8}")
        good += sum(row.values()) - row["none"] - row["survive"]
        bad += row["survive"]
    for mutant in mutants:
        if mutant.end and mutant.key() in table:
            print(f"need not be listed: {mutant}: {mutant.end}")
    for mutant in mutants:
        if not mutant.end and mutant.key() not in table:
            print(f"survives: {mutant}")
    print(f"(took {time.monotonic() - began:.0f} s)")
    print(f"{good} passed, {bad} failed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
