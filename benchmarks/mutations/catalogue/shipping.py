"""Bugs in the export of a result and in cached latents."""

from benchmarks.mutations.mutation import Area

AREA = Area()
EXPORTS = "tests/candidates/shipping/test_export_places.py"
FORMULAS = "tests/estimates/time/test_export.py"
LATENTS = "tests/configurations/test_latents.py"

AREA.of("planner/candidates/stage_hours.py", EXPORTS)
AREA.add("memory of a merge is not asked for", "(ram_gb < work.ram_gb)", "(ram_gb < 0)")
AREA.add("merging before quantising takes no time", "return merged + gguf_seconds(", "return gguf_seconds(")

AREA.of("planner/candidates/stage_hours.py", EXPORTS)
AREA.add(
    "the base is downloaded in no time",
    "seconds = boot_seconds(pull, stages) + transfer_seconds(weights * GB, pull)",
    "seconds = boot_seconds(pull, stages)",
)
AREA.add("the result is kept for nothing", "moved += kept *", "moved += 0 *")
AREA.add("a machine of too little memory merges", "offer.ram_gb < work.ram_gb", "False")

AREA.of("planner/estimates/stage_seconds.py", FORMULAS)
AREA.add("no 16-bit file is written first", "return merge_seconds(half, disk) + quantised", "return quantised")
AREA.add("a faster card quantises faster", "np.clip(ratio, 1.0,", "np.clip(ratio, 0.1,")
AREA.add("embeddings are quantised", "kept * HALF_BYTES + (weights - kept)", "weights")

AREA.of("planner/configurations/coefficients.py", LATENTS)
AREA.add("a cache holds one image", "self.images * self.each_bytes / GB", "self.each_bytes / GB")
AREA.add("the pass is free", "each_bytes > 0, np", "each_bytes < 0, np")

AREA.of("planner/estimates/device.py", LATENTS)
AREA.add("storage holds no pass up", "np.maximum(computed, ", "np.minimum(computed, ")
