"""`run.sh`, `requirements.txt` and README of a folder to launch from: download, train, resume, upload."""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from planner.exports.facts import Given
from planner.exports.field_map import Facts, FieldMap, LaunchMap, launch_maps
from planner.exports.launchers import local_paths, token_remark
from planner.exports.machine_names import filled, launch_script, offers_of, task_name
from planner.exports.quoting import document, shell_word
from planner.exports.result_step import SCRIPT, result_body
from planner.exports.script_parts import (
    commented,
    environment_lines,
    environment_remark,
    header,
    split_packages,
    trying_lines,
    wrapped,
    written_by,
)
from planner.records import record

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

VARIABLES = {
    "NODE_RANK": '"${NODE_RANK:?number of this machine, from 0}"',
    "HEAD_IP": '"${HEAD_IP:?address of machine 0}"',
}
"""Shell variables of a launch command, which the caller sets where there are several machines."""
UPLOAD = "UPLOAD_TO"
"""Environment variable with the repository that the result is uploaded to."""


def run_script(given: Given, trainer: FieldMap, facts: Facts) -> str:
    """Return the script that one machine runs; it goes on from the last checkpoint where there is one."""
    step = facts["result"]
    result = '"$OUT"' if step is None or step.trouble or step.offer else f'"$OUT"/{step.folder}'
    own = (trainer.checkpoints.name, "planned.txt", "finished.txt")
    left_out = " ".join(f"--exclude {shell_word(name)}" for name in own)
    lines = [
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        *environment_lines(task_name(given.job)),
        "pip install -r requirements.txt",
        *(f"pip install {package}" for package in split_packages(trainer, facts)[1]),
        *trying_lines(facts),
        *_downloads(facts, trainer.download),
        launch_script(trainer, facts, VARIABLES).removeprefix("set -e\n").rstrip(),
        f'if [ -n "${{{UPLOAD}:-}}" ] && [ "${{NODE_RANK:-0}}" = 0 ]; then',
        f'  hf upload "${UPLOAD}" {result} {left_out}',
        "fi",
    ]
    remarks = [
        environment_remark(given.job.gpu),
        f"{UPLOAD}=OWNER/NAME uploads the result to the Hub when the run has ended",
    ]
    copied = "must be on each machine, next to this file; nothing copies it there"
    remarks += [f"{path} {copied}" for path in local_paths(facts)]
    if facts["needs_token"]:
        remarks.append(token_remark(facts["model_id"]))
    if given.job.instances > 1:
        remarks.append("every machine runs it, with NODE_RANK and HEAD_IP set")
    text = commented(header(given.plan, given.job, trainer, "bash run.sh", remarks, facts["result_remarks"]))
    return "#!/usr/bin/env bash\n" + text + "\n".join(lines) + "\n"


def result_script(given: Given, facts: Facts) -> str | None:
    """Return the script of the machine that the plan rents to make the result alone; None where it rents none."""
    step, job = facts["result"], given.job
    if step is None or step.trouble or step.offer is None:
        return None
    lines = [
        f"Result of job {job.name} of plan {given.plan.scenario}: {step.form}, {step.bits} bits, after the run.",
        written_by(given.plan),
        _machine_of_result(given, step.offer),
        f"Run: bash {SCRIPT} FOLDER, the folder of the run; or OWNER/NAME of the Hub, where {UPLOAD} sent its result",
        f"Note: {UPLOAD}=OWNER/NAME uploads what is made",
    ]
    if job.export is not None and step.merges:
        lines.append(f"Note: merging takes {job.export.ram_gb:.0f} GB of host memory")
    lines += [f"Note: {remark}" for remark in _asked_of_all(facts)]
    body = result_body(step, facts, task_name(job), UPLOAD)
    return "#!/usr/bin/env bash\n" + commented(wrapped(lines)) + "\n".join(body) + "\n"


def _machine_of_result(given: Given, offer: str) -> str:
    """Return the machine that makes the result, with its hours and dollars."""
    found = next((one for one in given.job.separate_machines if one.stage == "export"), None)
    return f"Machine: {offer}" + (f", likely {found.hours:.1f} h, ${found.usd:,.2f}" if found is not None else "")


def _downloads(facts: Facts, of_weights: str) -> list[str]:
    """Return the commands that fetch weights and data of the Hub; folders and files are there already.

    `of_weights`: the command of the tool for weights, with `$model_id`; empty for that of the Hub.
    """
    found = []
    for command, name in (
        (
            of_weights or "hf download $model_id --exclude 'original/*' --exclude 'consolidated*' --exclude '*.gguf'",
            facts["model_id"],
        ),
        ("hf download --repo-type dataset $model_id", facts["dataset_name"]),
    ):
        if name and str(name).count("/") == 1 and not str(name).startswith((".", "/", "-")):
            found.append(Template(command).substitute(model_id=shell_word(name)))
    return found


