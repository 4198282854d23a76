"""Read exported files with the tool that they are for: `python tool_checks.py TOOL FOLDER`, without the planner.

Prints one JSON document: file -> what is wrong with it, empty where the tool accepts it.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any


def skypilot(path: Path) -> None:
    """Raise where the schema or the clouds of SkyPilot do not have what the task says."""
    import sky
    import yaml

    os.chdir(path.parent)
    data = yaml.safe_load(path.read_text())
    unnamed = [(name, "me/it") for name, value in data.get("envs", {}).items() if value is None]
    if "service" not in data:
        sky.Task.from_yaml(str(path))
        return
    from sky.serve import serve_utils

    serve_utils.validate_service_task(sky.Task.from_yaml_config(data, env_overrides=unnamed), pool=False)


def dstack(path: Path) -> None:
    """Raise where the model of a configuration does not have what the task says."""
    import yaml
    from dstack._internal.core.models.configurations import parse_run_configuration

    parse_run_configuration(yaml.safe_load(path.read_text()))


def kubernetes(path: Path) -> None:
    """Raise where the schema of version 1.34 does not have what the job says."""
    import kubernetes_validate
    import yaml

    for document in yaml.safe_load_all(path.read_text()):
        kubernetes_validate.validate(document, "1.34", strict=True)


def huggingface(path: Path) -> None:
    """Raise where `hf jobs run` does not have an option or a flavor."""
    dry = path.with_name("dry.sh")
    dry.write_text(path.read_text().replace("hf jobs run", f"{Path(sys.executable).parent}/hf jobs run --dry-run"))
    subprocess.run(["bash", str(dry)], env={**os.environ, "BUCKET": "me/it", "HF_TOKEN": "hf_none"}, check=True)


def slurm(path: Path) -> None:
    """Raise where the script is no shell."""
    subprocess.run(["bash", "-n", str(path)], check=True)


def trl(path: Path) -> None:
    """Raise where the parser does not have a key or a value."""
    import trl as package

    kinds = (package.ScriptArguments, package.SFTConfig, package.ModelConfig)
    package.TrlParser(kinds).parse_args_and_config(args=["--config", str(path), "--use_cpu", "true"])


def accelerate(path: Path) -> None:
    """Raise where the loader refuses the file, or a section has what is no argument of `accelerate launch`."""
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    found = load_config_from_file(str(path))
    known = {action.dest for action in launch_command_parser()._actions}
    for section in ("fsdp_config", "deepspeed_config", "parallelism_config"):
        unknown = set(getattr(found, section)) - known
        if unknown:
            raise ValueError(f"{section}: {unknown}")


def deepspeed(path: Path) -> None:
    """Raise where the model of the configuration refuses it; `auto` is resolved by the trainer, here as a number."""
    import deepspeed as package
    from deepspeed.runtime.config import DeepSpeedConfig

    if not package.comm.is_initialized():  # else it counts one process, whatever Ranks says
        one = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29577"}
        os.environ.update(one)
        package.init_distributed("gloo", auto_mpi_discovery=False)

    data = json.loads(path.read_text().replace('"auto"', "0.001").replace('"betas": 0.001', '"betas": [0.9, 0.999]'))
    processes = data["train_batch_size"] // (
        data["train_micro_batch_size_per_gpu"] * data["gradient_accumulation_steps"]
    )

    class Ranks:
        """As many processes as the batch is made for."""

        def get_data_parallel_world_size(self) -> int:
            return int(processes)

    DeepSpeedConfig(data, mpu=Ranks())


def axolotl(path: Path) -> None:
    """Raise where the schema refuses a value or does not have a key."""
    import yaml
    from axolotl.cli.config import prepare_plugins
    from axolotl.utils.config import merge_input_args, validate_config
    from axolotl.utils.dict import DictDefault
    from axolotl.utils.schemas.config import AxolotlInputConfig

    written: dict[str, Any] = yaml.safe_load(path.read_text()) | {"learning_rate": 1e-4}
    asked = DictDefault(written)
    prepare_plugins(asked)
    schema = merge_input_args()[1] if written.get("plugins") else AxolotlInputConfig
    unknown = set(written) - set(schema.model_fields)
    if unknown:
        raise ValueError(f"unknown: {unknown}")
    validate_config(asked)


def llamafactory(path: Path) -> None:
    """Raise where the parser does not have a key or a value; 16-bit weights ask for a GPU."""
    import yaml
    from llamafactory.hparams import get_train_args

    launched = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29501"}
    os.environ.update(launched)  # what FORCE_TORCHRUN=1 of the exported command makes torchrun set
    os.chdir(path.parent)
    get_train_args(yaml.safe_load(path.read_text()) | {"template": "default", "use_cpu": True, "pure_bf16": False})


def unsloth(path: Path) -> None:
    """Raise where the script is no Python, or has an argument that the sources of the package do not have."""
    import importlib.util

    package = importlib.util.find_spec("unsloth")
    assert package is not None
    assert package.origin is not None
    known: dict[str, set[str]] = {}
    for module in ("loader", "llama"):
        for node in ast.walk(ast.parse((Path(package.origin).parent / "models" / f"{module}.py").read_text())):
            if isinstance(node, ast.FunctionDef):
                known.setdefault(node.name, set()).update(one.arg for one in node.args.args)
    for node in ast.parse(path.read_text()).body:
        name = node.targets[0] if isinstance(node, ast.Assign) else None
        where = {"LOAD": "from_pretrained", "ADAPTERS": "get_peft_model"}.get(getattr(name, "id", ""))
        if isinstance(node, ast.Assign) and where:
            unknown = ast.literal_eval(node.value).keys() - known[where]
            if unknown:
                raise ValueError(f"{where}: {unknown}")


def simpletuner(path: Path) -> None:
    """Raise where a key, a network or a value is not in the sources of the package, which are read and not run.

    Its own parser takes each key of config.json as an option and ends at an unknown one.
    """
    import importlib.util

    package = importlib.util.find_spec("simpletuner")
    assert package is not None
    assert package.submodule_search_locations is not None
    root = Path(package.submodule_search_locations[0])
    if path.name == "multidatabackend.json":
        known = _strings(*sorted((root / "helpers" / "data_backend").rglob("*.py")))
        unknown = {key for backend in json.loads(path.read_text()) for key in backend} - known
        if unknown:
            raise ValueError(f"keys of a data set: {sorted(unknown)}")
    if path.name != "config.json":
        return
    sections = root / "simpletuner_sdk" / "server" / "services" / "field_registry" / "sections"
    of_models = root / "helpers" / "models" / "field_registry"
    registries = sorted([*sections.glob("*.py"), *of_models.glob("*.py")])
    training = root / "helpers" / "training"
    texts = [file.read_text() for file in [*registries, root / "helpers" / "configuration" / "cmd_args.py"]]
    options = {name for text in texts for name in re.findall(r'"--(\w+)"', text)}
    config = json.loads(path.read_text())
    if config.keys() - options:
        raise ValueError(f"no options: {sorted(config.keys() - options)}")
    choices = _strings(*registries, training / "__init__.py", training / "optimizer_param.py")
    chosen = ("model_type", "lora_type", "optimizer", "base_model_precision", "quantize_via", "mixed_precision")
    for name in (*chosen, "resolution_type", "lr_scheduler", "report_to", "attention_mechanism"):
        if config.get(name) not in {None, *choices}:
            raise ValueError(f"{name} {config[name]}: no choice")
    files = (root / "helpers" / "models").glob("*/model.py")
    network = next(file for file in files if f'.register("{config["model_family"]}",' in file.read_text())
    if config.get("model_flavour") not in {None, *_strings(network)}:
        raise ValueError(f"model_flavour {config['model_flavour']}: not in {network}")


@functools.cache
def _strings(*files: Path) -> set[str]:
    """Return all texts in the sources of Python files."""
    trees = [ast.walk(ast.parse(file.read_text())) for file in files]
    return {
        node.value for tree in trees for node in tree if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def diffusers(path: Path) -> None:
    """Raise where the parser of the example script, which lies next to the file, does not take the command."""
    import argparse

    words = shlex.split(path.read_text().replace("\\\n", " ").replace("$INSTANCE_PROMPT", "a style"), comments=True)
    script = next(place for place, word in enumerate(words) if word.endswith(".py") and words[place + 1][:2] == "--")
    (parser,) = (
        node
        for node in ast.parse((path.parent / words[script]).read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "parse_args"
    )
    logger = types.SimpleNamespace(warning=print, info=print)
    modes = types.SimpleNamespace(InterpolationMode=types.SimpleNamespace(lanczos="lanczos"))  # of torchvision
    names: dict[str, Any] = {"argparse": argparse, "os": os, "warnings": warnings, "logger": logger, "Path": Path}
    names["transforms"] = modes
    exec(compile(ast.Module([parser], []), words[script], "exec"), names)
    sys.argv = words[script:]  # some of these parsers take no list
    names["parse_args"]()


def litgpt(path: Path) -> None:
    """Raise where its command line does not have a key or a value; the data are those of `data/`, one row long."""
    from jsonargparse import CLI
    from litgpt.finetune import full, lora

    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))  # as PYTHONPATH=. of the exported command does
    for part in ("train", "val"):
        Path("data").mkdir(exist_ok=True)
        Path(f"data/{part}.json").write_text('[{"instruction": "a", "output": "b"}]')
    setup = lora.setup if "lora_r:" in path.read_text() else full.setup

    @functools.wraps(setup)
    def read(**values: Any) -> dict[str, Any]:
        return values

    CLI(read, args=["--config", str(path)], as_positional=False)


CHECKS = {
    one.__name__: one
    for one in (
        *(skypilot, dstack, huggingface, kubernetes, slurm, simpletuner, diffusers),
        *(trl, axolotl, llamafactory, unsloth, litgpt, accelerate, deepspeed),
    )
}


def check_all(tool: str, folder: Path) -> dict[str, str]:
    """Return what is wrong with each file that was exported for a tool; the files lie in `JOB/TOOL/`."""
    found = {}
    for path in sorted(folder.resolve().glob(f"*/{tool}/[!d]*") if tool == "huggingface" else _files(tool, folder)):
        try:
            CHECKS[tool](path)
            found[f"{path.parent.parent.name}/{path.name}"] = ""
        except (Exception, SystemExit) as error:
            found[f"{path.parent.parent.name}/{path.name}"] = f"{type(error).__name__}: {error}"[:400]
    return found


def _files(tool: str, folder: Path) -> list[Path]:
    files = (path for path in folder.resolve().glob(f"*/{tool}/*") if path.is_file())
    given = ("litgpt_packed.py", "quantisation.json")  # not of the tool itself
    scripts = ".py" if tool == "diffusers" else ".cron"
    return [path for path in files if path.suffix != scripts and path.name not in given]


if __name__ == "__main__":
    print("\n" + json.dumps(check_all(sys.argv[1], Path(sys.argv[2]))))
