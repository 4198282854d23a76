"""Bugs in exported files: a wrong rank, a missing flag, a wrong path in the table of a tool or a part of a script."""

from benchmarks.mutations.mutation import Area

AREA = Area()
TRAINER_FILES = "tests/exports/test_trainer_files.py"
OTHERS = "tests/exports/test_other_trainers.py"
FAKE = "tests/exports/test_fake_machine.py"
SKYPILOT = "tests/exports/test_skypilot.py"
DSTACK = "tests/exports/test_dstack.py"
TASKS = "tests/exports/test_fake_tasks.py"
FOLDER = "tests/exports/test_folder.py"

AREA.of("models/exports/trl-1.16.yaml", TRAINER_FILES, FOLDER, OTHERS)
AREA.add("TRL: each machine is the first", '--machine_rank "$$NODE_RANK"', "--machine_rank 0")
AREA.add("TRL: machines meet at no place", '--main_process_ip "$$HEAD_IP"', "", SKYPILOT)
AREA.add(
    "TRL: processes of one machine alone",
    "--multi_gpu --num_processes $gpus ",
    "--multi_gpu --num_processes $instances ",
)
AREA.add("TRL: machines of one GPU train alone", "--multi_gpu --num_processes", "--num_processes", FAKE)
AREA.add("TRL: a run begins anew", '${LATEST:+--resume_from_checkpoint "$LATEST"}', "${LATEST:+}")
AREA.add("TRL: steps are not those of the plan", "max_steps: $steps", "max_steps: $save_steps")
AREA.add("TRL: rows of another length", "max_length: $sequence_length", "max_length: $global_batch")
AREA.add(
    "TRL: a run without a log of times", "include_num_input_tokens_seen: true", "include_num_input_tokens_seen: false"
)
AREA.add(
    "TRL: a model that cannot be loaded is saved",
    "state_dict_type: FULL_STATE_DICT",
    "state_dict_type: SHARDED_STATE_DICT",
)
AREA.add("TRL: no checkpoint at SIGTERM", "enable_jit_checkpoint: true", "enable_jit_checkpoint: false")
AREA.add("TRL: sharded states wait for one another at SIGTERM", "{saves: true, engine: none}", "{saves: true}")
AREA.add(
    "TRL: full training keeps 16-bit weights",
    "{method: full, precision: bf16_mixed}, write: {dtype: float32}",
    "{method: full, precision: bf16_mixed}, write: {dtype: bfloat16}",
)
AREA.add("TRL: packed samples see each other", "packing_strategy: bfd_split}", "packing_strategy: wrapped}")
AREA.add("TRL: hybrid shards of several machines are full ones", "launch: $hybrid_variables trl", "launch: trl")

AREA.of("models/exports/llamafactory-0.9.yaml", OTHERS)
AREA.add("LLaMA-Factory: each machine is the first", 'NODE_RANK="$$NODE_RANK"', "NODE_RANK=0")
AREA.add("LLaMA-Factory: one process", "FORCE_TORCHRUN=1 NPROC_PER_NODE=$gpus llamafactory", "llamafactory")
AREA.add("LLaMA-Factory: an empty log", "logging_steps: 10 ", "logging_steps: 500 ")
AREA.add("LLaMA-Factory: a checkpoint that may be cut", "overwrite_output_dir=true", "resume_from_checkpoint=true")
AREA.add("LLaMA-Factory: packed samples see each other", "neat_packing: true", "neat_packing: false")

AREA.of("models/exports/axolotl-0.19.yaml", OTHERS)
AREA.add(
    "Axolotl: processes of all machines on each",
    "--nproc_per_node $gpus_per_instance --nnodes",
    "--nproc_per_node $gpus --nnodes",
)
AREA.add(
    "Axolotl: a sharded result", "final_state_dict_type: FULL_STATE_DICT", "final_state_dict_type: SHARDED_STATE_DICT"
)
AREA.add(
    "Axolotl: samples are left out, not cut",
    "excess_length_strategy: truncate",
    "excess_length_strategy: drop",
    TRAINER_FILES,
)
AREA.add(
    "Axolotl: the shards are the machines", "dp_shard_size: $gpus_per_instance, dp", "dp_shard_size: $instances, dp"
)

