"""Files of tools that train networks of images and videos, as the fields that their maps read.

SimpleTuner: config.json and the data file that it names. kohya's sd-scripts and musubi-tuner: the toml of a run or its
command, and the toml of the data. ai-toolkit: its yaml. diffusers: the command of an example script. What says a file
to be of one of them is in it whatever else is: none is ever read as one of a language model.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planner.documents.files import Document, Marks, parse_document, read_text
from planner.errors import Fault, InputError
from planner.exports.field_map import FieldMap, read_maps
from planner.library.reading import read_library
from planner.library.technique_tables import read_techniques

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SCRIPT = re.compile(r"[\w./-]*\btrain\w*\.py\b|[\w./-]*train_(?:network|db)\.py\b|[\w./-]*_train(?:_network)?\.py\b")
_NETWORKS = {
    "flux_train_network.py": "flux.1-dev",
    "flux_kontext_train_network.py": "flux.1-kontext-dev",
    "flux_2_train_network.py": "flux.2-dev",
    "sdxl_train_network.py": "stable-diffusion-xl",
    "train_network.py": "stable-diffusion-1.5",
    "lumina_train_network.py": "lumina-image-2.0",
    "hv_train_network.py": "hunyuanvideo",
    "hv_1_5_train_network.py": "hunyuanvideo-1.5",
    "qwen_image_train_network.py": "qwen-image",
    "zimage_train_network.py": "z-image",
}
"""Script of kohya's tools -> the model that it trains; Wan's is chosen by its task, SD3's by the name of its file."""
_EDITING = {"edit": "qwen-image-edit", "edit-2509": "qwen-image-edit-2509"}
"""--model_version of Qwen-Image's script -> the model; layered and edit-2511 have networks that no plan knows."""
_EDITED = "planned as one next to each: work.reference_images says how many"
_TASKS = {"t2v-1.3B": "wan-2.1-1.3b", "t2v-14B": "wan-2.1-14b"}
_OF_RUN = {"network_module", "network_dim", "network_args", "max_train_steps", "max_train_epochs"}
"""Options of kohya's tools of which the toml of a run has one."""
_ALL_LINEAR = ("flux",)
"""Example scripts of diffusers whose adapters extend the feed-forward matrices too where nothing is said."""
_ENCODES_CAPTIONS = ("flux", "sd3", "lumina2")
"""Example scripts of diffusers whose text encoders stay where images have own captions (custom_instance_prompts)."""
_PICTURES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".mp4", ".mov", ".avi", ".webm"}


@dataclass
class ImageFile:
    """A file as fields: what its map reads, with the lines, and what must be said of it (field -> why)."""

    tool: str
    fields: dict[str, Any]
    marks: Marks = field(default_factory=lambda: Marks(1))
    notes: dict[str, str] = field(default_factory=dict)

    def document(self, file: str) -> tuple[Document, FieldMap]:
        """Return the fields as a document, and the map of the tool."""
        return Document(file, self.fields, self.marks), read_maps()[self.tool]


def read_image_file(text: str, file: str) -> ImageFile | None:
    """Return the fields of a file of one of these tools; None where it is of none of them.

    Raises InputError for parts of such files that say nothing of a run, and for what no plan has.
    """
    ending, folder = Path(file).suffix.casefold(), Path(file).parent
    if ending == ".toml":
        return _of_toml(text, file, folder)
    if ending == ".json":
        return _of_json(text, file, folder)
    if ending in (".yaml", ".yml"):
        return _of_ai_toolkit(text, file)
    return _of_command(text, file, folder)


def _fault(file: str, where: str, what: str, fix: str, line: int = 1) -> InputError:
    return InputError([Fault(file, line, where, what, fix)])


def _keep_encoders(image_file: ImageFile, cached: str, why: str) -> None:
    """Plan a run with cached latents whose text encoders stay on the GPU as one that encodes in every step."""
    if image_file.fields.get(cached):
        image_file.fields[cached] = False
        image_file.notes["text encoders"] = f"{why}: planned with latents online, the autoencoder in each step too"


