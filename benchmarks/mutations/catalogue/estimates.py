"""Bugs in memory, speed and stages: flags, bytes, units and links."""

from benchmarks.mutations.catalogue.tests import (
    ADAPTERS,
    DATA_STAGES,
    HEAD,
    LIMITS,
    PHYSICS,
    STAGE_TIMES,
    STAGES,
    UNCERTAINTY,
)
from benchmarks.mutations.mutation import Area

AREA = Area()
PAIRS = "tests/configurations/test_preference_tuning.py"

AREA.of("planner/configurations/coefficients.py", PHYSICS)
AREA.add("the margin follows no confidence", "offload).sigma, confidence", "offload).sigma, 0.8")

AREA.of("planner/configurations/coefficients.py", PHYSICS)
AREA.add("prepared bases have the loss of plain ones", 'return "hf-prepared"', 'return "hf"')
AREA.add("losses of pairs cast 16-bit logits", "(job.tuning_row.loss_16_bit or name) if narrow else name", "name")
AREA.add("rotation is always fused", "rope_factor=2.0 if network.rope", "rope_factor=1.0 if network.rope")
AREA.add(
    "communicators are added to the context of Megatron",
    "fit_nccl_gib=0.0 if megatron",
    "fit_nccl_gib=1.0 if megatron",
    equivalent="the estimate itself adds no communicators to a Megatron context",
)
AREA.add("a reward model has logits", "0.0 if job.tuning_row.scalar else loss.logit_bytes", "loss.logit_bytes", PAIRS)
AREA.add(
    "log-probabilities computed once are computed in every epoch",
    "job.tuning_row.further_forwards(once, job.work.epochs)",
    "job.tuning_row.further_forwards(False, job.work.epochs)",
    PAIRS,
)
AREA.add("states have the whole margin", "recipe_spread(recipe, library).known_share * margin", "margin")
AREA.add("looped experts are as fast as dense layers", "if not network.experts:", "if True:")
AREA.add("frozen parts are in 8 bit", "2.0 * network.frozen_parameters / GIB", "1.0 * network.frozen_parameters / GIB")
AREA.add("Megatron recomputes matrix products", '"scores": CHECKPOINT_MEGATRON', '"scores": CHECKPOINT')
AREA.add("every profile has fused tensor traffic", 'fused=int(profile == "fused")', "fused=1")
AREA.add(
    "gradients are never reduced at the end",
    "overlaps_reduction=int(not framework",
    "overlaps_reduction=int(True or not framework",
)
AREA.add("dequantisation is free", "        if recipe.weight_bits < 16\n", "        if recipe.weight_bits < 4\n")

AREA.of("planner/configurations/coefficients.py", PHYSICS)
AREA.add("both directions of NVLink count", "gpu.nvlink_gb_s * GB / 2", "gpu.nvlink_gb_s * GB")
AREA.add("gigabits are gigabytes", "network_gbps * GB / 8", "network_gbps * GB")
AREA.add("NVLink is there without a bridge", 'if link in ("nvlink", "nvswitch", "ici") else 0.0', "if link else 0.0")
AREA.add("memory is in GB", "gpu.usable_gib * GIB", "gpu.usable_gib * GB", "tests/estimates/memory/test_peak.py")
AREA.add("bandwidth is in GiB/s", "gpu.memory_bandwidth_gb_s * GB", "gpu.memory_bandwidth_gb_s * GIB")

AREA.of("planner/configurations/grid.py", PHYSICS)
AREA.add("hybrid shards are plain ones", "float(r.is_hybrid)", "0.0")
AREA.add(
    "padded batches are of one length",
    "return shape.mean_length / shape.longest if job.packing in VARIABLE else 0.0",
    "return 0.0",
)
AREA.add(
    "the work of a pair is that of one answer",
    "    sample_tokens = job.answers * mean\n",
    "    sample_tokens = mean\n",
    PAIRS,
)
AREA.add("all GPUs are in one node", "gpus_per_node=row([m.gpus_per_instance for", "gpus_per_node=row([m.gpus for")