AREA.of("models/exports/accelerate-1.15.yaml", TRAINER_FILES)
AREA.add(
    "Accelerate: every machine has the number of the first", "machine_rank: give --machine_rank", "machine_rank: 0"
)
AREA.add("Accelerate: the file of one machine for two", "num_machines: $instances", "num_machines: 1")
AREA.add("Accelerate: processes of one machine alone", "num_processes: $gpus\n", "num_processes: $gpus_per_instance\n")
AREA.add("Accelerate: machines meet at no place", "--main_process_ip IP_OF_MACHINE_0 --main_process_port 29500 ", "")
AREA.add("Accelerate: a command without the file", "launch --config_file accelerate.yaml train.py", "launch train.py")
AREA.add(
    "Accelerate: a model that cannot be loaded is saved",
    "fsdp_state_dict_type: FULL_STATE_DICT",
    "fsdp_state_dict_type: SHARDED_STATE_DICT",
)
AREA.add("Accelerate: stage 3 saves no weights", "zero3_save_16bit_model: true", "zero3_save_16bit_model: false")
AREA.add(
    "Accelerate: hybrid shards are the machines",
    "parallelism_config_dp_shard_size: $gpus_per_instance",
    "parallelism_config_dp_shard_size: $instances",
)
AREA.add("Accelerate: each GPU trains alone", "distributed_type: MULTI_GPU}", 'distributed_type: "NO"}')

AREA.of("models/exports/deepspeed-0.19.yaml", OTHERS, TRAINER_FILES)
AREA.add(
    "DeepSpeed: an optimizer on the GPU",
    "offload_optimizer: {device: cpu, pin_memory: true}}}\n    optimizer_and",
    "offload_optimizer: {device: none}}}\n    optimizer_and",
)
AREA.add(
    "DeepSpeed: weights that nothing loads",
    "stage3_gather_16bit_weights_on_model_save: true}",
    "stage3_gather_16bit_weights_on_model_save: false}",
)

AREA.add("DeepSpeed: each machine is the first", "--node_rank K", "--node_rank 0")
AREA.add("DeepSpeed: machines meet at no place", "--master_addr IP_OF_MACHINE_0 ", "")
AREA.add("DeepSpeed: a shell of one machine on another", "--no_ssh ", "")
AREA.add("DeepSpeed: all GPUs on each machine", "slots=$gpus_per_instance", "slots=$gpus")
AREA.add("DeepSpeed: one GPU", "deepspeed --num_gpus $gpus train.py", "deepspeed train.py")
AREA.add(
    "DeepSpeed: the batch of all GPUs on each",
    "train_micro_batch_size_per_gpu: $micro_batch",
    "train_micro_batch_size_per_gpu: $global_batch",
)
AREA.add(
    "DeepSpeed: no accumulation",
    "gradient_accumulation_steps: $accumulation_steps",
    "gradient_accumulation_steps: $micro_batch",
)
AREA.add("DeepSpeed: another stage", "zero1: {zero_optimization: {stage: 1}}", "zero1: {zero_optimization: {stage: 0}}")

AREA.of("models/exports/kubernetes-1.34.yaml", "tests/exports/test_folder_check.py")
AREA.add("Kubernetes: a secret that is never made", ", and the Secret hf-token with HF_TOKEN", "")

AREA.of("models/exports/slurm-24.05.yaml", "tests/exports/test_folder_check.py")
AREA.add("Slurm: a job without its script", "starts: [run.sh, requirements.txt]", "starts: []")

