"""Where a config.json is found: a file, a folder, the cache of huggingface_hub, the Hub at one attempt."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner.catalogs.published_models import import_architecture
from planner.errors import InputError
from planner.library.reading import read_config
from tests.library.test_huggingface import CONFIGS, LLAMA

REPOSITORY = "some-lab/Own-8B"


def write(folder: Path, config: dict[str, Any] = LLAMA, name: str = "config.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(json.dumps(config))
    return path


def told(wanted: Any) -> str:
    with pytest.raises(InputError) as error:
        import_architecture(str(wanted))
    (fault,) = error.value.faults
    return str(fault)


def test_a_file_a_folder_and_a_folder_of_the_cache_are_the_same_model(tmp_path: Path) -> None:
    """Called by what they lie in; the cache says repository and commit, and so may the file."""
    write(tmp_path / "My-Model")
    cached = tmp_path / "hub" / "models--some-lab--Own-8B"
    write(cached / "snapshots" / "0123456789abcdef")
    for wanted, name, source in (
        (tmp_path / "My-Model", "my-model", "config.json of my-model"),
        (tmp_path / "My-Model" / "config.json", "my-model", "config.json of my-model"),
        (write(tmp_path, LLAMA, "mine.json"), "mine", "config.json of mine"),
        (cached, "own-8b", "config.json of some-lab/Own-8B, commit 0123456789ab"),
        (write(tmp_path / "x", {**LLAMA, "_name_or_path": "a/B"}), "b", "config.json of a/B"),
    ):
        card = import_architecture(str(wanted)).card
        assert (card.name, card.source, card.parameters) == (name, source, 8_030_261_248)
        assert card.aliases == (() if "/" not in source else (source.split()[2].rstrip(","),))
    assert import_architecture(str(cached), "called").card.name == "called"


MODELOPT = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}


def test_the_format_in_the_file_of_modelopt_is_that_of_the_weights(tmp_path: Path) -> None:
    """Engines read hf_quant_config.json next to config.json, by whatever path the model is named."""
    write(tmp_path, MODELOPT, "hf_quant_config.json")
    path = write(tmp_path)
    for card in (import_architecture(str(tmp_path)).card, import_architecture(str(path)).card, read_config(str(path))):
        assert (card.published, card.published_source) == (("fp8",), "hf_quant_config.json")
    assert read_config(str(write(tmp_path, LLAMA, "other.json"))).published == ("bf16",)  # no file that engines read
    own = write(tmp_path, {**LLAMA, "quantization_config": {"quant_method": "mxfp4"}})
    assert read_config(str(own)).published == ("mxfp4",)
    write(tmp_path)
    for algorithm, told_of in (("W4A16_NVFP4", "quant_algo W4A16_NVFP4 are loaded"), (None, None)):
        write(tmp_path, {"quantization": {"quant_algo": algorithm}}, "hf_quant_config.json")
        if told_of is None:
            assert read_config(str(path)).published == ("bf16",)
        else:
            assert f"{tmp_path / 'hf_quant_config.json'}:1: quantization: weights of {told_of}" in told(path)


def test_the_shipped_architecture_of_the_same_repository_is_named(tmp_path: Path) -> None:
    """So that nobody keeps a file that the program has."""
    path = write(tmp_path, {**CONFIGS["qwen2.5-0.5b"], "_name_or_path": "Qwen/Qwen2.5-0.5B"})
    assert import_architecture(str(path)).shipped == "qwen2.5-0.5b"
    assert import_architecture(str(write(tmp_path))).shipped is None


def test_a_folder_without_it_says_what_it_has_instead(tmp_path: Path) -> None:
    """An adapter, weights of another format, or nothing; a path that is none."""
    assert "has no config.json; give" in told(tmp_path)
    write(tmp_path, {}, "params.json")
    assert "params.json is of another format" in told(tmp_path)
    write(tmp_path, {}, "adapter_config.json")
    assert "it has an adapter's: import the base" in told(tmp_path)
    for missing in (tmp_path / "none.json", "./none", "a/b/c", "none.yaml"):
        assert "no such file or folder; give a config.json, a folder" in told(missing)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ":1: is empty"),
        ('{"model_type": "llama",', ":1: not JSON"),
        ("[]", ":1: the top of the file is not a mapping"),
        ('{\n"model_type": "llama",\n"hidden_size": -1,\n"num_attention_heads": 4}', ":3: hidden_size: -1 is out of"),
        ('{\n"text_config": {"model_type": "llama",\n"hidden_size": "x"}}', ":3: hidden_size: 'x' is out of"),
        ('{"model_type": "llama", "hidden_size": NaN}', ":1: hidden_size: nan is out of range or no number"),
        ("<html>429 Too Many Requests</html>", ":1: not JSON"),
    ],
)
def test_a_file_that_is_none_is_told_with_its_line(tmp_path: Path, text: str, expected: str) -> None:
    """Cut off, of something else, or with an odd value."""
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        import_architecture(str(path))
    assert any(str(fault).startswith(f"{path}{expected}") for fault in error.value.faults)


def test_without_the_package_a_repository_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert told(REPOSITORY) == (
        "some-lab/Own-8B: no such file or folder, and huggingface_hub, which fetches repositories, is not installed; "
        "pip install huggingface_hub, or download its config.json and give the path"
    )


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty cache of huggingface_hub."""
    pytest.importorskip("huggingface_hub")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    return tmp_path / "hub"