# SimpleTuner.


def _of_json(text: str, file: str, folder: Path) -> ImageFile | None:
    try:
        data = json.loads(text)
    except ValueError:
        return None  # the next reader says what is wrong
    if isinstance(data, list) and any(isinstance(backend, dict) and _BACKEND & backend.keys() for backend in data):
        problem = "is the data file of SimpleTuner, which says nothing of model and steps"
        raise _fault(file, "", problem, "give the config.json that names it as data_backend_config")
    if not isinstance(data, dict):
        return None
    fields = {str(key).removeprefix("--"): _plain(value) for key, value in data.items() if key != "_comment"}
    if "model_family" not in fields or not _OF_SIMPLETUNER & fields.keys():
        return None
    image_file = ImageFile("simpletuner", fields, _json_marks(text, fields))
    _name_flavour(fields)
    _read_segments(image_file)
    _read_ramtorch(fields)
    fields["cached"] = not fields.get("vae_cache_disable")
    if fields.get("text_cache_disable"):
        _keep_encoders(image_file, "cached", "text_cache_disable leaves them on the GPU")
    fields["vae_cache_disable"] = not fields.pop("cached")
    if "resolution" in fields:
        fields["resolution"] = _side(fields["resolution"], str(fields.get("resolution_type", "pixel_area")))
    _read_backend(image_file, folder)
    shown = [name for name in fields if name.startswith("validation_") and name != "validation_disable"]
    if shown and not fields.get("validation_disable"):
        image_file.notes["validation"] = "images made between steps are not counted"
    for name in shown:
        del fields[name]
    if fields.get("model_type") == "lora":
        target, modules = fields.pop("flux_lora_target", None), fields.pop("peft_lora_target_modules", None)
        of_family = (
            _targets_of_family(image_file, file, target) if fields["model_family"] in _OF_TARGETS else "attention"
        )
        fields["adapted"] = _adapted(str(modules)) if modules else of_family
    _check_steps(file, fields, "max_train_steps")
    return image_file


_BACKEND = {"dataset_type", "instance_data_dir", "cache_dir_vae", "caption_strategy"}
_OF_SIMPLETUNER = {"data_backend_config", "model_type", "lora_type", "base_model_precision", "model_flavour"}


def _json_marks(text: str, fields: Mapping[str, Any]) -> Marks:
    lines = text.splitlines()
    line_of = {
        name: next((number for number, line in enumerate(lines, 1) if re.search(rf'"(?:--)?{name}"\s*:', line)), 1)
        for name in fields
    }
    return Marks(1, {name: Marks(line) for name, line in line_of.items()})


def _name_flavour(fields: dict[str, Any]) -> None:
    """Name the model of a file that gives its family, or a flavour of that, in place of a path."""
    if fields.get("pretrained_model_name_or_path"):
        return
    known = read_maps()["simpletuner"].networks
    asked = {name: fields.get(name) for name in ("model_family", "model_flavour")}
    same = [name for name, row in known.items() if row["model_family"] == asked["model_family"] and len(row) > 1]
    exact = [name for name in same if asked["model_flavour"] in (None, known[name]["model_flavour"])]
    fields["pretrained_model_name_or_path"] = exact[0] if exact else "/".join(str(name) for name in asked.values())


_OF_TARGETS = ("flux", "chroma")
"""Families whose adapters `flux_lora_target` chooses where no modules are named."""


