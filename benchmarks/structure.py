"""Measure the structure of the code: files, lines, imports, and what one solve runs through.

    python -m benchmarks.structure [--against COMMIT] [--json]

One definition for every column: `--against` measures the tree of another commit, too. Nothing is
imported from the trees but for the solve, which runs in a process of its own.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

JOB_KINDS = {"Job", "InferenceJob", "ServeJob", "OpenJob", "DefiniteJob"}
"""Classes of what is planned: a test for one of them is a place that a new kind has to be entered in."""

ALIASED_BY_CUSTOM = {"numpy", "pandas", "pyplot", "matplotlib.pyplot", "tests", "hypothesis.strategies"}

TRACED_SOLVE = """
import sys, json
from pathlib import Path
package = str(Path("planner").resolve())
entered, functions, depth, deepest = set(), set(), 0, 0
def watch(frame, event, argument):
    global depth, deepest
    code = frame.f_code
    if not code.co_filename.startswith(package) or code.co_name == "<module>":
        return
    if event == "call":
        entered.add(code.co_filename)
        functions.add((code.co_filename, code.co_firstlineno))
        depth += 1
        deepest = max(deepest, depth)
    elif event == "return":
        depth -= 1
from planner.cli import main
sys.argv = ["planner", "solve", "quickstart", "--as-of", "2026-11-21", "--json"]
sys.setprofile(watch)
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
print(json.dumps([len(entered), len(functions), deepest]), file=sys.stderr)
"""
"""Files and functions of ours that are called (classes and modules that are only loaded do not count)."""


@dataclass(frozen=True)
class Source:
    """One module of `planner/`."""

    name: str  # dotted
    path: Path
    text: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Return all nodes."""
        return list(ast.walk(self.tree))

    @property
    def package(self) -> str:
        """Return the package right below `planner`, or the module that lies there."""
        return ".".join(self.name.split(".")[1:2])

    @property
    def lines_of_code(self) -> int:
        """Return the lines without docstrings, comments and blank ones."""
        docstrings: set[int] = set()
        for node in self.nodes:
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                docstrings.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        skipped = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in skipped and token.string:
                lines.update(range(token.start[0], token.end[0] + 1))
        return len(lines - docstrings)

    @property
    def is_under_type_checking(self) -> set[ast.AST]:
        """Return the nodes that only a type checker reads."""
        found: set[ast.AST] = set()
        for node in self.nodes:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                found.update(ast.walk(node))
        return found

    def imports(self, late: bool) -> set[str]:
        """Return the dotted names that are imported when the module is loaded; `late`: inside functions, too."""
        nodes = self.nodes if late else list(_at_load(self.tree))
        typed, found = self.is_under_type_checking, set[str]()
        for node in nodes:
            if node in typed:
                continue
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.update(f"{node.module}.{alias.name}" for alias in node.names)
                found.add(node.module)
        return found


