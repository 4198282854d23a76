"""The machines of a plan by the names of a launcher, the script there, and the configuration of the trainer."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from string import Template
from typing import TYPE_CHECKING, Any, Protocol

from planner.documents.files import yaml_text
from planner.errors import Fault, InputError, plan_with
from planner.exports.field_map import Facts, FieldMap, LaunchMap, fill_in
from planner.exports.script_parts import (
    clearing_lines,
    commented,
    document,
    header,
    making_lines,
    preparing_lines,
    script_lines,
    shell_word,
    written_program,
)
from planner.results.plan import Assignment, Plan
from planner.scenario.offer import Offer
from planner.scenario.scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


# The configuration file of a training tool, as its field map says.


MEETING_PORT = 29500
"""Port of machine 0 at which the processes of a run meet."""


def trainer_file(plan: Plan, job: Assignment, tool: FieldMap, facts: Facts) -> str:
    """Return the text of the file; what the plan does not decide is written as comments."""
    settings = tool.settings(facts)
    if tool.format == "json alone":
        return json.dumps(settings, indent=2) + "\n"
    lines = _header(plan, job, tool, facts, settings)
    if tool.format == "json":
        return json.dumps({"_comment": lines, **settings}, indent=2) + "\n"
    if tool.format == "command":
        return _cloned_command(lines, settings) if "repository" in settings else _script_command(lines, settings)
    if tool.format == "python":
        return _trainer_script(lines, settings, tool)
    whole = fill_in(tool.around, {**facts, "settings": settings}) if tool.around else settings
    text = commented(lines) + yaml_text(whole)
    missing = missing_fields(tool, settings)
    if missing:
        text += "\n" + commented(f"{field}:  # required: {option}" for field, option in missing.items())
    if tool.defaults:
        text += "\n# Not decided by the plan; these are the defaults of the tool.\n"
        text += commented(yaml_text(tool.defaults).splitlines())
    return text


def remarks_file(plan: Plan, job: Assignment, tool: FieldMap, facts: Facts) -> dict[str, str]:
    """Return what heads the file of a tool as a file of its own, where the tool takes no comments; else nothing."""
    if tool.format != "json alone":
        return {}
    lines = _header(plan, job, tool, facts, tool.settings(facts))
    return {f"{tool.target}.txt": document("\n".join(lines)) + "\n"}


def _header(plan: Plan, job: Assignment, tool: FieldMap, facts: Facts, settings: Mapping[str, Any]) -> list[str]:
    remarks = (*tool.remarks(facts), *_notice_remarks(job, tool, settings, facts), *_left_out(job, tool, facts))
    return header(plan, job, tool, run_command(tool, facts), remarks, facts["result_remarks"])


_EXAMPLES = "https://raw.githubusercontent.com/huggingface/diffusers/58eb52c0803ea9af3abec60841c2a093bdf1f951/examples"
"""Scripts of diffusers at the commit that `models/exports/diffusers-0.40.yaml` was written from."""


def _script_command(lines: list[str], settings: Mapping[str, Any]) -> str:
    """Return a script that fetches an example of diffusers and runs it; its own arguments are those of the launcher."""
    path = str(settings["script"])
    name, options = path.rpartition("/")[2], {key: value for key, value in settings.items() if key != "script"}
    words = _option_words(options)
    body = ["set -euo pipefail"]
    if "dreambooth" in path and "instance_prompt" not in options:
        body.append(': "${INSTANCE_PROMPT:?set it to the caption of the images}"')
        words.append('--instance_prompt="$INSTANCE_PROMPT"')
    body += [
        f"[ -e {name} ] || curl -fsSLO {_EXAMPLES}/{path}",
        f'accelerate launch "$@" --mixed_precision {settings["mixed_precision"]} {name} \\',
        " \\\n".join(f"  {word}" for word in words),
    ]
    return "#!/usr/bin/env bash\n" + commented(lines) + "\n".join(body) + "\n"


def _option_words(options: Mapping[str, Any]) -> list[str]:
    """Return options of a command: those that are true without a value, those that are false not at all."""
    given = {key: value for key, value in options.items() if value is not False}
    return [f"--{key}" if value is True else f"--{key}={shell_word(value)}" for key, value in given.items()]


_OF_A_CLONE = ("script", "repository", "weights", "caches")
"""Settings of a script that are no options of it."""


def _cloned_command(lines: list[str], settings: Mapping[str, Any]) -> str:
    """Return a script that clones a repository, caches what its training reads, and runs a script of it."""
    address, _, commit = str(settings["repository"]).partition("@")
    folder, weights = address.rpartition("/")[2], settings.get("weights", [])
    options = {key: value for key, value in settings.items() if key not in _OF_A_CLONE}
    words = [*_option_words(options), *map(_of_weights, weights)]
    body = [
        "set -euo pipefail",
        *(f': "${{{name.upper()}:?set it to the file of these weights}}"' for name in weights),
        f"[ -d {folder} ] || git clone https://github.com/{address} {folder}",
        f"git -C {folder} checkout -q {commit}",
        f'export PYTHONPATH="$PWD/{folder}/src:$PWD/{folder}"',
    ]
    for script, asked in settings.get("caches", {}).items():
        own = (f"--{word}" if "=" in word else _of_weights(word) for word in asked)
        given = " ".join([f"--dataset_config={options['dataset_config']}", *own])
        body.append(f"python {folder}/src/musubi_tuner/{script} {given}")
    launched = f'accelerate launch "$@" --mixed_precision {settings["mixed_precision"]} {folder}/{settings["script"]}'
    body += [f"{launched} \\", " \\\n".join(f"  {word}" for word in words)]
    return "#!/usr/bin/env bash\n" + commented(lines) + "\n".join(body) + "\n"


def _of_weights(name: str) -> str:
    return f'--{name}="${name.upper()}"'


_SCRIPT = '''import sys

from unsloth import FastLanguageModel  # before the packages below, which it changes
from datasets import load_dataset
from trl import SFTConfig, SFTTrainer

LOAD = $load
ADAPTERS = $adapters
DATA = $data
TRAIN = $train


def main() -> None:
    """Train, or go on from the checkpoint that the command names."""
    model, tokenizer = FastLanguageModel.from_pretrained(**LOAD)
    if ADAPTERS:
        model = FastLanguageModel.get_peft_model(model, **ADAPTERS)
    data = load_dataset(**DATA)
    trainer = SFTTrainer(model=model, processing_class=tokenizer, train_dataset=data, args=SFTConfig(**TRAIN))
    folder = TRAIN["output_dir"]
    trainer.train(resume_from_checkpoint=sys.argv[1] if len(sys.argv) > 1 else None)
    trainer.save_model(folder)


if __name__ == "__main__":
    main()
'''


def _trainer_script(lines: list[str], settings: dict[str, Any], tool: FieldMap) -> str:
    """Return a script of Python that has the settings as its constants."""
    parts = {name: settings.get(name, {}) for name in ("load", "adapters", "data", "train")}
    given = {field for part in parts.values() for field in part}
    remarks = [f"{field}: required: {option}" for field, option in tool.needs.items() if field not in given]
    remarks += [f"{field} is not decided by the plan; {value} is usual" for field, value in tool.defaults.items()]
    written = {
        name: "".join(("{\n", *(f"    {field!r}: {value!r},\n" for field, value in part.items()), "}"))
        for name, part in parts.items()
    }
    return commented([*lines, *remarks]) + "\n" + Template(_SCRIPT).substitute(written)


def run_command(tool: FieldMap, facts: Facts) -> str:
    """Return the command that runs the file on one machine, from the checkpoint that a plan of the rest begins at."""
    if facts["instances"] > 1:
        return ""
    before = facts["steps_before"]
    newest = f"{facts['output_dir']}/{tool.checkpoints.name.replace('*', str(before))}" if before else ""
    return command(tool, {**facts, "resume": expanded(tool.resume, newest)})


def expanded(resume: str, latest: str) -> str:
    """Return the option that names a checkpoint as the shell makes it of `$LATEST`: without one, empty as a rule."""
    text = re.sub(r"\$\{LATEST:\+([^}]*)\}", r"\1" if latest else "", resume)
    text = re.sub(r"\$\{LATEST:-([^}]*)\}", latest or r"\1", text)
    return text.replace("$LATEST", latest).replace('"', "") if latest else ""


def command(tool: FieldMap, facts: Facts, port: int = MEETING_PORT) -> str:
    """Return the command that one machine runs; `facts` with `resume`, the option that names a checkpoint."""
    several = facts["instances"] > 1
    flags = filled(tool.flags, {**facts, "port": port})
    return " ".join(filled(tool.launch if several else tool.run, {**facts, "flags": flags}).split())


def start_command(tool: FieldMap, facts: Facts, port: int) -> str:
    """Return the command that starts a program of Python in every process of the run, as the trainer starts its own."""
    several = facts["instances"] > 1
    flags = filled(tool.flags, {**facts, "port": port})
    return filled(tool.starter.together if several else tool.starter.alone, {**facts, "flags": flags}).strip()


def filled(text: str, facts: Facts) -> str:
    """Return a command with each `$name` replaced by the fact."""
    return Template(text).substitute(facts)


def missing_fields(tool: FieldMap, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields that a tool needs and a file does not have yet, each with the option that gives it, or why."""
    return {
        field: option
        for field, option in tool.needs.items()
        if not any(_has(settings, name) for name in (field, *_ALSO.get(field, ())))
    }