def _targets_of_family(image_file: ImageFile, file: str, target: str | None) -> str:
    """Return what `flux_lora_target` adapts; InputError for a part of the blocks, and for modulation.

    helpers/models/flux/model.py and chroma/model.py: get_lora_target_layers.
    """
    if target in (None, "all", "all+ffs"):
        return "all-linear" if target == "all+ffs" else "attention"
    if target == "all+ffs+embedder":
        image_file.notes[f"flux_lora_target {target}"] = "adapters of the embedder are not counted"
        return "all-linear"
    problem = f"adapters on the layers of {target} are not modelled"
    raise _fault(
        file,
        "flux_lora_target",
        problem,
        "give all or all+ffs in a copy",
        image_file.marks.children["flux_lora_target"].line,
    )


def _read_segments(image_file: ImageFile) -> None:
    """Say which blocks run again where a file gives an interval, which not all networks of the tool take alike.

    helpers/training/gradient_checkpointing_interval.py: some group so many blocks, others take every so many-th one.
    """
    fields, interval, stride = (
        image_file.fields,
        "gradient_checkpointing_interval",
        "gradient_checkpointing_segment_stride",
    )
    if not fields.get("gradient_checkpointing_offload_attention"):
        fields.pop("gradient_checkpointing_offload_attention", None)
    if fields.get(interval) in (None, 0, 1):
        fields.pop(interval, None)
    elif fields["model_family"] in _OF_UNETS:
        image_file.notes[f"{interval} {fields.pop(interval)}"] = "ignored for this network: every block runs again"
        fields.pop(stride, None)
    elif fields["model_family"] in _HALVED and fields[interval] == 2:
        fields.setdefault(stride, 4)


def _read_ramtorch(fields: dict[str, Any]) -> None:
    """Leave of RamTorch's options what a plan does not have: a part of the linears of a network in host memory.

    helpers/models/common.py (_apply_ramtorch_layers): patterns choose linears by name, a percentage the first of them.
    """
    share, patterns = fields.get("ramtorch_transformer_percent", 100), fields.get("ramtorch_target_modules")
    if share == 0:
        fields["ramtorch"] = False
    if share in (0, 100, None):
        fields.pop("ramtorch_transformer_percent", None)
    if patterns in ("*", _BLOCKS.get(fields["model_family"])):
        fields.pop("ramtorch_target_modules", None)


_BLOCKS = {"wan": "blocks.*", **dict.fromkeys(("qwen_image", "sd3", "pixart", "ltxvideo"), "transformer_blocks.*")}
"""Family -> pattern of all its blocks, which have nearly all weights; others have blocks of several names."""
_OF_UNETS, _HALVED = ("sd1x", "sd2x", "sdxl", "kolors"), ("auraflow", "chroma", "longcat_image", "qwen_image")
"""Families of networks that ignore an interval, and those that take every second block where others group two."""


def _read_backend(image_file: ImageFile, folder: Path) -> None:
    """Take resolution and frames from the data file, whose sets may have their own."""
    named = image_file.fields.get("data_backend_config")
    if not isinstance(named, str):
        return
    path = next((place for place in (Path(named), folder / named, folder / Path(named).name) if place.is_file()), None)
    if path is None:
        image_file.notes[f"data_backend_config {named}"] = (
            "no such file here or next to this one: its resolution is not read"
        )
        return
    try:
        sets = [
            dataset
            for dataset in json.loads(read_text(path))
            if dataset.get("dataset_type", "image") in ("image", "video")
        ]
    except (ValueError, AttributeError, TypeError):
        raise _fault(str(path), "", "is no data file of SimpleTuner", "give a list of data sets") from None
    sides = [_side(dataset.get("resolution"), dataset.get("resolution_type", "pixel_area")) for dataset in sets]
    frames = [
        int((dataset.get("video") or {}).get("num_frames") or 125)
        for dataset in sets
        if dataset.get("dataset_type") == "video"
    ]
    _take_largest(image_file, str(path), sides, frames)


def _adapted(modules: str) -> str:
    """Return what of a plan names of modules are: attention alone, or all linear layers with matrices of the MLP."""
    return "all-linear" if re.search(r"\bffn?\b|(?<!qkv_)mlp|feed_forward", modules) else "attention"


