"""The file format and its traps: what the YAML door reads, refuses, and with which line."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planner.documents.files import MAX_DEPTH, parse_document, parse_value, read_document, read_shipped
from planner.errors import Fault, InputError
from tests.helpers.scenarios import json_text


def refused(text: str) -> tuple[Fault, ...]:
    with pytest.raises(InputError) as caught:
        parse_document(text, "a.yaml")
    return caught.value.faults


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("1e6", 1_000_000.0),
        ("1.0e6", 1_000_000.0),
        ("90e6", 90_000_000.0),
        (".5", 0.5),
        ("-3", -3),
        ("0o17", 15),
        ("0x1F", 31),
        ("12:30", "12:30"),
        ("1_000", "1_000"),
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("Norway", "Norway"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("'1e6'", "1e6"),
        ('"true"', "true"),
        ("2024-05-31", "2024-05-31"),
    ],
)
def test_a_scalar_means_what_yaml_1_2_says(text: str, meaning: object) -> None:
    """Numbers without a dot are numbers, and only true and false are booleans."""
    value = parse_document(f"key: {text}\n", "a.yaml").data["key"]
    assert value == meaning
    assert type(value) is type(meaning)


def test_keys_are_always_text() -> None:
    """`no`, `1` and `null` as keys stay words."""
    assert parse_document("no: 1\n1: 2\nnull: 3\n", "a.yaml").data == {"no": 1, "1": 2, "null": 3}


def test_every_place_has_its_line() -> None:
    """Keys, list items and what is missing are found on the line a reader would look at."""
    document = parse_document("a: 1\nb:\n  - x: 1\n    y:\n      2\n  - {x: 3}\n", "a.yaml")
    assert document.line(("a",)) == 1
    assert document.line(("b", 0, "y")) == 4
    assert document.line(("b", 1, "x")) == 6
    assert document.line(("b", 1, "missing")) == 6
    assert document.line(()) == 1


def test_repeated_keys_are_all_faults_with_both_lines() -> None:
    """No repeated key wins silently, and every one is reported."""
    faults = refused("a: 1\nb: {c: 1, c: 2}\na: 2\n")
    assert [(f.line, f.where) for f in faults] == [(2, "b.c"), (3, "a")]
    assert "first on line 1" in faults[1].what


def test_aliases_are_written_out() -> None:
    """A plain alias is a convenience that works."""
    assert parse_document("a: &x [1, 2]\nb: *x\n", "a.yaml").data == {"a": [1, 2], "b": [1, 2]}


def test_aliases_that_explode_are_refused() -> None:
    """Nine lines that stand for 10^9 values are refused before they fill the memory."""
    names = "abcdefghi"
    lines = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"{n}: &{n} [{', '.join([f'*{m}'] * 10)}]" for m, n in itertools.pairwise(names)]
    (fault,) = refused("\n".join(lines))
    assert "aliases" in fault.what
    assert fault.line == 6


def test_aliases_cannot_deepen_what_is_read() -> None:
    """A chain of aliases, each one level deeper, meets the bound on nesting."""
    lines = ["a0: &a0 [1]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, MAX_DEPTH + 10)]
    (fault,) = refused("\n".join(lines))
    assert "nested deeper" in fault.what


def test_an_alias_inside_what_it_names_is_refused() -> None:
    """Data that contains itself has no plain form."""
    (fault,) = refused("a: &a [1, *a]\n")
    assert "*a refers to a value that contains it" in fault.what


@pytest.mark.parametrize("opening", ["[", "{a: "])
@pytest.mark.parametrize("depth", [MAX_DEPTH, 200_000])
def test_deep_nesting_is_a_fault_and_no_crash(opening: str, depth: int) -> None:
    """Neither our stack nor the parser's is at the mercy of the input."""
    faults = refused("key: " + opening * depth)
    assert any("nested deeper" in fault.what for fault in faults)


def test_nesting_up_to_the_bound_is_read() -> None:
    """The bound itself is allowed: the mapping on top counts as one."""
    depth = MAX_DEPTH - 1
    assert parse_document("key: " + "[" * depth + "]" * depth, "a.yaml").data["key"]


