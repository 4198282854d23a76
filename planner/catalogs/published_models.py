"""What others publish of models: the config.json of one, and dollars per million tokens of hosted ones, from litellm.

A config.json is a file, one in a folder, or that of a repository on the Hugging Face Hub.

The price file of litellm (`model_prices_and_context_window.json`, key: a model as litellm calls it) has dollars per
token, numbers only. Its entries have no date, so the date of its release is given. A price of 0 means that it is not
known, or a free tier, and is no price to plan with. Prices of long contexts, images and cached tokens are not read.
"""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.catalogs.skypilot import LeftOut
from planner.documents.files import MAX_BYTES
from planner.documents.tables import JsonDocument, first_faults, parse_json, read_json
from planner.errors import Fault, InputError, format_value
from planner.library.names import provider_name
from planner.library.reading import (
    CONFIG,
    CONFIG_WANTED,
    MODELOPT_FILE,
    MODELOPT_WANTED,
    CardNames,
    config_architecture,
    formats_next_to,
)
from planner.library.schema import Architecture

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping

_REPOSITORY = re.compile(r"(?:[\w.-]+/)?[\w.-]+", re.ASCII)
_CACHED_FOLDER = re.compile(r"models--(?P<owner>[^/]+?)--(?P<name>[^/]+)")
"""A repository in the cache of huggingface_hub: its files are in snapshots/COMMIT."""
_DOWNLOAD = "or download its config.json and give the path"
WAIT_SECONDS = 10.0
"""Longest wait for an answer of the Hub; huggingface_hub itself would try for 23 s without a network."""


@dataclass(frozen=True)
class FoundConfig:
    """A config.json, the repository that it is of, and the commit; empty where neither is known."""

    document: JsonDocument
    repository: str = ""
    commit: str = ""
    formats: JsonDocument | None = None
    """ModelOpt's file with the format of the weights."""


@dataclass(frozen=True)
class ImportedArchitecture:
    """An architecture that was read from a config.json, and the shipped one of the same repository."""

    card: Architecture
    shipped: str | None


def import_architecture(wanted: str, name: str | None = None) -> ImportedArchitecture:
    """Return the architecture of a config.json, of the folder that has one, or of a repository.

    `name`: what to call it (None: the last part of the repository's name, else the folder's).
    Raises `InputError` where there is none, where it cannot be fetched, and with what the estimates do not know.
    """
    found = find_config(wanted)
    config = found.document.data if isinstance(found.document.data, dict) else {}
    stated = str(config.get("_name_or_path") or "")
    repository = found.repository or (stated if re.fullmatch(r"[\w.-]+/[\w.-]+", stated, re.ASCII) else "")
    card = config_architecture(found.document, name or _short_name(repository or wanted), found.formats)
    commit = f", commit {found.commit[:12]}" if found.commit else ""
    origin = f"{CONFIG} of {repository or card.name}{commit}"
    names = CardNames("architectures")
    shipped = names.by_alias.get(repository.casefold()) if repository else None
    return ImportedArchitecture(
        card.model_copy(update={"source": origin, "aliases": (repository,) if repository else ()}), shipped
    )


def _short_name(wanted: str) -> str:
    path = Path(wanted).absolute()
    last = path.parent.name if path.name == CONFIG else path.name.removesuffix(".json")
    cached = _CACHED_FOLDER.fullmatch(last)
    return (cached["name"] if cached else last).casefold() or "model"


def find_config(wanted: str) -> FoundConfig:
    """Return the config.json that a path or the name of a repository means; `InputError` where there is none."""
    path = Path(wanted).expanduser()
    if wanted == "-" or os.path.isfile(path):
        return _with_origin(path)
    if os.path.isdir(path):
        return _with_origin(_in_folder(path))
    if not _REPOSITORY.fullmatch(wanted) or wanted.startswith(".") or wanted.endswith((".json", ".yaml")):
        fix = "give a config.json, a folder that has one, or a repository such as Qwen/Qwen2.5-7B"
        raise InputError([Fault(wanted, 0, "", "no such file or folder", fix)])
    return _of_repository(wanted)


def _in_folder(folder: Path) -> Path:
    """Return the config.json of a folder, of the newest snapshot where it is a repository in the cache."""
    snapshots = sorted(folder.glob(f"snapshots/*/{CONFIG}"), key=lambda path: path.stat().st_mtime)
    path = snapshots[-1] if snapshots else folder / CONFIG
    if not path.is_file():
        other = next((name for name in ("adapter_config.json", "params.json") if (folder / name).is_file()), None)
        has = {
            None: "",
            "adapter_config.json": "; it has an adapter's: import the base that it names",
            "params.json": "; params.json is of another format",
        }[other]
        raise InputError([Fault(str(folder), 0, "", f"the folder has no {CONFIG}{has}", CONFIG_WANTED)])
    return path