_MULTIPLE = 16
"""Pixels of a side that tools round to when they sort images into buckets."""


def _side(resolution: Any, kind: str = "pixel") -> int | None:
    """Return the side of a square of as many pixels: of megapixels, of a side, or of [width, height]."""
    if isinstance(resolution, (list, tuple)) and len(resolution) == 2 and kind == "wide":
        resolution, kind = math.sqrt(float(resolution[0]) * float(resolution[1])), "pixel"
    if isinstance(resolution, bool) or not isinstance(resolution, (int, float)) or resolution <= 0:
        return None
    side = math.sqrt(resolution * 1e6) if kind == "area" else resolution
    return max(round(side / _MULTIPLE), 1) * _MULTIPLE


def _take_largest(image_file: ImageFile, where: str, sides: list[int | None], frames: list[int]) -> None:
    """Hold the largest of the sizes that data sets have, and say where there are several."""
    for name, values in (("resolution", [side for side in sides if side]), ("frames", frames)):
        if values:
            image_file.fields[name] = max(values)
        if len(set(values)) > 1:
            others = ", ".join(map(str, sorted(set(values))))
            image_file.notes[f"{name} {others}"] = f"{where} has several: all samples are planned as the largest"


# kohya's sd-scripts and musubi-tuner.


def _of_toml(text: str, file: str, folder: Path) -> ImageFile | None:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _fault(file, "", f"is no toml: {error}", "give a toml of kohya's tools") from None
    if {"datasets", "general"} & data.keys() and not _OF_RUN & _sections_joined(data).keys():
        problem = "is a data file of kohya's tools, which says nothing of model and steps"
        raise _fault(
            file, "", problem, "give the command that names it as --dataset_config, in a file such as train.sh"
        )
    fields = _sections_joined(data)
    if not _OF_RUN & fields.keys():
        problem = "is no toml of kohya's tools: it names neither adapters nor steps"
        raise _fault(file, "", problem, "give a toml or a command of sd-scripts or musubi-tuner")
    lines = text.splitlines()
    marks = {
        name: next((n for n, line in enumerate(lines, 1) if re.match(rf"\s*{re.escape(name)}\s*=", line)), 1)
        for name in fields
    }
    image_file = ImageFile("kohya", fields, Marks(1, {name: Marks(line) for name, line in marks.items()}))
    return _of_kohya(image_file, file, folder, "")