def _at_load(tree: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes that run when a module is loaded."""
    for child in ast.iter_child_nodes(tree):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _at_load(child)


def read(root: Path) -> list[Source]:
    """Return the modules of a tree."""
    found = []
    for path in sorted((root / "planner").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        text = path.read_text(encoding="utf-8")
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(Source(name, path, text, ast.parse(text)))
    return found


def import_graph(sources: list[Source], late: bool) -> dict[str, set[str]]:
    """Return the modules of ours that each one imports; a name that is no module counts as its module."""
    names = {source.name for source in sources}
    return {source.name: (source.imports(late) & names) - {source.name} for source in sources}


def longest_chain(graph: dict[str, set[str]]) -> int:
    """Return the modules of the longest chain of imports, each counted once; a circle counts as one module."""
    component, order = components(graph), dict[int, int]()
    size = Counter(component.values())
    below: dict[int, set[int]] = {number: set() for number in size}
    for name, others in graph.items():
        below[component[name]].update(component[other] for other in others)

    def length(number: int) -> int:
        if number not in order:
            order[number] = 1 + max((length(other) for other in below[number] if other != number), default=0)
        return order[number]

    return max(length(number) for number in size)


def components(graph: dict[str, set[str]]) -> dict[str, int]:
    """Return the number of the circle of imports that each module is part of, by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: dict[str, int] = {}

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in graph[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other not in found:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            number = len(set(found.values()))
            while True:
                member = stack.pop()
                found[member] = number
                if member == name:
                    break

    sys.setrecursionlimit(10_000)
    for name in graph:
        if name not in index:
            visit(name)
    return found


def package_graph(sources: list[Source], graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return the packages right below `planner` that each one imports; doors, which load on first use, are none."""
    of = {source.name: "" if names_offered(source) else source.package for source in sources}
    found: dict[str, set[str]] = {package: set() for package in of.values() if package}
    for name, others in graph.items():
        if of[name]:
            found[of[name]].update(of[other] for other in others if of[other] and of[other] != of[name])
    return found


def measure(root: Path) -> dict[str, int]:
    """Return the figures of a tree by what they count."""
    sources = read(root)
    names = {source.name for source in sources}
    nodes = [(source, node) for source in sources for node in source.nodes]
    top, late = import_graph(sources, late=False), import_graph(sources, late=True)
    named = Counter(source.path.name for source in sources if source.path.stem not in {"__init__", "__main__"})
    importers = Counter(other for others in late.values() for other in others)
    loops = [node.target for _, node in nodes if isinstance(node, (ast.For, ast.comprehension))]
    functions = [node for _, node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    entered, called, deepest = traced_solve(root)
    doors = [source for source in sources if source.package and names_offered(source)]
    return {
        "Python files": len(sources),
        "folders": len({source.path.parent for source in sources}),
        "lines of code": sum(source.lines_of_code for source in sources),
        "functions": len(functions),
        "modules with one importer": sum(count == 1 for count in importers.values()),
        "floors of packages": longest_chain(package_graph(sources, late)),
        "longest chain of imports": longest_chain(top),
        "longest chain, late imports too": longest_chain(late),
        "files that solve quickstart enters": entered,
        "functions that it calls": called,
        "frames of ours, at most": deepest,
        "packages that name a service": len({source.package for source in sources if names_a_service(source)}),
        "subjects behind a door": len(doors),
        "names that the doors offer": sum(len(names_offered(door)) for door in doors),
        "isinstance of a job kind": sum(asks_for_a_kind(node) for _, node in nodes),
        "file names used more than once": sum(count > 1 for count in named.values()),
        "loops over `one`": sum(isinstance(target, ast.Name) and target.id == "one" for target in loops),
        "loops": len(loops),
        "aliases of modules": sum(aliases_modules(node, names) for _, node in nodes),
        "TYPE_CHECKING blocks for our modules": sum(typed_for_ours(source) for source in sources),
        "imports inside functions": sum(imports_late(node) for node in functions),
    }


def names_a_service(source: Source) -> bool:
    """Return whether a name of the module (not its prose) speaks of a service; a managed one is another notion."""
    for node in source.nodes:
        word = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "name", None)
        if isinstance(word, str) and "service" in word.lower() and "managed" not in word.lower():
            return True
    return False


def names_offered(source: Source) -> list[str]:
    """Return the names that a package loads on first use, empty where it is no door."""
    tables = (
        node.value
        for node in source.tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_NAMES_BY_MODULE"
    )
    # A long tuple may be written in parts (`*("a", "b")`), which `ast.literal_eval` refuses.
    names = (name for table in tables if isinstance(table, ast.Dict) for name in ast.walk(ast.Tuple(table.values)))
    return [name.value for name in names if isinstance(name, ast.Constant) and isinstance(name.value, str)]


def asks_for_a_kind(node: ast.AST) -> bool:
    """Return whether a call asks for the kind of a job."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"):
        return False
    return any(isinstance(name, ast.Name) and name.id in JOB_KINDS for name in ast.walk(node.args[1]))


def aliases_modules(node: ast.AST, names: set[str]) -> int:
    """Return the modules that an import calls by another name, but for those that everybody does."""
    if isinstance(node, ast.Import):
        return sum(bool(alias.asname) and alias.name not in ALIASED_BY_CUSTOM for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        return sum(bool(alias.asname) and f"{node.module}.{alias.name}" in names for alias in node.names)
    return 0


def typed_for_ours(source: Source) -> bool:
    """Return whether modules of ours are imported for a type checker alone."""
    imports = [node for node in source.is_under_type_checking if isinstance(node, ast.ImportFrom)]
    return any((node.module or "").startswith("planner") for node in imports)


def imports_late(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the imports of our modules in the body of a function."""
    return sum(
        isinstance(node, ast.ImportFrom) and (node.module or "").startswith("planner") for node in ast.walk(function)
    )


def traced_solve(root: Path) -> list[int]:
    """Return the files and functions that `solve quickstart` calls, and how deep they are nested."""
    command = [sys.executable, "-c", TRACED_SOLVE]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    found: list[int] = json.loads(done.stderr.splitlines()[-1])
    return found


def tree_of(commit: str, folder: Path) -> Path:
    """Write the tree of a commit into a folder."""
    command = ["git", "-C", str(ROOT), "archive", commit]
    archive = subprocess.run(command, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return folder


def main() -> None:
    """Print the figures of the present tree, and those of another commit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="COMMIT", help="measure the tree of this commit, too")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    columns = {}
    if asked.against:
        with tempfile.TemporaryDirectory() as folder:
            columns[asked.against] = measure(tree_of(asked.against, Path(folder)))
    columns["now"] = measure(ROOT)
    if asked.json:
        print(json.dumps(columns, indent=2))
        return
    print(f"{'':38}" + "".join(f"{name:>14}" for name in columns))
    for row in columns["now"]:
        print(f"{row:38}" + "".join(f"{figures[row]:14,}" for figures in columns.values()))


if __name__ == "__main__":
    main()
