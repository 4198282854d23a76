"""Count what the backward pass of a diffusion block keeps: `kept`, `moved` and `freed` of models/diffusers.yaml.

    python benchmarks/measure/kept_activations.py [--full | --fp8 | --offloaded]

Needs torch, diffusers and peft, and no GPU. Each class is built small, twice, with one block more the second time; the
difference of what its forward pass saves for the backward pass, per token and unit of width, is a block's. Weights are
frozen and in bf16, adapters of rank 4 at attention are in bf16, under autocast. Layer norms run in fp32, as they do
under autocast on a GPU. Widths have the proportions of the releases. `--full`: all weights are
trained, without adapters. `--fp8`: frozen linears are in dynamic fp8, for which torchao 0.17 must be installed; their
product has a backward pass as in SimpleTuner (helpers/training/quantisation/torchao_workarounds.py). `--offloaded`:
what SimpleTuner's hooks around attention copy to host memory, each call of a hook counted, and what then is not on the
GPU (helpers/training/offloaded_gradient_checkpointer.py: CPUOffloadHooks.pack leaves weights and other leaves there).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import diffusers
import torch
import torch.nn.functional as functional
from peft import LoraConfig, inject_adapter_in_model

IMAGE, CAPTION, SIDE = 1024, 32, 64
"""Tokens of the image and of the caption, and latents per side of the image."""
HALF = torch.bfloat16


class Block(NamedTuple):
    """One kind of block: how a network with `n` of them is made and called, and the tokens that pass it."""

    name: str
    kind: str
    keys: Callable[[int], dict[str, Any]]
    call: Callable[[Any], Any]
    tokens: int = IMAGE + CAPTION
    width: int = 256
    targets: tuple[str, ...] = ("to_q", "to_k", "to_v", "to_out.0")


def random(*shape: int) -> torch.Tensor:
    """Return numbers in 16 bit."""
    return torch.randn(*shape, dtype=HALF)


def flux(network: Any) -> Any:
    """Call a network whose tokens are packed outside of it."""
    given = {"guidance": torch.tensor([3.5], dtype=HALF), "pooled_projections": random(1, 32)}
    return network(
        hidden_states=random(1, IMAGE, 64), encoder_hidden_states=random(1, CAPTION, 64),
        timestep=torch.tensor([0.5], dtype=HALF), img_ids=torch.zeros(IMAGE, 3), txt_ids=torch.zeros(CAPTION, 3),
        return_dict=False, **given,
    )  # fmt: skip


def latents(network: Any) -> Any:
    """Call a network that reads latents of an image in patches."""
    return network(
        hidden_states=random(1, 16, SIDE, SIDE), encoder_hidden_states=random(1, CAPTION, 64),
        pooled_projections=random(1, 32), timestep=torch.tensor([5.0], dtype=HALF), return_dict=False,
    )  # fmt: skip


def qwen(network: Any) -> Any:
    """Call Qwen-Image."""
    return network(
        hidden_states=random(1, IMAGE, 64), encoder_hidden_states=random(1, CAPTION, 64),
        encoder_hidden_states_mask=torch.ones(1, CAPTION, dtype=torch.int64),
        timestep=torch.tensor([0.5], dtype=HALF), img_shapes=[[(1, SIDE // 2, SIDE // 2)]], return_dict=False,
    )  # fmt: skip


def wan(network: Any) -> Any:
    """Call Wan on one frame."""
    return network(
        hidden_states=random(1, 16, 1, SIDE, SIDE), encoder_hidden_states=random(1, CAPTION, 64),
        timestep=torch.tensor([5.0]), return_dict=False,
    )  # fmt: skip


def z_image(network: Any) -> Any:
    """Call Z-Image, which takes lists."""
    return network(
        [random(16, 1, SIDE, SIDE)], torch.tensor([0.5], dtype=HALF), [random(CAPTION, 64)], return_dict=False
    )


HEADS: dict[str, Any] = {"attention_head_dim": 64, "num_attention_heads": 4}
ROPE: dict[str, Any] = {"axes_dims_rope": (16, 24, 24)}
FLUX = {
    **HEADS, **ROPE, "in_channels": 64, "joint_attention_dim": 64, "pooled_projection_dim": 32, "guidance_embeds": True,
}  # fmt: skip
SD3 = {
    **HEADS, "sample_size": SIDE, "joint_attention_dim": 64, "caption_projection_dim": 256,
    "pooled_projection_dim": 32, "qk_norm": "rms_norm",
}  # fmt: skip
BLOCKS = (
    Block("FLUX.1 double", "FluxTransformer2DModel", lambda n: {**FLUX, "num_layers": n, "num_single_layers": 1}, flux),
    Block("FLUX.1 single", "FluxTransformer2DModel", lambda n: {**FLUX, "num_layers": 1, "num_single_layers": n}, flux),
    Block("SD 3.5", "SD3Transformer2DModel", lambda n: {**SD3, "num_layers": n + 1}, latents),
    Block(
        "SD 3.5, a second attention", "SD3Transformer2DModel",
        lambda n: {**SD3, "num_layers": 5, "dual_attention_layers": tuple(range(n))}, latents,
    ),
    Block(
        "Qwen-Image", "QwenImageTransformer2DModel",
        lambda n: {**HEADS, **ROPE, "num_layers": n, "joint_attention_dim": 64}, qwen,
    ),
    Block(
        "Wan", "WanTransformer3DModel",
        lambda n: {**HEADS, "num_layers": n, "text_dim": 64, "ffn_dim": 1024}, wan, IMAGE,
    ),
    Block(
        "Z-Image", "ZImageTransformer2DModel",
        lambda n: {"dim": 256, "n_layers": n, "n_refiner_layers": 1, "n_heads": 4, "n_kv_heads": 4, "cap_feat_dim": 64,
                   "axes_dims": [16, 24, 24]},
        z_image,
    ),
)  # fmt: skip


class Product(torch.autograd.Function):
    """A product in fp8 whose backward pass needs its weight and the scales alone."""

    @staticmethod
    def forward(ctx: Any, given: Any, scale: Any, weight: Any, weight_scale: Any) -> Any:
        """Return the product in bf16."""
        ctx.save_for_backward(scale, weight, weight_scale)
        return torch._scaled_mm(given, weight, scale_a=scale, scale_b=weight_scale, out_dtype=HALF)


def round_to_fp8(network: Any) -> None:
    """Quantise the frozen linears of a network, as `fp8-torchao` of SimpleTuner does; kernels of the CPU do."""
    from torchao.quantization import quant_api, quantize_

    tensors = importlib.import_module("torchao.quantization.quantize_.workflows.float8.float8_tensor")
    quant_api._check_hardware_support = lambda _granularity: None

    def product(given: Any, scale: Any, weight: Any, weight_scale: Any, output_dtype: Any, bias: Any, **_: Any) -> Any:
        made = Product.apply(given, scale, weight, weight_scale).to(output_dtype)
        return made if bias is None else made + bias.to(output_dtype)

    tensors.addmm_float8_unwrapped_inference = product

    def is_frozen_linear(module: Any, name: str) -> bool:
        is_linear = isinstance(module, torch.nn.Linear) and "lora" not in name
        return is_linear and module.in_features % 16 == 0 and module.out_features % 16 == 0

    quantize_(network, quant_api.Float8DynamicActivationFloat8WeightConfig(), filter_fn=is_frozen_linear)


ATTENTION = ("attn", "attn1", "attn2", "attention")
"""Names of the modules around which SimpleTuner's classes offload what is saved."""


