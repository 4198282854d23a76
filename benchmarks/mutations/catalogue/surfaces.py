"""Bugs where a plan leaves the program: its text, its exported files, and the page."""

from benchmarks.mutations.mutation import Area

AREA = Area()

AREA.of("planner/report/words.py", "tests/report/test_words.py", "tests/report/test_small_words.py")
AREA.add("likely and by are one time", "by(both.at_confidence)", "by(both.expected)", "tests/report/test_plan_text.py")
AREA.add("near certainty is certain", "return f\"{least or 'over '}99 %\"", "return f\"{least or 'over '}100 %\"")
AREA.add("probabilities are rounded up", "math.floor(probability * 100 + 1e-9)", "math.ceil(probability * 100)")
AREA.add("minutes are those of a day", "else max(1, round(value * 60))", "else max(1, round(value * 24))")
AREA.add("a loss is a gain", 'return f"-${text}" if amount < 0', 'return f"-${text}" if amount > 1e9')

AREA.of("planner/report/plan_sections.py", "tests/report/test_plan_text.py", "tests/report/test_shown_arithmetic.py")
AREA.add("a batch of one group is shown", 'f" x {ranks:,} {several', 'f" x {1:,} {several')
AREA.add(
    "the smallest parts of memory are shown",
    "key=lambda part: (-part[1], part[0]))[:4]",
    "key=lambda part: part[1])[:4]",
)
AREA.add(
    "memory is against what is allocated", "words.bar(vram.peak / vram.usable)", "words.bar(vram.allocated / 80.0)"
)

AREA.of("planner/report/plan_answer.py", "tests/report/test_plan_answer.py")
AREA.add(
    "a way shows its likely hours", "option.cost_usd, option.hours_at_confidence,", "option.cost_usd, option.hours,"
)
AREA.add("ways begin with the most expensive", "key=lambda way: way.cost_usd", "key=lambda way: -way.cost_usd")

AREA.of("planner/report/plan_answer.py", "tests/report/test_plan_answer.py")
AREA.add("a risk names no safer plan", "option for option in job.safer if", "option for option in job.safer[:0] if")
AREA.add("the fourth risk is not named", "risks[:MOST_RISKS], risks[MOST_RISKS:]", "risks[:MOST_RISKS], []")

AREA.of("planner/solving/plan_evidence.py", "tests/solving/test_safer_plans.py")
AREA.add("a secure plan may be on a private host", '(*tiers.forbid, "community")', "(*tiers.forbid,)")

AREA.of("planner/report/frontier_text.py", "tests/report/test_frontier_text.py")
AREA.add(
    "a frontier shows its cheapest point alone",
    "(frontier.points[-1], frontier.points[0])",
    "(frontier.points[-1], frontier.points[-1])",
)
AREA.add("a step falls gradually", "leg.saved_per_hour > 0), None)", "leg.saved_per_hour > -1), None)")
AREA.add("equal machines are counted once", '(f"{card} each", f"({count} jobs)") if', '(f"{card}",) if')

AREA.of(
    "planner/exports/facts.py",
    "tests/exports/test_trainer_files.py",
    "tests/exports/test_other_trainers.py",
    "tests/exports/test_folder.py",
)
AREA.add("a resumed run is exported without its past", "job.steps_before + job.steps", "job.steps")
AREA.add("the scale of adapters is their rank", '"lora_alpha": 2 *', '"lora_alpha": 1 *')
AREA.add("several GPUs start as one", '"--multi_gpu" if job.gpus > 1', '"--multi_gpu" if job.gpus > 8')
AREA.add("checkpoints of all jobs share a folder", '/{_folder(job.name)}"', '/job"')

AREA.of("planner/exports/launchers.py", "tests/exports/test_folder.py", "tests/exports/test_tools.py")
AREA.add("pods take the GPUs of all machines", 'com/gpu": str(job.gpus_per_instance)', 'com/gpu": str(job.gpus)')
AREA.add("one pod runs for all machines", '"parallelism": job.instances', '"parallelism": 1')
AREA.add(
    "runs are stopped when they should end",
    "job.deadline_hours is not None else 2 * job.hours.at_confidence",
    "job.deadline_hours is not None else job.hours.expected",
)
AREA.add("a batch job takes one machine", '"nodes": job.instances,\n        "ntasks', '"nodes": 1,\n        "ntasks')

AREA.add(
    "each node of Slurm is the first", "NODE_RANK=$SLURM_NODEID", "NODE_RANK=0", "tests/exports/test_fake_machine.py"
)

