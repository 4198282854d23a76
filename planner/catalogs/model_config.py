"""The config.json of a model: a file, one in a folder, or that of a repository on the Hugging Face Hub."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from planner.documents.files import MAX_BYTES
from planner.documents.tables import JsonDocument, parse_json, read_json
from planner.errors import Fault, InputError
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
