"""The house: who may import whom, which package stays behind which door, and what must stay quick."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "planner"

ROOMS: dict[str, tuple[str, ...]] = {
    # room: the modules in it (a folder stands for all of its files, a star for any ending)
    "words": ("units", "errors", "scalars", "texts", "durations"),
    "documents": ("documents", "overrides", "ranges"),
    "fields": ("fields",),
    "wording": ("wording", "sources", "paths"),
    "scenario": ("scenario", "jobs", "amounts", "workflow", "offers", "payments", "spot_statistics", "configuration"),
    "library": ("library",),
    "loading": ("loading", "cards", "inventories", "references", "requests", "wishes", "closest"),
    "inventory": ("inventory",),
    "logs": ("logs",),
    "estimates": ("estimates",),
    "spot": ("spot",),
    "table": ("table",),
    "candidates": (
        "recipes",
        "setups",
        "hardware",
        "grid",
        "batches",
        "observed",
        "observations",
        "seen",
        "peaks",
        "ways",
        "running",
        "spreads",
        "terms",
        "markets",
        "offer_columns",
        "candidates",
        "screening",
        "stage_hours",
        "placements",
        "managed",
        "spot_curves",
        "spot_search",
    ),
    "formulation": ("formulation", "dominance"),
    "solvers": ("solvers",),
    "plan": (
        "plan",
        "plan_parts",
        "htmltable",
        "contrast",
        "frontiers",
        "comparisons",
        "explanations",
        "estimation",
        "pilots",
        "replays",
        "fits",
    ),
    "decode": ("decode", "details", "chances", "bills", "remarks", "vram"),
    "audit": ("audit", "audit_*"),
    "uses": (
        "solving",
        "choosing",
        "measure",
        "alternatives",
        "diagnosis",
        "elastic",
        "widening",
        "loosening",
        "trials",
        "nearest",
        "nextsteps",
        "now",
        "slopes",
        "roomier",
        "ranking",
        "hindrances",
        "envelope",
        "envelope_sum",
        "coupling",
        "pareto",
        "tracing",
        "sensitivity",
        "passed_over",
        "sweeps",
        "tornados",
        "explaining",
        "whynot",
        "estimating",
        "configuring",
        "remedies",
        "preparing",
        "calibrating",
        "simulating",
        "courses",
        "market_paths",
        "replaying",
        "outcomes",
        "telling",
        "advising",
        "market_fitting",
    ),
    "report": ("report",),
    "cli": ("cli", "__main__"),
}

INPUT = ("words", "documents", "fields", "wording", "scenario", "library")
PHYSICS = ("words", "estimates", "spot", "scenario", "library", "table", "candidates")
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "words": (),
    "documents": ("words", "wording"),
    "fields": ("words",),
    "wording": ("words", "documents", "fields"),
    "scenario": ("words", "fields"),
    "library": ("words", "fields"),
    "loading": (*INPUT, "inventory", "plan"),
    "inventory": ("words", "documents", "library", "scenario", "estimates"),
    "logs": ("words",),
    "estimates": ("words",),
    "spot": ("words", "estimates"),
    "table": ("words",),
    "candidates": PHYSICS,
    "formulation": ("words", "table"),
    "solvers": ("words", "formulation"),
    "plan": ("words",),
    "decode": (*PHYSICS, "formulation", "plan"),
    "audit": (*PHYSICS, "plan"),
    "uses": (*PHYSICS, "documents", "loading", "logs", "formulation", "solvers", "plan", "decode", "audit"),
    "report": ("words", "scenario", "library", "plan"),
    "cli": tuple(room for room in ROOMS if room not in ("estimates", "formulation", "cli")),
}

DOORS = {  # third-party package: the only modules that may import it
    "ortools": ("planner.solvers.mathopt",),
    "pulp": ("planner.solvers.pulp_cbc",),
    "yaml": ("planner.documents",),
    "click": ("planner.cli",),
    "matplotlib": ("planner.report.plotting",),
}

SLOW = ("ortools", "pulp", "numpy", "pydantic", "yaml", "pandas", "matplotlib")


def modules() -> Iterator[tuple[str, ast.Module]]:
    """Every module with its syntax tree; `planner/__init__.py`, the sign on the door, left out."""
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name != "planner":
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names that a tree imports anywhere, inside functions too; what only types need is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
            if node.module == "planner":
                yield from (f"planner.{alias.name}" for alias in node.names)
        else:
            yield from imports(node)


def room_of(module: str) -> str | None:
    """The room of `planner.estimates.fit` is `estimates`; None where nobody has given it one."""
    second = module.split(".")[1]
    return next((room for room, members in ROOMS.items() if any(fnmatch(second, m) for m in members)), None)


def test_every_module_has_a_room() -> None:
    """A new module must be put into the picture before anything can be said about its imports."""
    homeless = [name for name, _ in modules() if room_of(name) is None]
    assert not homeless, f"give {homeless} a room in ROOMS, and tell CONTRIBUTING.md about it"


def test_imports_point_one_way() -> None:
    """No room fetches something from a room that it must not know."""
    wrong = []
    for name, tree in modules():
        room = room_of(name)
        for target in imports(tree):
            if not target.startswith("planner.") or room is None:
                continue
            other = room_of(target)
            if other != room and other not in MAY_IMPORT[room]:
                wrong.append(f"{name} imports {target}: {room} must not know {other}")
    assert not wrong, "\n".join(wrong)


def test_the_picture_of_rooms_has_no_way_back() -> None:
    """Only `documents` and `wording` lean on one another; every other pair of rooms has one direction."""
    back = {
        frozenset((room, other))
        for room, others in MAY_IMPORT.items()
        for other in others
        if other != room and room in MAY_IMPORT[other]
    }
    assert back <= {frozenset(("documents", "wording"))}


@pytest.mark.parametrize("package", sorted(DOORS))
def test_third_party_packages_stay_behind_their_door(package: str) -> None:
    """A package that may be replaced one day is imported in one place."""
    users = {name for name, tree in modules() for target in imports(tree) if target.split(".")[0] == package}
    strangers = {user for user in users if not user.startswith(DOORS[package])}
    assert not strangers, f"{package} belongs behind {DOORS[package]}"
    assert users, f"nothing imports {package}: is its door still {DOORS[package]}?"


def test_help_waits_for_nothing_slow() -> None:
    """Importing the command line loads neither solvers nor numpy nor pydantic, so that --help is instant."""
    code = f"import sys, planner.cli; print([name for name in {SLOW!r} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_only_report_and_command_line_print() -> None:
    """Rooms below hand back values; whoever calls them from Python gets no text on standard output."""
    loud = [
        f"{name}:{node.lineno}"
        for name, tree in modules()
        if room_of(name) not in ("report", "cli")
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.stdout.write")
    ]
    assert not loud


def test_public_names_are_there() -> None:
    """Each name that `planner` announces can be had, and none is loaded before it is asked for."""
    import planner

    for name in planner.__all__:
        assert getattr(planner, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'sovle'"):
        planner.sovle  # noqa: B018
