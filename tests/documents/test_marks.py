"""Lines of values, found when a fault asks for them."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from planner.documents.files import Marks, find_marks, parse_document

KEYS = st.text(alphabet="abcdefgh_", min_size=1, max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(KEYS, inside, max_size=4),
    max_leaves=20,
)


def composed(node: Any, line: int) -> Marks:
    """Return the marks of a node that PyYAML composed; a value of a mapping is on the line of its key."""
    if isinstance(node, yaml.MappingNode):
        return Marks(line, {key.value: composed(value, key.start_mark.line + 1) for key, value in node.value})
    if isinstance(node, yaml.SequenceNode):
        return Marks(line, {at: composed(one, one.start_mark.line + 1) for at, one in enumerate(node.value)})
    return Marks(line)


@given(data=st.dictionaries(KEYS, VALUES, min_size=1, max_size=4), flow=st.booleans())
def test_every_value_has_the_line_that_pyyaml_gives_it(data: dict[str, Any], flow: bool) -> None:
    """Whatever is nested, in blocks or on one line."""
    text = "# first\n" + yaml.safe_dump(data, default_flow_style=flow, width=30)
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    assert find_marks(text) == composed(node, node.start_mark.line + 1)


def test_an_alias_stands_on_its_own_line_and_its_values_on_theirs() -> None:
    """A fault in what is written out names the line where it was written."""
    text = "a: &shared\n  b: 1\n  c: [2,\n    3]\nd: *shared\n"
    document = parse_document(text, "a.yaml")
    assert [document.line(path) for path in [("a",), ("a", "c", 1), ("d",), ("d", "b"), ("e",)]] == [1, 4, 5, 2, 1]