AREA.of("planner/exports/script_parts.py", "tests/exports/test_result_step.py")
AREA.add(
    "every machine makes the result", """missing = f'[ "${{NODE_RANK:-0}}" = 0 ] && [ ! -e""", """missing = f'[ ! -e"""
)
AREA.add(
    "every machine installs what quantises", """needed = f'[ "${{NODE_RANK:-0}}" = 0 ] && ! {{""", """needed = f'! {{"""
)
AREA.add("adapters are quantised without their base", "weights = f'\"$OUT\"/{MERGED}'", "weights = '\"$OUT\"'")
AREA.add("a PyTorch that is too old is said to do", "< tool.least_torch:", "< (2, 0):")
AREA.add("merged weights are no 16 bits of the training", '"float16" if job', '"float32" if job')

AREA.of("models/exports/results/make_gguf.sh", "tests/exports/test_result_step.py")
AREA.add("four bits are eight", 'model-q4_0.gguf" Q4_0', 'model-q4_0.gguf" Q8_0')
AREA.add("the 16-bit file stays in the result", 'rm "$2.part/model-16bit.gguf"', "true")

AREA.of("models/exports/run_once.sh", "tests/exports/test_fake_machine.py")
AREA.add("a run that was stopped ended well", "    code=143", "    code=0")
AREA.add("the folder of another plan is taken", "    return 3", "    return 0")

AREA.of("planner/exports/machine_names.py", "tests/exports/test_fake_machine.py")
AREA.add(
    "another machine than the first says that the run has ended",
    """'[ "${NODE_RANK:-0}" != 0 ] || touch""",
    """'[ "${NODE_RANK:-0}" = 0 ] || touch""",
)

AREA.of("planner/exports/launchers.py", "tests/exports/test_fake_machine.py", "tests/exports/test_folder.py")
AREA.add("every machine uploads", """}:-}}" ] && [ "${{NODE_RANK:-0}}" = 0 ]; then'""", """}:-}}" ]; then'""")
AREA.add("checkpoints are uploaded", 'f"--exclude {shell_word(name)}"', 'f"--include {shell_word(name)}"')

AREA.of("planner/exports/export.py", "tests/exports/test_folder_check.py")
AREA.add("changed files pass the check", '_hash(text) == entry["sha256"]', 'entry["sha256"]')
AREA.add("changed settings pass the check", "if now != value and", "if now is None and")
AREA.add("a plan of another fingerprint passes", 'plan_fingerprint(plan) != listed["plan"]', 'not listed["plan"]')

AREA.of("planner/services/served_kinds.py", "tests/services/test_service_files.py")
AREA.add("machines scale by a load above their target", "math.ceil(load / target - 1e-9)", "math.floor(load / target)")
AREA.add("hours without a machine count as load", "strict=True) if count", "strict=True)")

AREA.of("planner/services/service_files.py", "tests/services/test_service_files.py")
AREA.add("a machine is one pod", "count * kind.made.replicas for count", "count for count")
AREA.add(
    "a pod takes all GPUs of its machine",
    "str(made.gpus_per_replica)}}",
    "str(made.gpus_per_replica * made.replicas)}}",
)
AREA.add("a service starts with its quietest hour", "_deployment(kind, max(pods))", "_deployment(kind, min(pods))")

AREA.of("planner/exports/script_parts.py", "tests/exports/test_hostile_names.py")
AREA.add("names are put into commands as they are", "return shlex.quote(str(text))", "return str(text)")
AREA.add("a dollar sign between quotes is obeyed", r"'([\\$", r"'([\\")

AREA.of("planner/web/setting_fields.py", "tests/web/test_fields.py", "tests/web/test_server.py")
AREA.add(
    "an emptied budget is zero",
    "'null' if control.may_be_empty and not value",
    "'0' if control.may_be_empty and not value",
)
AREA.add("spot that is switched off stays on", "'true' if value == 'on' else 'false'", "'true'")
AREA.add("spot prices keep their factor", "spot_usd_per_hour_factor: {number}}}", "spot_usd_per_hour_factor: 1}}")
AREA.add("the page reads files by their path", "if is_config_path(value.casefold()):", "if not value:")
AREA.add("forbidden names are allowed", 'key = "forbid" if value.startswith(FORBID)', 'key = "forbid" if not value')

AREA.of("planner/web/server.py", "tests/web/test_server.py")
AREA.add("other sites may ask", "if origin is not None and origin !=", "if origin is None and origin !=")
AREA.add("any token is that of the page", "if not secrets.compare_digest(", "if secrets.compare_digest(b'', ")
AREA.add(
    "a curve keeps the deadlines",
    "for key, setting in settings.items() if key not in deadlines",
    "for key, setting in settings.items()",
)
AREA.add("a body of any size is read", "if len(body) > most:", "if len(body) > 1e12:")

AREA.of("planner/web/workers.py", "tests/web/test_workers.py")
AREA.add("a process that was killed ends the page", "for is_last in (False, True):", "for is_last in (True,):")