def readme(given: Given, files: Sequence[str], launchers: Mapping[str, LaunchMap], facts: Facts) -> str:
    """Return what it is, what must be there first, how to launch, follow and stop it, and what an hour costs."""
    job, name = given.job, task_name(given.job)
    tools = launchers.values()
    starts = ", or ".join(f"`{tool.command(job)}`" for tool in tools)
    stops = "".join(f"`{stop}`, or " for tool, stop in stop_commands(given).items() if tool in launchers)
    needs = [(tool.command(job), tool.first_needs(name, facts["needs_token"])) for tool in tools]
    first = [f"`{command}` needs {what}" for command, what in needs if what]
    usd = usd_per_hour(given)
    most = "at most " if job.spot_share > 0 else ""
    by_hand = "`bash run.sh` on the machine itself"
    if job.instances > 1:
        by_hand = (
            f"`NODE_RANK=NUMBER HEAD_IP=ADDRESS bash run.sh` on each of the {job.instances} machines, from number 0"
        )
    lines = [
        f"Files of job {job.name} ({job.gpus} x {job.gpu} at {job.provider}): {', '.join(files)}.",
        "First: " + "; ".join([*_asked_of_all(facts), *first]) + ".",
        f"Launch: {starts + ', or ' if starts else ''}{by_hand}.",
        f"Follow: `planner track plan.json LOG`, with {job.steps:,} steps of {job.step_seconds:.3g} s planned.",
        *(f"Result: {remark}." for remark in facts["result_remarks"]),
        f"Stop: {stops}{GIVE_BACK}." + (f" Until then {most}${usd:,.2f} per hour." if usd is not None else ""),
    ]
    return document("\n".join(lines) + "\n")


@record(frozen=True)
class Checklist:
    """What exported files leave: files that they start or read, what a person must do, and what an hour costs."""

    needs: tuple[str, ...]
    see_to: tuple[str, ...]
    hourly: tuple[str, ...]
    """A line of each job or service: dollars from the first minute on, and the commands that stop them."""

    def inside(self, folder: str, files: Collection[str]) -> Checklist:
        """Return the same of files that lie in a folder; empty: in none."""
        if not folder:
            return self
        see_to = (f"{folder}{'/' if line.partition(': ')[0] in files else ': '}{line}" for line in self.see_to)
        needs = (str(Path(folder) / path) for path in self.needs)
        return Checklist(tuple(needs), tuple(see_to), tuple(f"{folder}: {line}" for line in self.hourly))


def hourly_text(usd: str | None, stops: Sequence[str]) -> str:
    """Return what machines cost from their first minute on, and what stops that."""
    cost = f"{usd} per hour from the first minute on" if usd is not None else "the plan has no price of an hour"
    return f"{cost}; stop: {', or '.join((*stops, GIVE_BACK))}"


def job_hourly(given: Given, stops: Sequence[str]) -> str:
    """Return what the machines of a job cost, and the commands that stop them."""
    usd = usd_per_hour(given)
    most = "at most " if given.job.spot_share > 0 else ""
    return hourly_text(None if usd is None else f"{most}${usd:,.2f}", stops)


GIVE_BACK = "give the machine back"
"""What stops the bill of a machine that no launcher rented."""


def stop_commands(given: Given) -> dict[str, str]:
    """Return the command that stops a job and its bill, by launcher."""
    name = {"name": task_name(given.job)}
    return {target: filled(tool.stop_command(given.job), name) for target, tool in launch_maps().items()}


def _asked_of_all(facts: Facts) -> list[str]:
    """Return what every way to launch needs of the user: the token of a gated model, and data that lie here."""
    found = [token_remark(facts["model_id"])] if facts["needs_token"] else []
    return [*found, *(f"{path} next to these files on each machine" for path in local_paths(facts))]


def usd_per_hour(given: Given) -> float | None:
    """Return the dollars of an hour of all machines, from their first minute on; on demand where they are sold so."""
    offers = offers_of(given.scenario, given.job)
    there = [offer for offer in offers if offer.region == given.job.region] or offers
    prices = [price for offer in there if (price := offer.usd_per_hour or offer.spot_usd_per_hour) is not None]
    return max(prices) * given.job.instances if prices else None