def _sections_joined(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a run without the sections around them, which sd-scripts ignores."""
    joined: dict[str, Any] = {}
    for key, value in data.items():
        joined |= value if isinstance(value, dict) else {key: value}
    return joined


def _of_kohya(image_file: ImageFile, file: str, folder: Path, script: str) -> ImageFile:
    fields = image_file.fields
    model = _kohya_model(fields, script)
    if model:
        fields["model"] = model
    scripts = {str(network["script"]) for network in read_maps()["kohya"].networks.values()}
    known = next((other for other in scripts if Path(other).name == Path(script).name), script)
    is_musubi = "musubi" in known or "dit" in fields or model == "flux.1-kontext-dev"
    if model in (*_EDITING.values(), "flux.1-kontext-dev"):
        image_file.notes["images that are edited"] = _EDITED
    fields["tool"] = "musubi-tuner" if is_musubi else "sd-scripts"
    _count_swapped(image_file, file)
    named = fields.pop("dataset_config", None)
    path = next((place for place in (Path(str(named)), folder / str(named)) if place.is_file()), None)
    if named is not None and path is None:
        image_file.notes[f"dataset_config {named}"] = (
            "no such file here or next to this one: resolution and batch are not read"
        )
    data = _data_toml(path) if path is not None else {"datasets": [fields]}
    sets = _kohya_sets(data)
    sizes = [dataset["resolution"] for dataset in sets if dataset.get("resolution") is not None]
    frames = [max(_clip_frames(dataset)) for dataset in sets if _has_videos(dataset)]
    fields.pop("resolution", None)
    if any(isinstance(size, list) for size in sizes):
        image_file.notes["resolution"] = "width and height count as a square of as many pixels"
    _take_largest(image_file, str(path or file), [_kohya_side(size) for size in sizes], frames)
    batches = {dataset["batch_size"] for dataset in sets if isinstance(dataset.get("batch_size"), int)}
    if batches:
        fields["train_batch_size"] = max(batches)
    fields["adapted"] = "all-linear"
    if is_musubi:  # it trains from caches that its own scripts wrote
        fields["cache_latents"] = True
    else:
        fields["cache_latents"] = bool(fields.pop("cache_latents_to_disk", False) or fields.get("cache_latents"))
        if not (fields.get("cache_text_encoder_outputs") or fields.get("cache_text_encoder_outputs_to_disk")):
            _keep_encoders(image_file, "cache_latents", "without cache_text_encoder_outputs they stay on the GPU")
        if not fields.get("network_train_unet_only"):
            image_file.notes["adapters of text encoders"] = "not counted; network_train_unet_only leaves them out"
    if "max_train_epochs" in fields:  # which sd-scripts prefer to steps
        _count_steps(image_file, file, sets)
    return image_file


def _count_swapped(image_file: ImageFile, file: str) -> None:
    """Replace a number of swapped blocks by the nearest share of them that a plan may have, and say so.

    Raises InputError for more of them than the tool swaps.
    """
    fields, table = image_file.fields, read_techniques().values.offload.values
    blocks, given = fields.get("blocks_to_swap"), read_maps()["kohya"].blocks
    if not isinstance(blocks, int) or not fields.get("model"):
        return
    del fields["blocks_to_swap"]
    if not blocks:
        return
    (card,) = read_library([fields["model"]]).architectures.values()
    counted, most = given.get(card.name, given.get(card.family, (0, 0)))
    if not counted:
        fields["blocks_to_swap"] = blocks
        return
    if blocks > most:
        line = image_file.marks.children["blocks_to_swap"].line
        problem = f"{blocks} of {counted} blocks: the tool swaps at most {most} of this network"
        raise _fault(file, "blocks_to_swap", problem, f"give {most} or less in a copy of the file", line)
    share = min(
        (row.swapped for row in table.values() if row.swapped), key=lambda swapped: abs(swapped - blocks / counted)
    )
    fields["swapped_percent"] = round(100 * share)
    planned = f"planned as {fields['swapped_percent']} % of the blocks"
    with_copies = fields["tool"] == "musubi-tuner" and not fields.get("block_swap_h2d_only")
    slower = ", with --block_swap_h2d_only, without which copies take twice as long" if with_copies else ""
    image_file.notes[f"blocks_to_swap {blocks} of {counted}"] = planned + slower


def _data_toml(path: Path) -> dict[str, Any]:
    try:
        text = read_text(path)
        data = json.loads(text) if path.suffix.casefold() == ".json" else tomllib.loads(text)
        return data if isinstance(data, dict) else {}
    except (tomllib.TOMLDecodeError, json.JSONDecodeError) as error:
        raise _fault(str(path), "", f"is no toml: {error}", "give the data file of kohya's tools") from None


def _kohya_sets(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the data sets with what the general part, and of sd-scripts the set around a subset, says of them."""
    general = data.get("general") or {}
    sets = [{**general, **dataset} for dataset in data.get("datasets") or []]
    return [{**dataset, **part} for dataset in sets for part in dataset.get("subsets") or [{}]]


def _has_videos(dataset: Mapping[str, Any]) -> bool:
    return "video_directory" in dataset or "video_jsonl_file" in dataset


def _clip_frames(dataset: Mapping[str, Any]) -> list[int]:
    """Return the frames of the clips that musubi-tuner takes from a video, 1 and multiples of 4.

    dataset/image_video_dataset.py: `target_frames`, and of frame_extraction full what a video has up to `max_frames`.
    """
    given = dataset.get("target_frames")
    frames = [frame for frame in given if isinstance(frame, int)] if isinstance(given, list) else []
    if dataset.get("frame_extraction") == "full":
        frames = [dataset.get("max_frames", 129)]
    return sorted({max((frame - 1) // 4 * 4 + 1, 1) for frame in frames or [1]})


def _clips_per_video(dataset: Mapping[str, Any]) -> int | None:
    """Return how many clips a set takes from a video that is long enough; None where its length decides."""
    ways = {"head": 1, "full": 1, "uniform": dataset.get("frame_sample", 1)}
    clips = ways.get(dataset.get("frame_extraction", "head"))
    return clips * len(_clip_frames(dataset)) if isinstance(clips, int) else None


def _kohya_side(size: Any) -> int | None:
    if isinstance(size, str):
        size = [int(part) for part in size.split(",") if part.strip().isdigit()]
        size = size[0] if len(size) == 1 else size
    return _side(size, "wide" if isinstance(size, list) else "pixel")


def _kohya_model(fields: Mapping[str, Any], script: str) -> str:
    """Return the model that a script of kohya's tools trains; empty where its name does not say."""
    name, path = Path(script).name, str(fields.get("pretrained_model_name_or_path", "")).casefold()
    if name == "wan_train_network.py":
        return _TASKS.get(str(fields.get("task", "t2v-14B")), f"Wan task {fields.get('task')}")
    if name == "sd3_train_network.py":
        return "sd3.5-large" if "large" in path else "sd3.5-medium"
    if name == "flux_train_network.py" and fields.get("model_type") == "chroma":
        return "chroma1-hd"
    if name == "flux_train_network.py" and "schnell" in path:
        return "flux.1-schnell"
    if name == "flux_2_train_network.py" and fields.get("model_version", "dev") != "dev":
        return f"FLUX.2 {fields['model_version']}"
    if name == "qwen_image_train_network.py" and (version := _edited_by(fields)) != "original":
        return _EDITING.get(version, f"Qwen-Image {version}")
    return _NETWORKS.get(name, "")


def _edited_by(fields: Mapping[str, Any]) -> str:
    """Return the version of Qwen-Image that a run trains (qwen_image_utils.py, resolve_model_version_args)."""
    older = "edit-2509" if fields.get("edit_plus") else "edit" if fields.get("edit") else "original"
    return str(fields.get("model_version") or older).casefold()


def _count_steps(image_file: ImageFile, file: str, sets: list[dict[str, Any]]) -> None:
    """Replace epochs by steps, from the pictures in the folders; InputError where they are not here."""
    fields, total, of_videos = image_file.fields, 0, any(_has_videos(dataset) for dataset in sets)
    for dataset in sets:
        clips = _clips_per_video(dataset) if _has_videos(dataset) else 1
        if clips is None:
            problem = f"frame_extraction {dataset['frame_extraction']}: the clips of a video follow from its length"
            raise _fault(file, "max_train_epochs", problem, "give max_train_steps in a copy of the file")
        folder = Path(
            str(dataset.get("image_directory") or dataset.get("video_directory") or dataset.get("image_dir") or "\0")
        )
        try:
            pictures = sum(path.suffix.casefold() in _PICTURES for path in folder.iterdir())
        except (OSError, ValueError):
            problem = "epochs of a folder that is not here: the number of images is unknown"
            raise _fault(file, "max_train_epochs", problem, "give max_train_steps in a copy of the file") from None
        total += pictures * clips * int(dataset.get("num_repeats", 1))
    batch = int(fields.get("train_batch_size", 1)) * int(fields.get("gradient_accumulation_steps", 1))
    epochs = int(fields.pop("max_train_epochs"))
    fields["max_train_steps"] = max(math.ceil(total / batch) * epochs, 1)
    samples = f"{'clip' if of_videos else 'image'}{'s' * (total != 1)}"
    samples += " of the videos, all long enough for theirs," if of_videos else ""
    image_file.notes[f"max_train_epochs {epochs}"] = (
        f"{total} {samples} in the folders: {fields['max_train_steps']} steps of one GPU"
    )


# ai-toolkit.


def _of_ai_toolkit(text: str, file: str) -> ImageFile | None:
    if not re.search(r"^\s*process\s*:", text, re.MULTILINE) or "sd_trainer" not in text:
        return None
    document = parse_document(text, file, takes_last=True)
    config = document.data.get("config")
    runs = config.get("process") if isinstance(config, dict) else None
    run = runs[0] if isinstance(runs, list) and runs and isinstance(runs[0], dict) else None
    if run is None or "sd_trainer" not in str(run.get("type")):
        return None
    marks = document.marks
    for key in ("config", "process", 0):
        marks = marks.children.get(key, marks)
    fields = {key: value for key, value in run.items() if key not in ("datasets", "sample")}
    image_file = ImageFile("ai-toolkit", fields, marks)
    sets = [dataset for dataset in run.get("datasets") or [] if isinstance(dataset, dict)]
    wide = [dataset.get("resolution", 512) for dataset in sets]
    sides = [_side(side) for size in wide for side in (size if isinstance(size, list) else [size])]
    _take_largest(
        image_file, "datasets", sides, [dataset["num_frames"] for dataset in sets if dataset.get("num_frames", 1) > 1]
    )
    fields["cached"] = bool(sets) and all(
        dataset.get("cache_latents_to_disk") or dataset.get("cache_latents") for dataset in sets
    )
    train = fields["train"] if isinstance(fields.get("train"), dict) else {}
    unloads = train.pop("unload_text_encoder", False) or train.pop("cache_text_embeddings", False)
    if not unloads and not all(dataset.get("cache_text_embeddings") for dataset in sets):
        _keep_encoders(image_file, "cached", "without cache_text_embeddings they stay on the GPU")
    if isinstance(fields.get("network"), dict):
        fields["adapted"] = "all-linear"
    base = fields["model"] if isinstance(fields.get("model"), dict) else {}
    if base.get("layer_offloading") and base.get("layer_offloading_transformer_percent", 1.0) < 1:
        fields["layer_share"] = "part"
    if any(dataset.get("control_path") for dataset in sets):
        image_file.notes["images that are edited"] = _EDITED
    if len(runs or []) > 1:
        image_file.notes["config.process"] = "the first of several runs is planned"
    if run.get("sample"):
        image_file.notes["sample"] = "images made between steps are not counted"
    return image_file


# Commands: of the example scripts of diffusers, and of kohya's tools.


def _of_command(text: str, file: str, folder: Path) -> ImageFile | None:
    words = list(_words(text))
    at = next((place for place, (word, _) in enumerate(words) if _SCRIPT.fullmatch(word)), None)
    if at is None:
        return None
    script = words[at][0]
    name = Path(script).name
    fields, lines = _options(words[at + 1 :])
    marks = Marks(1, {key: Marks(line) for key, line in lines.items()})
    if name.endswith(("train_network.py", "train_db.py")) or name in ("flux_train.py", "sdxl_train.py", "sd3_train.py"):
        if not name.endswith("train_network.py"):
            raise _fault(
                file, script, "full training by kohya's tools is not read", "give a command of a LoRA", words[at][1]
            )
        if isinstance(fields.get("config_file"), str):
            path = next(
                (place for place in (Path(fields["config_file"]), folder / fields["config_file"]) if place.is_file()),
                None,
            )
            fields = {**(_sections_joined(_data_toml(path)) if path else {}), **fields}
        return _of_kohya(ImageFile("kohya", fields, marks), file, folder, script)
    if not re.match(r"train_(dreambooth|text_to_image)", name):
        problem = f"{name} is no script of images that is read here"
        raise _fault(
            file, script, problem, "give a command of train_dreambooth*.py or train_text_to_image*.py", words[at][1]
        )
    if not fields.get("pretrained_model_name_or_path"):
        return None
    fields |= {"script": name, "method": "lora" if "_lora" in name else "full"}
    if fields["method"] == "lora":
        listed = str(
            fields.get("lora_layers", "ff" if name.endswith(tuple(f"_{network}.py" for network in _ALL_LINEAR)) else "")
        )
        fields["adapted"] = _adapted(listed)
        fields.pop("lora_layers", None)
    image_file = ImageFile("diffusers", fields, marks)
    if fields.get("caption_column") and name.endswith(tuple(f"_{network}.py" for network in _ENCODES_CAPTIONS)):
        _keep_encoders(image_file, "cache_latents", "the script encodes captions of caption_column in each step")
        fields.pop("cache_latents", None)
    _read_bits(image_file, folder)
    _check_steps(file, fields, "max_train_steps")
    return image_file


def _words(text: str) -> Iterator[tuple[str, int]]:
    """Yield the words of a script with their lines; variables that it sets itself are put in their place."""
    joined, number = re.sub(r"\\\r?\n", lambda _: " \x00", text), 1
    values: dict[str, str] = {}
    for line in joined.splitlines():
        try:
            parts = shlex.split(line.replace("\x00", " \x00 "), comments=True)
        except ValueError:
            parts = line.split()
        for part in parts:
            if part == "\x00":
                number += 1
                continue
            named = re.fullmatch(r"(?:export )?([A-Za-z_]\w*)=(.*)", part)
            if named:
                values[named[1]] = named[2]
            yield re.sub(r"\$\{?(\w+)\}?", lambda match: values.get(match[1], match[0]), part), number
        number += 1


def _options(words: list[tuple[str, int]]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the options of a command, true for those without a value, and their lines."""
    options: dict[str, Any] = {}
    lines: dict[str, int] = {}
    last = ""
    for word, line in words:
        if word.startswith("--"):
            last, has_value, value = word[2:].partition("=")
            options[last], lines[last] = (_plain(value) if has_value else True), line
            last = "" if has_value else last
        elif last:
            options[last] = _plain(word) if options[last] is True else options[last]
            last = ""
    return options, lines


def _plain(value: Any) -> Any:
    """Return text that is a number or a truth value as such."""
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"[+-]?\d+", value):
        return int(value)
    return {"true": True, "false": False, "none": None}.get(value.casefold(), value)


def _read_bits(image_file: ImageFile, folder: Path) -> None:
    """Say how the base is quantised by a file of bitsandbytes' options."""
    named = image_file.fields.get("bnb_quantization_config_path")
    path = next((place for place in (Path(str(named)), folder / str(named)) if named and place.is_file()), None)
    if path is None:
        return
    try:
        options = json.loads(read_text(path))
        four, eight = options.get("load_in_4bit"), options.get("load_in_8bit")
    except (ValueError, AttributeError):
        raise _fault(str(path), "", "is no JSON of bitsandbytes", 'such as {"load_in_4bit": true}') from None
    double = options.get("bnb_4bit_use_double_quant")
    image_file.fields["quantised"] = ("nf4_dq" if double else "nf4") if four else "int8" if eight else "none"
    del image_file.fields["bnb_quantization_config_path"]


def _check_steps(file: str, fields: dict[str, Any], name: str) -> None:
    """Refuse a run whose steps follow from a number of images that no file says; zero steps are none."""
    if not fields.get(name):
        problem = "the file gives epochs, or nothing: the number of images is not in it, and steps are not known"
        raise _fault(file, name, problem, f"give {name} in a copy of the file")
    if fields.get("num_train_epochs") == 0:
        del fields["num_train_epochs"]