AREA.of("planner/estimates/memory_terms.py", PHYSICS)
AREA.add(
    "a copy of the model is whole on every GPU",
    "shards = np.where(np.greater_equal(layout.zero_stage, 3), _shards(layout), 1.0)",
    "shards = np.where(np.greater_equal(layout.zero_stage, 9), _shards(layout), 1.0)",
    PAIRS,
)
AREA.add(
    "a copy in host memory takes none there",
    "moved = moved + np.not_equal(states.host_reference, 0) * here.reference",
    "moved = moved + 0.0 * here.reference",
    PAIRS,
)
AREA.add(
    "no buckets beside the gradients of DDP",
    "np.greater(layout.data_parallel, 1), states.reducer_copies, 0.0)",
    "np.greater(layout.data_parallel, 1), 0.0, 0.0)",
)
AREA.add("stage 1 shards no optimizer", "for stage in (ones, twos, threes)", "for stage in (twos, twos, threes)")
AREA.add("stage 2 shards the weights", "for stage in (ones, twos, threes)", "for stage in (ones, twos, twos)")
AREA.add(
    "hybrid shards span all nodes",
    "np.where(np.not_equal(layout.hybrid, 0), in_node, everywhere)",
    "np.where(np.not_equal(layout.hybrid, 0), everywhere, everywhere)",
)
AREA.add(
    "layers of a stage are rounded down",
    "np.ceil(np.divide(network.layers, pipeline))",
    "np.floor(np.divide(network.layers, pipeline))",
    "tests/estimates/memory",
)
AREA.add(
    "gradients die before the forward pass",
    "states.gradients_in_forward, 0)) * gr",
    "states.gradients_in_forward, 0)) * 0.0 * gr",
)
AREA.add(
    "DeepSpeed steps with the gradients of all ranks",
    "step_gradients=gradients / others",
    "step_gradients=gradients",
    "tests/estimates/memory",
)
AREA.add("DeepSpeed has no bucket", "bucket=states.bucket_bytes", "bucket=0.0 * states.bucket_bytes")
AREA.add("the root unit is freed", "np.where(keeps_full, all_of_it, at_loss)", "np.where(keeps_full, all_of_it, 0.0)")

AREA.add("every rank holds all experts", "experts * (1.0 - shards / held)", "experts * 0.0")

AREA.of("planner/estimates/memory_terms.py", PHYSICS)
AREA.add(
    "a pair is stored as one answer",
    "tokens = layout.answers * np.divide(layout.longest_sequence, layout.context)  # t at b = 1",
    "tokens = np.divide(layout.longest_sequence, layout.context)  # t at b = 1",
    PAIRS,
)
AREA.add(
    "stored activations of one micro-batch in flight",
    "stored_first = stored_last * _in_flight(layout)",
    "stored_first = stored_last",
)
AREA.add(
    "logits are not cut by tensor parallelism",
    "logits_held = tokens * network.vocab / layout.tensor",
    "logits_held = tokens * network.vocab",
)
AREA.add(
    "FSDP keeps the gradient of one layer's input",
    "keeps * (_stage_blocks(network, layout.pipeline) * layer.boundary)",
    "keeps * layer.boundary",
)

AREA.of("planner/estimates/memory_terms.py", PHYSICS)
AREA.add(
    "DeepSpeed sums no gradients on the host",
    "sums = np.greater(states.bucket_bytes, 0)",
    "sums = 0.0",
    "tests/estimates/memory",
)

AREA.of("planner/estimates/memory_fit.py", PHYSICS)
AREA.add(
    "the margin is on the context, too",
    "above = phi * self.fragments_slope * micro_batch + self.context_bytes",
    "above = phi * self.fragments_slope * micro_batch + whole * self.context_bytes",
)
AREA.add(
    "the bucket is freed within the backward pass",
    "{**gathered, **bucket},\n",
    "{**gathered},\n",
    "tests/estimates/memory",
)
AREA.add("the context is in GB", "context_bytes=context_gib * GIB", "context_bytes=context_gib * 1e9")
AREA.add("a tight plan is judged like any other", "np.maximum(phi, TIGHT_PHI)), need)", "phi), need)")