def _with_origin(path: Path) -> FoundConfig:
    """Return a file with repository and commit where it lies in the cache of huggingface_hub."""
    document = read_json(path if str(path) != "-" else "-", CONFIG_WANTED, keeps_infinity=True)
    formats = formats_next_to(path)
    commit = path.parent.name
    cached = _CACHED_FOLDER.fullmatch(path.parent.parent.parent.name)
    if cached and path.parent.parent.name == "snapshots":
        return FoundConfig(document, f"{cached['owner']}/{cached['name']}", commit, formats)
    return FoundConfig(document, formats=formats)


def _of_repository(repository: str) -> FoundConfig:
    """Return the config.json of a repository: from the cache, else from the Hub at one attempt."""
    try:
        import huggingface_hub
    except ImportError:
        what = "no such file or folder, and huggingface_hub, which fetches repositories, is not installed"
        fix = f"pip install huggingface_hub, {_DOWNLOAD}"
        raise InputError([Fault(repository, 0, "", what, fix)]) from None
    try:
        cached = huggingface_hub.try_to_load_from_cache(repository, CONFIG)
    except ValueError as error:  # HFValidationError
        raise InputError([Fault(repository, 0, "", f"no name of a repository: {error}", CONFIG_WANTED)]) from None
    if isinstance(cached, str):
        found = _with_origin(Path(cached))
        return FoundConfig(found.document, found.repository or repository, found.commit, found.formats)
    return _fetched(repository, huggingface_hub)


def _fetched(repository: str, hub: Any) -> FoundConfig:
    """Return the config.json of a repository on the Hub, and ModelOpt's file where that one says no format."""
    text, commit = _file_of_hub(repository, CONFIG, hub)
    document = parse_json(text, f"{CONFIG} of {repository}", CONFIG_WANTED, keeps_infinity=True)
    formats = None
    if isinstance(document.data, dict) and not document.data.get("quantization_config"):
        said, _ = _file_of_hub(repository, MODELOPT_FILE, hub)
        formats = parse_json(said, f"{MODELOPT_FILE} of {repository}", MODELOPT_WANTED) if said else None
    return FoundConfig(document, repository, commit, formats)


def _file_of_hub(repository: str, file: str, hub: Any) -> tuple[str, str]:
    """Return the text of a file and the commit; no text where the repository has none but must not have it."""
    from huggingface_hub import constants, errors
    from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

    def refuse(what: str, fix: str) -> InputError:
        return InputError([Fault(repository, 0, "", what, fix)])

    if constants.HF_HUB_OFFLINE:
        raise refuse("not in the cache, and HF_HUB_OFFLINE is set", f"unset it, {_DOWNLOAD}")
    try:
        url = hub.hf_hub_url(repository, file)
        response = hub.get_session().get(url, headers=build_hf_headers(), timeout=WAIT_SECONDS)
        hf_raise_for_status(response)
    except errors.GatedRepoError:
        raise refuse(
            "the repository is gated", f"accept its terms on its page and run hf auth login, {_DOWNLOAD}"
        ) from None
    except errors.RepositoryNotFoundError:
        raise refuse("no such repository, or a private one", "check the name, or run hf auth login") from None
    except errors.EntryNotFoundError:
        if file != CONFIG:
            return "", ""
        what = f"the repository has no {CONFIG}"
        raise refuse(what, "an adapter or a GGUF file has none: import the base that it was made from") from None
    except Exception as error:  # of the HTTP client that huggingface_hub happens to use
        why = " ".join(str(error).split())[:160]
        raise refuse(
            f"not in the cache, and the Hub cannot be reached: {why}", f"try again later, {_DOWNLOAD}"
        ) from None
    if len(response.content) > MAX_BYTES:
        raise refuse(f"a {file} of {len(response.content) / 1e6:.0f} MB", CONFIG_WANTED)
    return response.content.decode("utf-8", "replace"), response.headers.get("x-repo-commit", "")


PRICES_WANTED = "give model_prices_and_context_window.json of litellm"
_MILLION = 1e6
MOST_USD_PER_TOKEN = 0.01
"""A price above this, $10,000 per million tokens, is one per million in the place of one per token."""

_INPUT, _OUTPUT = "input_cost_per_token", "output_cost_per_token"
_BATCH = {_INPUT: "input_cost_per_token_batches", _OUTPUT: "output_cost_per_token_batches"}
_GENERATES = ("chat", "completion", "responses")
_DESCRIPTION = "sample_spec"
"""The entry that describes the others."""


@dataclass(frozen=True)
class HostedModel:
    """A model that a service runs and sells by the token; dollars per million tokens."""

    provider: str
    model: str  # as the service calls it
    usd_per_million_input_tokens: float
    usd_per_million_output_tokens: float
    batch_discount: float | None  # share that a batch takes off, 0.5: half the price; None: none is stated
    context_tokens: int | None  # most tokens of a prompt; None: not stated
    source: str  # of the entry, where it has one