def _has(settings: Mapping[str, Any], field: str) -> bool:
    """Return whether settings have a field, whose name has dots where it lies in others."""
    first, _, rest = field.partition(".")
    inside = settings.get(first)
    return field in settings or (bool(rest) and isinstance(inside, dict) and _has(inside, rest))


_ALSO = {"dataset_name": ("datasets", "instance_data_dir", "train_data_dir")}
"""Field -> others that may be there in its place."""


def _notice_remarks(job: Assignment, tool: FieldMap, settings: Mapping[str, Any], facts: Facts) -> list[str]:
    """Return what a reader must know where a plan counts on a checkpoint that the file does not ask for."""
    if job.spot is None or not job.spot.last_checkpoint or settings.get("enable_jit_checkpoint"):
        return []
    counted = "the plan counts on a checkpoint within the notice before a machine is taken away"
    if tool.elsewhere:
        return [f"{counted}: the training script writes it at SIGTERM"]
    lost = f"what was done since the last of every {facts['save_steps']} steps is done again"
    return [f"{counted}, and {tool.label} writes none here: {lost}"]


_OF_RUN = ("lora_alpha", "sequence_length", "packing", "steps", "save_steps", "save_limit")
"""Facts that a script of one's own needs, and that no file for one has."""


def _left_out(job: Assignment, tool: FieldMap, facts: Facts) -> list[str]:
    if not tool.elsewhere:
        return []
    unsaved = () if facts["saves"] else ("save_limit",)
    chosen = job.techniques.model_dump() | {name: facts[name] for name in _OF_RUN if name not in unsaved}
    said = [
        f"{name} {chosen[name]}" for name in (*tool.elsewhere, *_OF_RUN) if chosen.get(name) not in (None, "none", 0)
    ]
    return [f"the training script must set what this file cannot: {', '.join(said)}"]