AREA.of("models/exports/unsloth-2026.10.yaml", "tests/exports/test_environment.py", FOLDER)
AREA.add("Unsloth: a run begins anew", "resume: '${LATEST:+\"$LATEST\"}'", "resume: ''")

AREA.of("models/exports/environment.sh", FAKE)
AREA.add(
    "a folder of the user is removed", 'if [ -e "$VENV.unfinished" ]; then rm', 'if [ ! -x "$VENV/bin/pip" ]; then rm'
)
AREA.add("an environment that was cut off is taken", '    rm "$VENV.unfinished"\n', "    true\n")
AREA.add("packages of the image are not seen", "--seed --system-site-packages", "--seed")
AREA.add("an old Python", "--python '>=3.11,<3.14'", "--python '>=3.8'")

AREA.of("models/exports/run_once.sh", FAKE, TASKS)
AREA.add(
    "dash sends no signal",
    '[ -z "$run" ] || kill -s TERM -- "-$run" 2> /dev/null || kill -s TERM "$run" 2> /dev/null',
    '[ -z "$run" ] || kill -TERM -- "-$run" 2> /dev/null',
)
AREA.add("a trainer outlives its script", "signalled=yes; pass_signal_on'", "signalled=yes'")
AREA.add("one process of the trainer gets the signal", 'kill -s TERM -- "-$run" 2> /dev/null || ', "")
AREA.add("an interrupt is not passed on", "pass_signal_on' TERM INT", "pass_signal_on' TERM")
AREA.add("a signal before there is a group is lost", ' || kill -s TERM "$run" 2> /dev/null || true', " || true")
AREA.add("a worker that saves is killed", "left=1200", "left=1")
AREA.add("a stop that came too late is one", '{ [ "$code" = 0 ] && [ -e "$last" ]; } || {', "{")

AREA.of("models/exports/world_size.py", "tests/exports/test_checkpoints.py")
AREA.add("machines go on from different steps", "if lowest != highest:", "if lowest > highest:")

AREA.of("models/exports/newest_checkpoint.sh", "tests/exports/test_checkpoints.py")
AREA.add("the oldest checkpoint", "sort -rV", "sort -V")
AREA.add("a cut checkpoint is whole", '[ "$size" -eq "$((head + 8 + ${end:-0}))" ] ;;', ":  ;;")
AREA.add("shards that are missing are not missed", '[ -s "$(dirname "$1")/$part" ] || exit 1', "true")
AREA.add("an optimizer without its schedule", '! has_optimizer "$1" || [ -s "$1/scheduler.pt" ]', "true")

