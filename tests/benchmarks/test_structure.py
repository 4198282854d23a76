"""The measures of structure, on a small tree that was counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.structure import (
    aliases_modules,
    asks_for_a_kind,
    import_graph,
    longest_chain,
    names_a_service,
    names_offered,
    package_graph,
    read,
    typed_for_ours,
)

TREE = {
    "planner/__init__.py": '"""Doc."""\n',
    "planner/a/__init__.py": "",
    "planner/a/first.py": '"""Doc,\nof two lines."""\n\n# a comment\nfrom planner.a import second\n\nX = 1\n',
    "planner/a/second.py": (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from planner.b.third import Y\n\n\n"
        "def late(job, kinds):\n    from planner.b import third as other\n\n"
        "    return isinstance(job, (ServeJob, int))\n"
    ),
    "planner/b/__init__.py": "",
    "planner/b/third.py": "import json\n\nimport numpy as np\n\nservice_usd = 1\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree of six modules in two packages."""
    for name, text in TREE.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_lines_names_and_imports_of_a_small_tree(tree: Path) -> None:
    """`first` imports `second` when it is loaded, `second` imports `third` in a function and for types."""
    sources = {source.name: source for source in read(tree)}
    assert sources["planner.a.first"].lines_of_code == 2
    assert [name for name, source in sources.items() if names_a_service(source)] == ["planner.b.third"]
    assert [name for name, source in sources.items() if typed_for_ours(source)] == ["planner.a.second"]
    second = sources["planner.a.second"]
    assert sum(asks_for_a_kind(node) for node in second.nodes) == 1
    assert sum(aliases_modules(node, set(sources)) for node in second.nodes) == 1
    assert sum(aliases_modules(node, set(sources)) for node in sources["planner.b.third"].nodes) == 0
    top, late = (import_graph(list(sources.values()), each) for each in (False, True))
    assert top["planner.a.second"] == set()
    assert late["planner.a.second"] == {"planner.b", "planner.b.third"}
    assert longest_chain(top) == 2  # first, second
    assert longest_chain(late) == 3  # first, second, third
    assert package_graph(list(sources.values()), late) == {"a": {"b"}, "b": set()}


def test_a_circle_counts_as_one_module() -> None:
    """Of three that import each other in a circle and a fourth, the chain has two."""
    assert longest_chain({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": set()}) == 2


def test_a_door_may_offer_names_in_parts(tmp_path: Path) -> None:
    """A long tuple of names that is written as `*("a", "b")` is read like any other."""
    door = tmp_path / "planner" / "door" / "__init__.py"
    door.parent.mkdir(parents=True)
    door.write_text('_NAMES_BY_MODULE = {"planner.door.x": ("one", *("two", "three"))}\n')
    (source,) = read(tmp_path)
    assert names_offered(source) == ["one", "two", "three"]