def test_a_file_of_100_mb_is_refused_before_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size is looked at first, so a large file costs nothing."""
    path = tmp_path / "large.yaml"
    with open(path, "wb") as stream:
        stream.truncate(100_000_000)
    monkeypatch.setattr("builtins.open", None)
    with pytest.raises(InputError, match="100 MB"):
        read_document(path)


def test_text_that_is_not_utf_8_names_the_line(tmp_path: Path) -> None:
    """A file saved in another encoding says where the first foreign byte lies."""
    path = tmp_path / "latin.yaml"
    path.write_bytes("a: 1\nb: café\n".encode("latin-1"))
    with pytest.raises(InputError) as caught:
        read_document(path)
    (fault,) = caught.value.faults
    assert (fault.line, "0xe9" in fault.what, "UTF-8" in fault.fix) == (2, True, True)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    """Editors that write a mark are forgiven."""
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfname: x\n")
    assert read_document(path).data == {"name": "x"}


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n"])
def test_an_empty_file_is_a_fault(text: str) -> None:
    """Nothing at all is said to be nothing at all."""
    (fault,) = refused(text)
    assert "empty" in fault.what


@pytest.mark.parametrize(("text", "what"), [("- 1\n", "a list"), ("just text\n", "a single value")])
def test_the_top_must_be_a_mapping(text: str, what: str) -> None:
    """A list or a lone word is no document of ours."""
    assert what in refused(text)[0].what


def test_a_tab_is_named_as_such() -> None:
    """The classic invisible fault is told by its name, with its line."""
    (fault,) = refused("a: 1\nb:\n\tc: 1\n")
    assert (fault.line, "tab" in fault.what) == (3, True)


def test_a_syntax_error_keeps_its_line_and_the_faults_before_it() -> None:
    """What was found before the parser gave up is reported too."""
    faults = refused("a: 1\na: 2\nb: [1\nc: 3\n")
    assert [fault.line for fault in faults] == [2, 4]
    assert "not YAML" in faults[1].what


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: !!python/object:os.system x\n", "tag"),
        ("a: !mine {b: 1}\n", "tag"),
        ("? [1, 2]\n: 3\n", "used as a key"),
        ("a: &x {b: 1}\nc:\n  <<: *x\n", "merge keys"),
        ("a: 1\n---\nb: 2\n", "second document"),
        ("a: \x01\n", "control character"),
        ("a: *nothing\n", "has no anchor above it"),
        (f"a: {'9' * 5000}\n", "5000 digits"),
        ("a: \ud800\n", "surrogate"),
    ],
)
def test_what_a_plain_document_does_not_need_is_refused(text: str, what: str) -> None:
    """Tags, collections as keys, merge keys, several documents and the like are faults, never surprises."""
    assert any(what in fault.what for fault in refused(text))


@pytest.mark.parametrize("name", ["missing.yaml", ".", "nul\0.yaml"])
def test_a_path_that_cannot_be_read_is_a_fault(tmp_path: Path, name: str) -> None:
    """A missing file, a folder and an impossible name are told alike."""
    with pytest.raises(InputError, match="cannot be read"):
        read_document(f"{tmp_path}/{name}")


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
    | st.sampled_from(["1e6", "12:30", "no", "null", "~", "", " x", "- a", "a: b", "0x1", "'", '"', "é\n\n b"]),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(max_size=8), inside, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@settings(max_examples=200, derandomize=True, deadline=None)
@given(plain)
@example({"<<": "<<"})
def test_json_reads_back_the_same(data: object) -> None:
    """JSON is YAML: reading it changes no value and no type, whatever the text looks like."""
    again = parse_value(json_text({"key": data}), "a.yaml")["key"]
    assert repr(again) == repr(data)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.text(max_size=80) | st.text(alphabet="a1:-[]{}&*!|>'\"%@,#? \n\t", max_size=60))
def test_garbage_raises_nothing_but_input_errors(text: str) -> None:
    """Any text is either read or refused with a fault that names the file."""
    try:
        parse_document(text, "a.yaml")
    except InputError as error:
        assert error.faults
        assert all(fault.file == "a.yaml" and fault.what for fault in error.faults)


def test_a_shipped_file_is_parsed_once_until_its_text_changes(tmp_path: Path) -> None:
    """Size and time of a change do not matter: the text decides."""
    path = tmp_path / "card.yaml"
    path.write_text("a: 1")
    first = read_shipped(path)
    assert read_shipped(path) is first
    path.write_text("a: 2")
    assert (first.data, read_shipped(path).data) == ({"a": 1}, {"a": 2})