AREA.of("planner/exports/launchers.py", SKYPILOT, DSTACK, FOLDER)
AREA.add(
    "SkyPilot: checkpoints die with the machine",
    '"file_mounts": {CHECKPOINT_FOLDER: bucket}',
    '"file_mounts": {"/tmp": bucket}',
)
AREA.add(
    "what lies in the volume is copied",
    'return [] if path.startswith(f"{CHECKPOINT_FOLDER}/") else [path]',
    "return [path]",
)
AREA.add("SkyPilot: one node", '"num_nodes": job.instances', '"num_nodes": 1')
AREA.add(
    "SkyPilot: no token", '**({"secrets": {TOKEN: None}} if facts["needs_token"] else {}),\n        "setup"', '"setup"'
)
AREA.add(
    "SkyPilot: a run outside of its environment",
    '"run": in_environment(task_name(job), _alone(launch_script(trainer, facts, SKYPILOT_TASK_VARIABLES))),',
    '"run": launch_script(trainer, facts, SKYPILOT_TASK_VARIABLES),',
)
AREA.add("SkyPilot: the rank of each node is 0", '"$SKYPILOT_NODE_RANK"', "0")
AREA.add(
    "SkyPilot: every node meets at itself", """SKYPILOT_NODE_IPS" | sed -n 1p""", """SKYPILOT_NODE_IPS" | sed -n 2p"""
)
AREA.add(
    "SkyPilot: on demand before spot",
    "markets = [(True, machines.spot_usd_per_hour)] if on_spot else []",
    "markets: list = []",
)
AREA.add("SkyPilot: buckets of one name", "-{hashlib", "-x{0 and hashlib")
AREA.add(
    "dstack: faults are tried again",
    '_RETRIED = ("no-capacity", "interruption")',
    '_RETRIED = ("no-capacity", "interruption", "error")',
)
AREA.add("dstack: 64 MB of shared memory", '"shm_size": shared', '"shm": shared')
AREA.add("dstack: settings stay at home", 'task["files"] = [trainer.file, *trainer', 'task["files"] = [*trainer')
AREA.add("dstack: the rank of each node is 0", '"$DSTACK_NODE_RANK"', "0")
AREA.add("Kubernetes: pods share no checkpoints", '"mountPath": CHECKPOINT_FOLDER', '"mountPath": "/data"')
AREA.add(
    "Kubernetes: the script is not the first process",
    """cp -rL /job/* {RUN_FOLDER}/ && exec bash""",
    """cp -rL /job/* {RUN_FOLDER}/; bash""",
    FAKE,
)
AREA.add("Kubernetes: the first pod is another", '"value": f"{name}-0.{name}"', '"value": f"{name}-1.{name}"')
AREA.add("Kubernetes: pods without numbers", '"completionMode": "Indexed"', '"completionMode": "NonIndexed"')
AREA.add(
    "Kubernetes: a token for nobody",
    'variables.append({"name": TOKEN, "valueFrom"',
    'variables.append({"name": "TOKEN", "valueFrom"',
)
AREA.add("Slurm: nodes install into one place", "VENV=${TMPDIR:-/tmp}/venv-$SLURM_JOB_ID exec", "exec")
AREA.add("Slurm: nodes that are taken end the run", 'lines += ["#SBATCH --requeue"]', "lines += []")
AREA.add("Slurm: a task of one CPU", 'export SRUN_CPUS_PER_TASK="${SLURM_CPUS_PER_TASK:-1}"', "true")
AREA.add(
    "Hugging Face: checkpoints die with the machine",
    "}}:{CHECKPOINT_FOLDER}\"'",
    "}}:/data\"'",
    "tests/exports/test_environment.py",
)

AREA.of("planner/exports/machine_names.py", FOLDER, FAKE)
AREA.add("a script of one's own has no alpha", '_OF_RUN = ("lora_alpha", ', "_OF_RUN = (", TRAINER_FILES)
AREA.add(
    "checkpoints of another plan are gone on with",
    """lines += [f'take_folder "$OUT" {shell_word(facts["recipe"])}', *prep""",
    "lines += ['mkdir -p \"$OUT\"', *prep",
)
AREA.add("a world of another size trains", "lines += _world_check(trainer, facts, resumes)", "lines += []")
AREA.add(
    "a finished run trains again", "lines += ['if [ -e \"$OUT/finished.txt\" ]; then']", "lines += ['if false; then']"
)

AREA.of("planner/exports/script_parts.py", TASKS)
AREA.add(
    "a setup that failed is passed over",
    '"\\n".join(("set -e", *environment_lines(name)',
    '"\\n".join((*environment_lines(name)',
)

AREA.of("planner/exports/launchers.py", FAKE, FOLDER)
AREA.add(
    "a fault of a step is passed over",
    '"set -euo pipefail",\n        \'cd "$(dirname "$0")"\',\n        *environment_lines(task_name(given.job)),',
    '\'cd "$(dirname "$0")"\',\n        *environment_lines(task_name(given.job)),',
)
AREA.add("packages outside of an environment", "        *environment_lines(task_name(given.job)),\n", "")
AREA.add("nothing is tried before the download", "        *trying_lines(facts),\n", "")
AREA.add("weights are downloaded while all GPUs wait", "        *_downloads(facts, trainer.download),\n", "")