class Saved(NamedTuple):
    """Bytes that one forward pass saves, those copied from inside attention, and those of `kept` saved there alone."""

    kept: int
    moved: int
    freed: int


def watch_attention(network: Any) -> list[bool]:
    """Return a list that has an entry while a forward pass is inside attention."""
    inside: list[bool] = []
    for name, module in network.named_modules():
        if name.rpartition(".")[2] in ATTENTION:
            module.register_forward_pre_hook(lambda *_: inside.append(True))
            module.register_forward_hook(lambda *_: inside.clear())
    return inside


def saved_bytes(block: Block, blocks: int, full: bool, fp8: bool = False) -> Saved:
    """Return the bytes that one forward pass of a network with so many blocks saves, weights left out."""
    network = getattr(diffusers, block.kind)(**block.keys(blocks)).to(HALF)
    network.requires_grad_(requires_grad=full)
    if not full:
        inject_adapter_in_model(LoraConfig(r=4, target_modules=list(block.targets)), network)
    for weight in network.parameters():
        weight.data = weight.data.to(HALF)
    if fp8:
        round_to_fp8(network)
    held = [getattr(each, "qdata", each) for each in (*network.parameters(), *network.buffers())]
    owned = {each.untyped_storage().data_ptr() for each in held}
    seen: dict[int, tuple[int, torch.Tensor]] = {}
    stays: set[int] = set()
    inside, moved = watch_attention(network), 0

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if hasattr(tensor, "qdata"):
            return tensor
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in owned:
            seen[storage.data_ptr()] = storage.nbytes(), tensor  # held, so that no address is used twice
            nonlocal moved
            if inside and not tensor.is_leaf:
                moved += tensor.numel() * tensor.element_size()
            else:
                stays.add(storage.data_ptr())
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", dtype=HALF):
        block.call(network)
    sizes = {place: size for place, (size, _) in seen.items()}
    freed = sum(size for place, size in sizes.items() if place not in stays)
    return Saved(sum(sizes.values()), moved, freed)


def main() -> None:
    """Print the bytes of each block per token and unit of width."""
    plain, full, fp8 = functional.layer_norm, "--full" in sys.argv[1:], "--fp8" in sys.argv[1:]

    def in_fp32(given: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
        wide = [None if each is None else each.float() for each in (weight, bias)]
        return plain(given.float(), shape, *wide, eps)

    functional.layer_norm = in_fp32
    for block in BLOCKS:
        few, many = (saved_bytes(block, count, full, fp8) for count in (2, 3))
        kept, moved, freed = ((b - a) / block.tokens / block.width for a, b in zip(few, many, strict=True))
        text = f"moved {moved:5.1f}, freed {freed:5.1f}" if "--offloaded" in sys.argv[1:] else f"{kept:6.1f}"
        print(f"{block.name:<28}{text} bytes per token and unit of width")


if __name__ == "__main__":
    main()