AREA.of("planner/estimates/device.py", HEAD, ADAPTERS, PHYSICS)
AREA.add(
    "a micro-batch of pairs is timed as one of answers",
    "layout.micro_batch * layout.answers * layout.sequence / layout.context",
    "layout.micro_batch * layout.sequence / layout.context",
    PAIRS,
)
AREA.add("a pass forward is half a step", "1.0 / (3.0 - frozen + recomputed)", "1.0 / (2.0 + 0.0 * frozen)", PAIRS)
AREA.add(
    "the head of LoRA has a weight gradient",
    "(entries * 2.0 * network.hidden * passes)",
    "(entries * 2.0 * network.hidden * 3.0)",
)
AREA.add(
    "frozen layers have weight gradients", "2.0 + (1.0 - states.frozen) / coefficients", "2.0 + 1.0 / coefficients"
)
AREA.add("attention counts the whole square", "(~eager * 0.5) * flop", "(~eager * 1.0) * flop")
AREA.add("quantised layers are dequantised once", "(2.0 + again.matmul) * offload * kernels", "1.0 * offload * kernels")
AREA.add("the first gradient is added to nothing", "(1.0 - 1.0 / np.asarray(layout.accumulation))", "1.0")
AREA.add("adapters have hooks of DeepSpeed", "* (1.0 - setup.states.frozen)", "* 1.0")

AREA.of("planner/estimates/step_time.py", PHYSICS)
AREA.add("a stage hands on activations alone", "2.0 * _ACTIVATION_BYTES", "_ACTIVATION_BYTES")
AREA.add("a GPU receives its own keys", "(np.asarray(layout.context) - 1.0)", "np.asarray(layout.context)")
AREA.add(
    "weights are gathered once",
    "2.0 * states.gathered_bytes * network.parameters + gradients",
    "1.0 * states.gathered_bytes * network.parameters + gradients",
)
AREA.add(
    "every node has the network of all", "across=np.minimum(inside, node / per_node)", "across=np.minimum(inside, node)"
)
AREA.add(
    "stage 2 reduces once per step",
    "np.equal(layout.zero_stage, 2), layout.accumulation, 1.0)",
    "np.equal(layout.zero_stage, 2), 1.0, 1.0)",
)
AREA.add(
    "a pipeline gathers in every micro-batch",
    "np.greater(layout.pipeline, 1), layout.accumulation, 1.0)",
    "np.greater(layout.pipeline, 1), 1.0, 1.0)",
)

AREA.of("planner/estimates/step_time.py", PHYSICS)
AREA.add(
    "pipelines have no bubble",
    "rounds = layout.accumulation + (layout.pipeline - 1.0) / layout.interleave",
    "rounds = layout.accumulation",
)
AREA.add(
    "sharding hides altogether",
    "return longer + (1.0 - kernels.overlap) * work * parts.transfer / longer",
    "return longer",
)
AREA.add(
    "optimizer work is not sharded",
    "np.greater(layout.zero_stage, 0), copies, shards)",
    "np.greater(layout.zero_stage, 0), shards, shards)",
)

AREA.of("planner/estimates/stage_seconds.py", STAGE_TIMES, STAGES)
AREA.add("long runs have the goodput of short ones", "| np.greater(step_hours, coefficients.goodput_long_hours)", "")
AREA.add(
    "asynchronous checkpoints hold up nothing",
    "np.maximum(copied_seconds, np.subtract(written_seconds, interval_seconds))",
    "copied_seconds + 0 * np.subtract(written_seconds, interval_seconds)",
)
AREA.add(
    "one node writes for all",
    "np.asarray(nodes) * np.asarray(disk_bytes_per_second)",
    "np.asarray(disk_bytes_per_second)",
)
AREA.add("storage feeds any speed", "np.maximum(step_seconds, read", "np.minimum(step_seconds, read")

AREA.of("planner/estimates/stage_seconds.py", DATA_STAGES, STAGES)
AREA.add(
    "reading and tokenising overlap in full",
    "np.maximum(io, cpu) + np.minimum(io, cpu) / batches + starts",
    "np.maximum(io, cpu) + starts",
)
AREA.add(
    "adapters are merged without writing", "2.0 * np.asarray(weight_bytes) / ", "1.0 * np.asarray(weight_bytes) / "
)

AREA.of("planner/estimates/uncertainty.py", UNCERTAINTY, LIMITS)
AREA.add(
    "tails are those of a normal",
    "np.asarray(sigma_tail) * (_NORMAL_95 / _STUDENT_2_95)",
    "np.asarray(sigma_tail) * (_NORMAL_95 / _NORMAL_95)",
)
AREA.add(
    "an unknown network counts in one node",
    'values["network_unknown"] * (several * ',
    'values["network_unknown"] * (1.0 * ',
)