# The machines of a plan by the names of a launcher, and the script that runs on them.


PRICE_MARGIN = 1.1
"""How much more than the price of the plan an hour may cost before a launcher refuses it: prices move a little."""


class Rented(Protocol):
    """What names the machines of a plan: a job, or a kind of machines of a service."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def provider(self) -> str: ...  # noqa: D102

    @property
    def region(self) -> str: ...  # noqa: D102

    @property
    def instance(self) -> str: ...  # noqa: D102

    @property
    def gpu(self) -> str: ...  # noqa: D102

    @property
    def spot_share(self) -> float: ...  # noqa: D102


@dataclass(frozen=True)
class Machines:
    """What to rent; dollars are those of one machine and hour, None where it is not offered so."""

    provider: str
    regions: tuple[str, ...]
    """One empty name where the launcher chooses the region."""
    gpu: str
    usd_per_hour: float | None
    spot_usd_per_hour: float | None
    keeps: bool = True
    image: str = "always"
    """As `Provider.image` says."""
    note: str = ""


def offers_of(scenario: Scenario, job: Rented) -> list[Offer]:
    """Return the offers of the machine that a job rents, in all regions."""
    return [
        offer
        for _, offer in scenario.labelled_offers()
        if (offer.provider, offer.instance, offer.gpu) == (job.provider, job.instance, job.gpu)
    ]


def find_machines(
    scenario: Scenario, job: Rented, tool: LaunchMap, kept: str = "checkpoints", together: int = 1
) -> Machines:
    """Return the machines of a job; `InputError` where the launcher does not have their provider or GPU.

    `kept`: what must outlive a machine that is lost. `together`: machines that write it.
    """
    where = f"jobs.{job.name}"
    refused = tool.refusal(job.provider, job.gpu)
    if refused is not None or job.provider not in tool.providers:
        problem, fix = refused or (f"{tool.label} rents nothing", "export to another launcher")
        raise InputError([Fault("plan", 0, where, problem, fix)])
    provider = tool.providers[job.provider]
    gpu = tool.name_of(job.gpu, provider) or job.gpu
    if tool.keeps_nothing(job.provider, job.spot_share > 0, together):
        problem = f"{tool.label} has no volume at {job.provider} that keeps {kept} when a spot machine is lost"
        problem += f", and that {together} machines can write to" if provider.keeps else ""
        fix = f"{plan_with('limits.spot', 'false')}, or export to another launcher"
        raise InputError([Fault("plan", 0, where, problem, fix)])
    same = offers_of(scenario, job)
    anywhere = job.region.startswith("any") and not any(offer.region == job.region for offer in same)
    offers = [offer for offer in same if offer.region == job.region or (anywhere and not offer.zones)]
    # Launchers know no zone identifiers.
    places = {place.partition("/")[0] for offer in offers for place in offer.regions} or {job.region}
    regions = sorted(places) if provider.regions else ["any"]
    return Machines(
        provider=provider.name,
        regions=tuple("" if region == "any" else region for region in regions),
        gpu=gpu,
        usd_per_hour=_highest(offer.usd_per_hour for offer in offers),
        spot_usd_per_hour=_highest(usd for offer in offers for usd in _spot_prices(offer)),
        keeps=provider.keeps_for(together),
        image=provider.image,
        note=provider.note,
    )


def _spot_prices(offer: Offer) -> list[float | None]:
    """Return the spot prices of the zones of a group, or that of the offer."""
    return [*(usd for _, usd in offer.zones)] or [offer.spot_usd_per_hour]


def _highest(prices: Iterable[float | None]) -> float | None:
    return max((price for price in prices if price is not None), default=None)


def task_name(job: Assignment) -> str:
    """Return the name of a job as tasks, buckets and volumes may have it: lower case, digits and hyphens."""
    return slug(job.name)


def slug(name: str) -> str:
    """Return a name in at most 40 lower-case letters, digits and hyphens, a letter first.

    Kubernetes takes no Service, and SkyPilot no cluster, whose name begins with a digit: `7b-chat` is `job-7b-chat`.
    """
    signs = "".join(sign if sign.isascii() and sign.isalnum() else "-" for sign in name.lower())
    parts = [part for part in signs.split("-") if part]
    named = parts if parts and parts[0][0].isalpha() else ["job", *parts]
    return "-".join(named)[:40].rstrip("-")


def part_folders(names: Sequence[str]) -> dict[str, str]:
    """Return a folder for the files of each job or service: its slug, with a number where another has the same."""
    slugs = [slug(name) for name in names]
    return {
        name: own if own not in slugs[:place] else f"{own}-{place + 1}"
        for place, (name, own) in enumerate(zip(names, slugs, strict=True))
    }


def task_remarks(machines: Machines, job: Assignment, trainer: FieldMap, tool: LaunchMap) -> list[str]:
    """Return what a reader of a task must know of its files, prices, machines and waiting."""
    return [
        f"starts {trainer.file}, which --to {tool.target} --to {trainer.target} -o DIR writes into the same folder",
        f"the highest price is {100 * (PRICE_MARGIN - 1):.0f} % above that of the plan, per machine and hour",
        *([machines.note] if machines.note else []),
        *_wait_remarks(job, tool),
    ]


def _wait_remarks(job: Assignment, tool: LaunchMap) -> list[str]:
    """Return where the policy of a plan on spot and a launcher differ: in how long they wait for capacity."""
    if job.spot is None or job.switch_to_on_demand_at_hours is None:
        return []
    latest = f"{job.switch_to_on_demand_at_hours:.1f}"
    return [
        f"the plan waits for spot capacity until hour {latest}, {tool.label} takes on demand at once: to wait too, "
        f"allow spot alone, and on demand again by that hour"
    ]


def launch_script(trainer: FieldMap, facts: Facts, variables: Mapping[str, str]) -> str:
    """Return the shell script that starts a run, or goes on from its newest complete checkpoint, or has nothing to do.

    The folder of the run belongs to one model, data set and recipe: that of another is refused with exit code 3.
    It counts the processes that the machines start together, and ends where they are not those of the plan.
    `variables`: shell variables of the launch command -> how the launcher of the machines says them.
    """
    lines = ["set -e"]
    if facts["instances"] > 1:
        lines += [f"{name}={value}" for name, value in variables.items()]
    lines += [*script_lines("run_once.sh"), f"OUT={shell_word(facts['output_dir'])}"]
    lines += [f'take_folder "$OUT" {shell_word(facts["recipe"])}', *preparing_lines(facts)]
    lines += ['if [ -e "$OUT/finished.txt" ]; then']
    lines += ['  echo "trained to its last step already: remove $OUT/finished.txt to train on"', "else"]
    resumes = bool(trainer.resume) and facts["method"] in trainer.resumes
    if resumes:
        name, last = (shell_word(word) for word in (trainer.checkpoints.name, trainer.checkpoints.last))
        lines += [*script_lines("newest_checkpoint.sh"), f'LATEST=$(newest_checkpoint "$OUT" {name} {last} || true)']
    lines += _world_check(trainer, facts, resumes)
    if resumes:
        lines += ['echo "starts from ${LATEST:-the beginning}"']
    start = command(trainer, {**facts, "resume": trainer.resume if resumes else ""})
    last = shell_word(trainer.checkpoints.name.replace("*", str(facts["steps"])))
    lines += [f'run_to_its_end "$OUT"/{last} env {start}']
    lines += clearing_lines(facts)
    lines += ['[ "${NODE_RANK:-0}" != 0 ] || touch "$OUT/finished.txt"', "fi", *making_lines(facts)]
    return "\n".join(lines) + "\n"


def _world_check(trainer: FieldMap, facts: Facts, resumes: bool) -> list[str]:
    """Return the lines that say how many processes train together, and end where the plan has another number.

    They end, too, where machines would go on from different checkpoints: without a folder that all have, the first
    one alone has any, and the others would train the beginning with it.
    """
    start = start_command(trainer, facts, MEETING_PORT + 1)
    if facts["gpus"] == 1 or not start:
        return [f"echo 'world size {facts['gpus']}, as planned'"]
    arguments = f'{facts["gpus"]} "$LATEST"' if resumes else facts["gpus"]
    return [*written_program("WORLD", "world_size.py"), f'{start} "$WORLD" {arguments}']