@pytest.fixture
def answers(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Answer the requests of huggingface_hub as the test says, and count them; nothing reaches the network."""
    hub = pytest.importorskip("huggingface_hub")
    http = pytest.importorskip(type(hub.get_session()).__module__.split(".")[0])
    said: dict[str, Any] = {"status": 200, "headers": {}, "content": b"", "error": None, "requests": 0, "formats": None}

    def answer(request: Any) -> Any:
        said["requests"] += request.url.path.endswith("/config.json")  # the package asks for things of its own too
        if request.url.path.endswith("/hf_quant_config.json"):
            found = said["formats"]
            missing = {} if found else {"x-error-code": "EntryNotFound"}
            return http.Response(200 if found else 404, headers=missing, content=found or b"", request=request)
        if said["error"]:
            raise http.ConnectError(said["error"], request=request)
        return http.Response(said["status"], headers=said["headers"], content=said["content"], request=request)

    hub.set_client_factory(lambda: http.Client(transport=http.MockTransport(answer), follow_redirects=True))
    yield said
    hub.utils._http._GLOBAL_CLIENT = None
    hub.set_client_factory(hub.utils._http.default_client_factory)


def test_a_repository_of_the_cache_needs_no_network(cache: Path, answers: dict[str, Any]) -> None:
    """Not even where there is one."""
    folder = cache / "models--some-lab--Own-8B"
    write(folder / "snapshots" / "0123456789abcdef")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("0123456789abcdef")
    found = import_architecture(REPOSITORY)
    assert found.card.source == "config.json of some-lab/Own-8B, commit 0123456789ab"
    assert answers["requests"] == 0


def test_a_repository_is_fetched_at_one_attempt(answers: dict[str, Any]) -> None:
    """The Hub says the commit."""
    answers |= {"content": json.dumps(LLAMA).encode(), "headers": {"x-repo-commit": "fedcba9876543210"}}
    card = import_architecture(REPOSITORY).card
    assert (card.name, card.aliases) == ("own-8b", (REPOSITORY,))
    assert card.source == "config.json of some-lab/Own-8B, commit fedcba987654"
    assert answers["requests"] == 1


def test_the_format_of_a_repository_may_be_in_the_file_of_modelopt(answers: dict[str, Any]) -> None:
    """It is asked for where config.json says none."""
    answers |= {"content": json.dumps(LLAMA).encode(), "formats": json.dumps(MODELOPT).encode()}
    assert import_architecture(REPOSITORY).card.published == ("fp8",)
    own = {**LLAMA, "quantization_config": {"quant_method": "mxfp4"}}
    answers |= {"content": json.dumps(own).encode(), "formats": b"not asked for"}
    assert import_architecture(REPOSITORY).card.published == ("mxfp4",)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"error": "Name or service not known"}, "the Hub cannot be reached: Name or service not known; try again"),
        ({"status": 500}, "the Hub cannot be reached: "),
        ({"status": 429}, "the Hub cannot be reached: "),
        ({"status": 401, "headers": {"x-error-code": "GatedRepo"}}, "the repository is gated; accept its terms"),
        ({"status": 404, "headers": {"x-error-code": "RepoNotFound"}}, "no such repository, or a private one"),
        ({"status": 404, "headers": {"x-error-code": "EntryNotFound"}}, "the repository has no config.json; an ada"),
        ({"content": b"<html>sign in</html>"}, "not JSON"),
        ({"content": b'{"model_type": "llama", "hid'}, "not JSON"),
    ],
)
def test_what_the_hub_answers_otherwise_is_one_message_at_once(
    answers: dict[str, Any], answer: dict[str, Any], expected: str
) -> None:
    """One request, never a traceback, and no waiting for a network that is not there."""
    answers |= answer
    message = told(REPOSITORY)
    assert expected in message and REPOSITORY in message
    assert answers["requests"] == 1


def test_offline_by_wish_and_a_name_that_is_none(
    cache: Path, answers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is asked."""
    assert "no name of a repository" in told("a--b/c..d")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert "not in the cache, and HF_HUB_OFFLINE is set; unset it" in told(REPOSITORY)
    assert answers["requests"] == 0


def test_an_infinite_number_that_nobody_asks_for_is_no_fault(tmp_path: Path) -> None:
    """Hybrids of Transformers write the limit of a time step as Infinity."""
    path = tmp_path / "config.json"
    stated = {**LLAMA, "time_step_limit": [0.0, float("inf")]}
    path.write_text(json.dumps(stated))
    assert "Infinity" in path.read_text()
    assert import_architecture(str(path)).card.parameters == 8_030_261_248