@dataclass(frozen=True)
class HostedModels:
    """The models of a price file, and the entries that are left out by reason."""

    file: str
    models: tuple[HostedModel, ...]
    left_out: Mapping[str, LeftOut]


def read_hosted_models(path: str | Path, as_of: datetime.date | None = None) -> HostedModels:
    """Return the models that generate text with what they cost, in the order of the file.

    Parameters
    ----------
    path
        litellm's price file, `-` for standard input.
    as_of
        Models that are switched off by then are left out; None keeps them.

    Raises `InputError` with every fault: what is no price (text, a negative number, dollars per million) is a fault.
    """
    document = read_json(path, PRICES_WANTED)
    entries = document.data
    if not isinstance(entries, dict) or not any(_is_entry(entry) for entry in entries.values()):
        raise InputError([document.fault((), "no price file of litellm", PRICES_WANTED)])
    faults: list[Fault] = []
    models: dict[tuple[str, str], HostedModel] = {}
    left_out: dict[str, LeftOut] = {}
    for name, entry in entries.items():
        if name == _DESCRIPTION:
            continue
        hosted = _hosted(document, name, entry, as_of, faults)
        if isinstance(hosted, HostedModel):
            first = models.setdefault((hosted.provider, hosted.model), hosted)
            if first is hosted:
                continue
            models[hosted.provider, hosted.model] = max(first, hosted, key=_dollars)
            hosted = "named twice: the higher price is kept"
        if hosted not in left_out:
            left_out[hosted] = LeftOut(1, document.line((name,)))
        else:
            left_out[hosted].rows += 1
    if faults:
        raise InputError(first_faults(sorted(faults)))
    return HostedModels(document.file, tuple(models.values()), left_out)


def _dollars(model: HostedModel) -> float:
    return model.usd_per_million_input_tokens + model.usd_per_million_output_tokens


def _is_entry(value: Any) -> bool:
    return isinstance(value, dict) and ("litellm_provider" in value or _INPUT in value)


def _hosted(
    document: JsonDocument, name: str, entry: Any, as_of: datetime.date | None, faults: list[Fault]
) -> HostedModel | str:
    """Return the model of an entry, or why it is left out."""
    if not _is_entry(entry):
        return "no entry of a model"
    mode = entry.get("mode")
    if mode not in _GENERATES:
        return f"generates no text: {format_value(mode)}" if mode else "its kind is not stated"
    if as_of is not None and (ends := str(entry.get("deprecation_date") or "")) and ends <= as_of.isoformat():
        return "switched off"
    before = len(faults)
    prices = {key: _price(document, name, entry, key, faults) for key in (_INPUT, _OUTPUT, *_BATCH.values())}
    if len(faults) > before:
        return "a fault"
    if not prices[_INPUT] or not prices[_OUTPUT]:
        return "no price (missing or 0)"
    provider = str(entry.get("litellm_provider") or name.partition("/")[0])
    context = entry.get("max_input_tokens")
    return HostedModel(
        provider=provider_name(provider),
        model=name.removeprefix(f"{provider}/"),
        usd_per_million_input_tokens=_per_million(prices[_INPUT]),
        usd_per_million_output_tokens=_per_million(prices[_OUTPUT]),
        batch_discount=_batch_discount(prices),
        context_tokens=context if isinstance(context, int) and context > 0 else None,
        source=str(entry.get("source") or ""),
    )


def _price(document: JsonDocument, name: str, entry: Mapping[str, Any], key: str, faults: list[Fault]) -> float:
    """Return dollars per token, 0 where they are not stated; what is no price is added to `faults`."""
    value = entry.get(key)
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        what, fix = f"{format_value(value)} is not a number", "give dollars per token"
    elif value < 0:
        what, fix = f"{value:g} is negative", "it must be at least 0"
    elif value > MOST_USD_PER_TOKEN:
        what, fix = f"{value:g} dollars per token", "give dollars per token, not per million"
    else:
        return float(value)
    faults.append(document.fault((name, key), what, fix))
    return 0.0


def _per_million(usd_per_token: float) -> float:
    """Return dollars per million tokens without the noise of the product: 6e-07 per token are 0.6."""
    return float(f"{usd_per_token * _MILLION:.9g}")


def _batch_discount(prices: Mapping[str, float]) -> float | None:
    """Return the share that a batch takes off both prices, the smaller one of the two; None where none is stated."""
    if not all(prices[batch] for batch in _BATCH.values()):
        return None
    discount = min(1 - prices[batch] / prices[key] for key, batch in _BATCH.items())
    return round(discount, 6) if discount > 0 and math.isfinite(discount) else None
