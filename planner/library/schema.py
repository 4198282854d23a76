"""Types of the data in `models/`: architectures, GPUs and calibrated coefficients.

Nothing here reads a file of its own or computes a FLOP.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Annotated, ClassVar, Literal, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    PositiveFloat,
    PositiveInt,
    SkipValidation,
    Tag,
    model_validator,
)

from planner.documents.validation import Row, name_fix
from planner.estimates.parts import Part
from planner.library.engines import formats_in_name, read_engines, release_name, unusable_format
from planner.library.image_models import ImageTower
from planner.library.names import find_architecture, find_gpu, gpu_with_memory
from planner.library.technique_tables import PEAK_KEYS, PeakKey, TechniqueTable, read_techniques

# What a card says of a chip that is no NVIDIA GPU: which kinds of training were measured on it, and its slices.


class MeasuredKind(Row):
    """One kind of training with published runs on a chip; full fine-tuning counts as pretraining."""

    method: Literal["full", "lora"]
    precision: str  # of those runs: another one widens the range
    from_chips: PositiveInt = 1  # of the smallest run


class Chip(Row):
    """Facts of a chip that is planned with only as far as it was measured.

    `hosts` lists the slices that are rented as one: chips -> hosts; empty where machines of any size are. The loss of
    one host stops the slice. `estimate_only` says why no plan may use the chip.
    """

    measured: tuple[MeasuredKind, ...]
    hosts: dict[int, int] = Field(default_factory=dict)
    estimate_only: str = ""

    def unmeasured(self, method: str, chips: int) -> str | None:
        """Return in words what of such a run was not measured; None where the method was, on so many chips or fewer."""
        least = [measurement.from_chips for measurement in self.measured if measurement.method == method]
        if not least:
            return f"no published run of {method} training"
        return None if chips >= min(least) else f"no published run on fewer than {min(least)} chips"

    def refusal(self, method: str, chips: int, may_be_unmeasured: bool) -> str | None:
        """Return why no plan may rest on such a run; None where one may. Another precision widens the range only."""
        if self.estimate_only:
            return f"for `planner estimate` only: {self.estimate_only}"
        return None if may_be_unmeasured else self.unmeasured(method, chips)

    def has_precision(self, method: str, precision: str) -> bool:
        """Return whether runs of the method were measured in a precision."""
        return any((measurement.method, measurement.precision) == (method, precision) for measurement in self.measured)

    def hosts_of(self, chips: int) -> int:
        """Return the hosts of a slice; 1 for a machine that is no slice."""
        return self.hosts.get(chips, 1)

    @model_validator(mode="after")
    def _slices_have_chips_for_every_host(self) -> Self:
        for chips, hosts in self.hosts.items():
            if chips < 1 or hosts < 1 or chips % hosts:
                raise ValueError(f"{chips} chips cannot be spread evenly over {hosts} hosts")
        return self


def describe_slices(name: str, hosts: dict[int, int]) -> str:
    """Return the slices in words, such as `TPU-v5e is rented as slices of 1, 4 or 8 chips`."""
    *most, last = map(str, hosts)
    return f"{name} is rented as slices of {', '.join(most)} or {last} chips"


class Card(BaseModel):
    """Frozen, and strict about keys: a misspelt key must not become a silent default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Coefficient(Card):
    """One sourced number.

    `low` and `high` bound the plausible range (or the fit's interval); `default` is the figure
    before calibration.
    A guess is `assumption`, what others report for similar cases is `prior`.
    """

    value: float
    unit: str = "1"
    low: float | None = None
    high: float | None = None
    default: float | None = None
    basis: Literal["measured", "kernels", "prior", "documented", "assumption"]
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _range_holds_the_value(self) -> Self:
        if self.low is not None and self.value < self.low:
            raise ValueError(f"value {self.value} lies under low {self.low}")
        if self.high is not None and self.value > self.high:
            raise ValueError(f"value {self.value} lies over high {self.high}")
        return self


class Calibration(Card):
    """A named set of coefficients of the estimates."""

    name: str
    description: str
    coefficients: dict[str, Coefficient]

    @property
    def values(self) -> dict[str, float]:
        """Return the plain numbers by key."""
        return {key: entry.value for key, entry in self.coefficients.items()}

    def value(self, key: str) -> float:
        """Return the number behind `key`; KeyError names the set."""
        if key not in self.coefficients:
            raise KeyError(f"calibration {self.name!r} has no coefficient {key!r}")
        return self.coefficients[key].value


_BUCKET_STEP = 64
"""Pixels to which tools round the sides of images that they sort by their aspect."""


@dataclass(frozen=True)
class ImageSize:
    """One sample of a diffusion network: a square of `resolution` x `resolution` pixels, or several `frames`.

    `references`: images of that size which the network reads next to it, such as the one that it edits.
    `buckets`: aspects of images that are not cropped to squares; a batch has one, of about as many pixels.
    """

    resolution: int
    frames: int = 1
    references: int = 0
    buckets: int = 1

    @property
    def areas(self) -> tuple[float, ...]:
        """Pixels of an image of each bucket over those of the square: aspects of 1:2 to 2:1, sides in steps of 64.

        Source: SimpleTuner 4.8 (aspect_bucket_alignment) and sd-scripts (bucket_reso_steps), both 64 by default.
        """
        if self.buckets == 1:
            return (1.0,)
        aspects = (2.0 ** (2.0 * number / (self.buckets - 1) - 1.0) for number in range(self.buckets))
        widths = [max(round(self.resolution * aspect**0.5 / _BUCKET_STEP), 1) for aspect in aspects]
        square = (self.resolution / _BUCKET_STEP) ** 2
        return tuple(width * max(round(square / width), 1) / square for width in widths)

    @property
    def side(self) -> float:
        """Side in pixels of one square with the pixels of all frames and images: 512 with 4 frames are 1,024."""
        return float(self.resolution * (self.frames + self.references) ** 0.5)

    @property
    def largest_area(self) -> float:
        """Pixels of the largest bucket over those of the square: what memory must hold."""
        return max(self.areas)

    @property
    def mean_area(self) -> float:
        """Pixels of an image over those of the square, in the mean of buckets with equally many images."""
        return fmean(self.areas)


_LATENT_PIXELS = 8
"""Pixels of a side that are one latent of the autoencoder of Stable Diffusion (vae/config.json: three halvings)."""


def _side_faults(resolution: int | None, whole: int, what: str) -> Iterator[tuple[str, str, str]]:
    """Yield the fault of a side that is no multiple of the `whole` pixels of one token or latent."""
    if resolution is not None and resolution % whole:
        near = max(whole, round(resolution / whole) * whole)
        yield "resolution", f"{resolution} pixels are no multiple of the {whole} of a {what}", f"give {near}"


class ImageWork(Card):
    """What one training image costs a diffusion network that is no stack of equal layers: a coarse stand-in.

    The card says how many tokens of a transformer with as many weights cost the same time
    (`tokens_per_image`) and how many cost the same activations (`memory_tokens_per_image`, a guess).
    Both scale with the pixel count.
    `tokens_per_image` = (forward_gflop + encoder_gflop / 3) * 1e9 / (2 * parameters), because the image
    encoder runs forward only, against three passes' worth for the trained network.
    """

    resolution: PositiveInt  # pixels per side that the figures hold for
    blocks: PositiveInt  # transformer and residual blocks, which Python launches one by one
    linears: PositiveInt  # linear layers of all blocks
    linear_inputs: PositiveFloat  # elements that enter them for one image; convolutions are no linear layers
    forward_gflop: PositiveFloat  # denoiser, one image, one forward pass
    encoder_gflop: float = Field(ge=0)  # image encoder, forward pass; 0 where latents are prepared beforehand
    tokens_per_image: PositiveFloat
    memory_tokens_per_image: PositiveFloat
    latent_bytes: PositiveFloat  # what the image encoder makes of one image, 16 bit
    text_bytes: float = Field(ge=0)  # what the text encoders make of its caption, 16 bit, whatever the resolution
    frozen_parameters: int = Field(ge=0)  # text encoders and autoencoder, loaded but not trained
    basis: Literal["documented", "prior", "assumption"]
    source: str = Field(min_length=1)

    makes_videos: ClassVar[bool] = False

    def size(
        self, resolution: int | None, frames: int | None, _references: int | None = None, buckets: int = 1
    ) -> ImageSize:
        """Return the size of a sample as a job gives it, else the card's own."""
        return ImageSize(resolution or self.resolution, frames or 1, buckets=buckets)

    def faults(
        self, resolution: int | None, _frames: int | None, references: int | None = None, _buckets: int = 1
    ) -> Iterator[tuple[str, str, str]]:
        """Yield the key, the fault and the mend of a side that is no whole number of latents.

        U-Nets take every such side: they pad what their layers halve (diffusers, `forward_upsample_size`).
        """
        yield from _side_faults(resolution, _LATENT_PIXELS, "latent")
        if references:
            yield "reference_images", "a U-Net reads no images next to the one that it makes", "leave it out"

    def tokens(self, size: ImageSize) -> float:
        """Return the equivalent tokens of time for one image, those of its encoders included."""
        return self.tokens_per_image * size.mean_area * (size.side / self.resolution) ** 2

    def encoder_tokens(self, size: ImageSize) -> float:
        """Return the equivalent tokens of `tokens` that the encoders take: none where latents are read."""
        share = self.encoder_gflop / 3 / (self.forward_gflop + self.encoder_gflop / 3)
        return self.tokens(size) * share

    def encoder_ratio(self, size: ImageSize) -> float:
        """Return the time of the encoders over that of the trained network; its forward pass is a third of its work."""
        tokens = self.encoder_tokens(size)
        return tokens / (self.tokens(size) - tokens)

    def cached_bytes(self, size: ImageSize) -> float:
        """Return the bytes of one cached image and its caption: 151 kB for Stable Diffusion 1.5 at 512 pixels."""
        return self.latent_bytes * (size.side / self.resolution) ** 2 + self.text_bytes

    def memory_tokens(self, size: ImageSize) -> float:
        """Return the equivalent tokens of activation memory for one image."""
        return self.memory_tokens_per_image * size.largest_area * (size.side / self.resolution) ** 2


class ImageTokens(Card):
    """How a diffusion transformer sees an image or a video: as a sequence of tokens, so its counts are exact.

    A square of 1,024 pixels whose autoencoder makes one latent of 8 x 8 pixels, read in patches of 2 x 2, is
    (1024 / 16)^2 = 4,096 tokens. Frames of a video are read in groups: the first, then `frames_per_token` each.
    A token of the caption meets `text_share` of the weights that a token of the image meets, and counts as that much.
    """

    resolution: PositiveInt  # pixels per side of a sample where a job gives none
    frames: PositiveInt = 1  # of a sample where a job gives none
    references: int = Field(
        default=0, ge=0
    )  # images of the same size that it reads next to each, where a job says none
    experts: PositiveInt = 1  # networks of this size in a release, of which a run trains one
    pixels_per_token: PositiveInt  # per side: those of a latent times those of a patch
    frames_per_token: PositiveInt | None = None  # None: it makes images, not videos
    text_tokens: int = Field(ge=0)  # of a caption, as the pipeline pads it
    text_share: float = Field(ge=0, le=1)
    text_width: PositiveInt  # of what the text encoders make of a token
    latent_channels: PositiveInt
    latent_pixels: PositiveInt = 8  # per side of one latent
    encoder_gflop_per_token: float = Field(ge=0)  # autoencoder, forward pass, for the pixels of one token
    text_gflop: float = Field(ge=0)  # text encoders, forward pass, of one caption
    frozen_parameters: int = Field(ge=0)  # text encoders and autoencoder, loaded but not trained
    attentions: PositiveInt  # in which a token of the image meets all tokens; none of them is causal
    masked: bool = False  # attention is given a mask of the caption, which the fastest kernels do not take
    cross_attentions: int = Field(default=0, ge=0)  # in which it meets those of the caption alone
    linears: PositiveFloat  # linear layers of all blocks
    blocks: (
        PositiveInt  # that tokens of the image pass; `layers` of the card has so many of one attention and feed-forward
    )
    kept_bytes: PositiveFloat  # by the backward pass of a layer over frozen weights, per token and unit of width
    moved_bytes: float = Field(
        default=0, ge=0
    )  # of attention, copied to host memory where its activations are offloaded
    freed_bytes: float = Field(default=0, ge=0)  # of kept_bytes, then not on the GPU
    masks_bytes: float = Field(default=0, ge=0)  # of dropout inside attention, which stay on it
    token_gflop: PositiveFloat  # denoiser, one token of the image, forward pass, without attention
    basis: Literal["documented", "prior", "assumption"]
    source: str = Field(min_length=1)

    @property
    def makes_videos(self) -> bool:
        """Whether a sample may have several frames."""
        return self.frames_per_token is not None

    def size(
        self, resolution: int | None, frames: int | None, references: int | None = None, buckets: int = 1
    ) -> ImageSize:
        """Return the size of a sample as a job gives it, else the card's own."""
        references = self.references if references is None else references
        return ImageSize(resolution or self.resolution, frames or self.frames, references, buckets)

    def faults(
        self, resolution: int | None, frames: int | None, references: int | None = None, _buckets: int = 1
    ) -> Iterator[tuple[str, str, str]]:
        """Yield the key, the fault and the mend of sizes that the network cannot read: no whole tokens."""
        side, group = self.pixels_per_token, self.frames_per_token
        yield from _side_faults(resolution, side, "token")
        if frames is not None and group is not None and (frames - 1) % group:
            near = round((frames - 1) / group) * group + 1
            yield "frames", f"{frames} frames are not 1 and a multiple of {group}", f"give {near}"
        if references and group is not None:
            yield (
                "reference_images",
                "images that a network of videos reads next to them are not modelled",
                "leave it out",
            )

    def image_tokens(self, size: ImageSize) -> float:
        """Return the tokens of one sample: 81 frames of 480 x 480 pixels in groups of 4 are 21 x 900.

        Images that are read next to it are tokens, too, which meet the same weights: FLUX.1 Kontext has twice as many.
        """
        groups = 1 + (size.frames - 1) / self.frames_per_token if self.frames_per_token else 1.0 + size.references
        return size.mean_area * groups * (size.resolution / self.pixels_per_token) ** 2

    def memory_tokens(self, size: ImageSize) -> float:
        """Return the tokens whose activations are kept: those of the largest image, and its caption's as in time."""
        return self.image_tokens(size) * size.largest_area / size.mean_area + self.text_share * self.text_tokens

    def trained_tokens(self, size: ImageSize) -> float:
        """Return the tokens of an image in the mean, and of its caption as far as they count."""
        return self.image_tokens(size) + self.text_share * self.text_tokens

    def encoder_tokens(self, size: ImageSize) -> float:
        """Return the tokens whose work the encoders do: forward alone, a third of what training a token takes."""
        gflop = self.encoder_gflop_per_token * self.image_tokens(size) + self.text_gflop
        return gflop / (3.0 * self.token_gflop)

    def tokens(self, size: ImageSize) -> float:
        """Return the tokens of time for one sample, those of its encoders included."""
        return self.trained_tokens(size) + self.encoder_tokens(size)

    def encoder_ratio(self, size: ImageSize) -> float:
        """Return the time of the encoders over that of the trained network."""
        return self.encoder_tokens(size) / self.trained_tokens(size)

    def cached_bytes(self, size: ImageSize) -> float:
        """Return the bytes of one cached sample and its caption, in 16 bit."""
        latents = self.image_tokens(size) * (self.pixels_per_token / self.latent_pixels) ** 2 * self.latent_channels
        return 2.0 * (latents + self.text_tokens * self.text_width)


_SHOWN_PIXELS = 1280 * 28**2
"""Pixels of the image whose tokens a note shows: `max_pixels` of many recipes of Qwen2.5-VL."""


def describe_tower(parameters: int, tokens: int = 0, token_pixels: int = 0) -> str:
    """Return what is counted of an image tower, and what a job has to state for its images.

    `tokens`: of an image or of a tile of it, where their number is fixed; `token_pixels`: per side of the square that
    is one token, where it is not; 0: not known.
    """
    stated = "give `image_input` with their size"
    if tokens:
        stated += f", {tokens:,} an image or tile"
    elif token_pixels:
        shown = round(_SHOWN_PIXELS / token_pixels**2)
        stated += f": an image of {_SHOWN_PIXELS:,} pixels has {shown:,}, one for each {token_pixels} x {token_pixels}"
    return (
        f"the image tower with its projector ({parameters:,} weights) counts as frozen, whole on each GPU; no image is "
        f"given, so neither their tokens nor their work count ({stated})"
    )


SERVED_TOWER = "the image tower lies on the GPUs; prompts have no images: give image_input with their size"
"""What plans of services and generation count of images."""


def _kind_of_image(card: object) -> str:
    """Return which of the two a card has: tokens where it says how many pixels one is."""
    has_tokens = "pixels_per_token" in card if isinstance(card, Mapping) else isinstance(card, ImageTokens)
    return "tokens" if has_tokens else "pixels"


class Architecture(Card):
    """The shape of one network; counts are parameters, widths are elements, `max_sequence` is tokens.

    `parameters` is the number of distinct weights: a tied embedding counts once, and so does a head
    that a checkpoint stores a second time.
    """

    name: str = Field(min_length=1)
    aliases: tuple[str, ...] = ()
    family: str = Field(min_length=1)
    kind: Literal["decoder", "diffusion"] = "decoder"
    parameters: PositiveInt
    active_parameters: PositiveInt  # per token; equal to `parameters` where there are no experts
    parameters_basis: Literal["exact", "computed", "estimate"] = "exact"
    """exact: equals the released weights; computed: from published dimensions, no public weights;
    estimate: the other dimensions on the card are a stand-in, not the network's own."""

    layers: PositiveInt
    hidden: PositiveInt
    heads: PositiveInt
    kv_heads: PositiveInt
    head_dim: PositiveInt
    ffn: PositiveInt  # width of one feed-forward (of one expert where there are experts)
    vocab: int = Field(ge=0)  # rows of the embedding, padding included
    max_sequence: PositiveInt

    tied_embeddings: bool = False
    gated: bool = True  # three matrices per feed-forward, else two
    rope: bool = True
    parallel_residual: bool = False
    norm: Literal["rmsnorm", "layernorm"] = "rmsnorm"
    norm_bias: bool = False
    norms_per_layer: PositiveInt = 2
    embedding_norm: bool = False
    qk_norm: bool = False  # one norm of head_dim for the queries, one for the keys
    qk_norm_all_heads: bool = False  # those norms span all heads
    query_gate: bool = False  # the query projection is twice as wide: a gate per query
    attention_sinks: bool = False  # one learned weight per head
    qkv_bias: bool = False
    output_bias: bool = False
    ffn_bias: bool = False
    learned_positions: int = Field(default=0, ge=0)  # rows of the position table

    experts: int = Field(default=0, ge=0)
    experts_per_token: int = Field(default=0, ge=0)
    shared_experts: int = Field(default=0, ge=0)
    shared_expert_gate: bool = False
    dense_layers: int = Field(default=0, ge=0)  # layers without experts, wherever they stand
    dense_ffn: int = Field(default=0, ge=0)  # their feed-forward width
    router_bias: bool = False

    sliding_window: int = Field(default=0, ge=0)  # tokens; 0 = full attention
    sliding_layer_share: float = Field(default=0.0, ge=0.0, le=1.0)

    # Multi-head latent attention (DeepSeek): ranks of compressed queries and of keys and values; 0 = none.
    q_lora_rank: int = Field(default=0, ge=0)
    kv_lora_rank: int = Field(default=0, ge=0)
    rope_head_dim: int = Field(default=0, ge=0)  # the rotated part of head_dim, one key for all heads
    value_head_dim: int = Field(default=0, ge=0)

    # Linear attention (gated delta rule) in some layers; widths of one head, and of the convolution before it.
    linear_layers: int = Field(default=0, ge=0)
    linear_key_heads: int = Field(default=0, ge=0)
    linear_value_heads: int = Field(default=0, ge=0)
    linear_key_dim: int = Field(default=0, ge=0)
    linear_value_dim: int = Field(default=0, ge=0)
    linear_kernel: int = Field(default=0, ge=0)

    # Decoders whose layers differ in more than that: mixers and feed-forwards, each with its number of layers. They
    # replace the counts above, which then describe the most frequent attention and feed-forward.
    parts: tuple[Annotated[Part, Field(discriminator="kind")], ...] = ()
    norm_scale: bool = True  # norms have weights
    head_bias: bool = False
    layer_embedding: int = Field(default=0, ge=0)  # width of an embedding of its own in every layer (Gemma 3n, 4)
    layer_embedding_vocab: int = Field(default=0, ge=0)
    other_weights: int = Field(default=0, ge=0)  # outside the layers; the notes say what they are

    # Image tower of a multimodal model with its projector: loaded with the network, not trained. None of it is in the
    # counts above. An image has so many tokens, or one for each square of so many pixels per side; 0: not known.
    tower_parameters: int = Field(default=0, ge=0)
    tower_tokens: int = Field(default=0, ge=0)
    tower_token_pixels: int = Field(default=0, ge=0)
    tower: ImageTower | None = None  # its shape, and how its processor cuts images

    # formats in which weights are published, that of the release first
    published: tuple[str, ...] = Field(default_factory=lambda: (read_engines().release,))
    published_source: str = ""
    base: str = ""  # the model whose weights these are in another format
    named_only: bool = False  # superseded by later releases: planned by its name, not tried where a job names a family

    image: (
        Annotated[
            Annotated[ImageTokens, Tag("tokens")] | Annotated[ImageWork, Tag("pixels")], Discriminator(_kind_of_image)
        ]
        | None
    ) = None
    # Of a diffusion network: letter (q, k, v, o, gate, up, down), sums of d_in and d_out of all its linear layers that
    # adapters extend, those of the caption, too. None: those of plain layers of these widths.
    adapters: tuple[tuple[str, PositiveInt, PositiveInt], ...] = ()
    unread: tuple[str, ...] = ()  # keys of the file of a diffusion network that the counts leave out
    source: str = Field(min_length=1)
    notes: str = ""
    licence: str = ""  # what its licence forbids; nothing where commercial use is free
    licence_source: str = ""

    def released_in(self, form: str) -> Self:
        """Return the model of this base whose weights are published in one format: `qwen2.5-7b` in `awq`."""
        gguf = read_engines().gguf
        formats = gguf if form == gguf[0] else (form,)
        more = {"name": f"{self.name}-{form}", "aliases": (), "published": formats, "base": self.name}
        return self.model_copy(update=more)

    def trained_unit(self, frames: int | None) -> Literal["tokens", "images", "videos"]:
        """Return what its speed counts; `frames` of a sample as a job gives them."""
        if self.image is None:
            return "tokens"
        return "videos" if self.image.size(None, frames).frames > 1 else "images"

    @property
    def release_gb(self) -> float:
        """Size in GB of the checkpoint that is released: 63 for gpt-oss-120b in MXFP4, 234 in 16 bits.

        An image tower is released in 16 bits.
        """
        tower = 2 * self.tower_parameters / 1e9
        return (self.download_gb - tower) * read_engines().formats[self.published[0]].bytes / 2 + tower

    def split_fault(self, degree: int) -> str | None:
        """Return why engines and frameworks do not divide the layers among so many GPUs; None where they do.

        Query heads divide, and heads of keys either divide or are repeated; so do the widths of feed-forwards and the
        heads of linear attention (vLLM 0.33: ModelConfig.verify_with_parallel_config, QKVParallelLinear, `divide`;
        Megatron-core: TransformerConfig).
        """
        parts = {
            "attention heads": self.heads,
            "heads of linear attention": self.linear_key_heads,
            "values of a feed-forward": self.ffn,
            "values of a dense feed-forward": self.dense_ffn,
        }
        for what, count in parts.items():
            if count % degree:
                return f"{count:,} {what} of {self.name} do not divide by {degree}"
        if self.kv_heads % degree and degree % self.kv_heads and not self.kv_lora_rank:
            return f"{self.kv_heads} key-value heads of {self.name} neither divide by {degree} nor into it"
        return None

    @property
    def download_gb(self) -> float:
        """Size in GB of a checkpoint in 16 bit: two bytes per weight, frozen parts included."""
        frozen = self.image.frozen_parameters if self.image else self.tower_parameters
        return 2 * (self.parameters + frozen) / 1e9

    @model_validator(mode="after")
    def _licence_has_a_source(self) -> Self:
        if bool(self.licence) != bool(self.licence_source):
            raise ValueError("licence and licence_source belong together")
        return self

    @model_validator(mode="after")
    def _belongs_together(self) -> Self:
        if self.active_parameters > self.parameters:
            raise ValueError("active_parameters exceed parameters")
        everything_is_met = not self.experts and not self.layer_embedding and not isinstance(self.image, ImageTokens)
        if everything_is_met and self.active_parameters != self.parameters:
            raise ValueError("without experts every parameter is active")
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} key-value heads")
        if self.experts and not 0 < self.experts_per_token <= self.experts:
            raise ValueError("experts_per_token must lie between 1 and experts")
        if self.dense_layers and not (self.experts and self.dense_ffn):
            raise ValueError("dense_layers require experts and dense_ffn")
        linear = (self.linear_key_heads, self.linear_value_heads, self.linear_key_dim, self.linear_value_dim)
        if self.linear_layers and not (all(linear) and self.linear_kernel):
            raise ValueError("linear_layers require heads, dimensions and kernel of linear attention")
        unknown = [form for form in self.published if form not in read_engines().formats]
        if unknown or not self.published:
            raise ValueError(f"published: unknown format {', '.join(unknown) or 'none'}")
        if bool(self.sliding_window) != bool(self.sliding_layer_share):
            raise ValueError("sliding_window and sliding_layer_share belong together")
        if (self.kind == "diffusion") != (self.image is not None):
            raise ValueError("`image` is required for kind diffusion and not allowed for others")
        return self


class GpuSpec(Card):
    """One GPU as its sheet describes it; peaks in dense TFLOPS, bandwidths in GB/s (10^9), memory in GiB."""

    name: str = Field(min_length=1)
    aliases: tuple[str, ...] = ()
    vendor: Literal["NVIDIA", "AMD", "Google", "Intel", "AWS"]
    generation: str
    form: Literal["SXM", "PCIe", "OAM", "superchip", "pod"]
    vram_gib: PositiveFloat  # nominal: "80 GB" on a sheet means about 80 GiB
    usable_gib: PositiveFloat  # what a training process can allocate, CUDA context included
    usable_source: str = Field(min_length=1)
    memory_bandwidth_gb_s: PositiveFloat
    fp32_tflops: PositiveFloat
    tf32_tflops: PositiveFloat | None = None
    tensor16_tflops: PositiveFloat | None = None
    """bf16 or fp16 with fp32 accumulation; None: no tensor cores."""
    fp8_tflops: PositiveFloat | None = None
    nvlink_gb_s: float = Field(ge=0)  # sheet total, both directions; 0 = none
    link_notes: str = ""
    pcie_gen: int = Field(ge=3, le=6)
    tdp_w: PositiveInt | None = None  # None: not published
    bf16: bool
    compute_capability: str
    chip: Chip | None = None  # of accelerators other than NVIDIA's
    source: str = Field(min_length=1)
    confidence: str = Field(min_length=1)
    notes: str = ""

    @property
    def matmul16_tflops(self) -> float:
        """Peak of a 16-bit matmul that accumulates in fp32: the fp32 rate where there are no tensor cores."""
        return self.tensor16_tflops or self.fp32_tflops

    @cached_property
    def peaks(self) -> dict[PeakKey, float]:
        """Return the peaks that the sheet has, in dense TFLOPS."""
        return {key: value for key in PEAK_KEYS if (value := getattr(self, key)) is not None}

    @property
    def nvlink_by_default(self) -> bool:
        """True where the form means linked GPUs; bridges of PCIe cards are rarely fitted in rentals."""
        return self.nvlink_gb_s > 0 and self.form in ("SXM", "OAM", "superchip", "pod")

    def lacks_link(self, interconnect: str | None) -> bool:
        """Whether GPUs of this kind have no such link, whatever machine they are in."""
        return interconnect in ("nvlink", "nvswitch") and not self.nvlink_gb_s

    @model_validator(mode="after")
    def _usable_fits(self) -> Self:
        if self.usable_gib > self.vram_gib:
            raise ValueError(f"usable_gib {self.usable_gib} exceeds vram_gib {self.vram_gib}")
        if self.bf16 and self.tensor16_tflops is None:
            raise ValueError("a GPU with bf16 needs tensor16_tflops")
        return self


class Library(Card):
    """Everything under `models/`, by name."""

    architectures: dict[str, Architecture] = {}
    gpus: SkipValidation[Mapping[str, GpuSpec]] = {}  # which are read when they are asked for
    calibrations: SkipValidation[Mapping[str, Calibration]] = {}
    techniques: TechniqueTable = Field(default_factory=read_techniques)

    def architecture(self, name_or_alias: str) -> Architecture:
        """Return the architecture of that name, alias or fine-tune, in any case; KeyError names what is known."""
        if name_or_alias in self.architectures:
            return self.architectures[name_or_alias]
        if (label := unusable_format(name_or_alias)) is not None:
            raise KeyError(f"{name_or_alias!r} says {label} weights, which nothing here loads")
        formats = formats_in_name(name_or_alias)
        for card in self.architectures.values() if formats else ():
            is_it = card.base and card.name.endswith(f"-{formats[0]}")
            if is_it and find_architecture(name_or_alias, {card.base: card.base}):
                return card
        card = _find(self.architectures, name_or_alias, "architecture", find_architecture)
        if name_or_alias.casefold() in (label.casefold() for label in _labels(card)):
            return card
        name = release_name(card.name, card.published, formats)
        return card if name == card.name else card.released_in(name.removeprefix(f"{card.name}-"))

    def gpu(self, name_or_alias: str) -> GpuSpec:
        """Return the GPU of that name, alias or other spelling, in any case; KeyError names what is known."""
        try:
            return _find(self.gpus, name_or_alias, "GPU", find_gpu)
        except KeyError:
            found = gpu_with_memory(name_or_alias, self._name_of_gpu, lambda gpu: self.gpus[gpu].vram_gib)
            if found is None:
                raise
            return self.gpus[found]

    def _name_of_gpu(self, written: str) -> str | None:
        try:
            return self.gpu(written).name
        except KeyError:
            return None


def _labels(card: Architecture | GpuSpec) -> tuple[str, ...]:
    return (card.name, *card.aliases)


_Found = TypeVar("_Found", Architecture, GpuSpec)


def _find(
    cards: Mapping[str, _Found], wanted: str, noun: str, otherwise: Callable[[str, dict[str, str]], str | None]
) -> _Found:
    if wanted in cards:
        return cards[wanted]
    folded, labels = wanted.casefold(), dict[str, str]()
    for card in cards.values():
        own = _labels(card)
        if folded in (label.casefold() for label in own):
            return card
        labels |= dict.fromkeys(own, card.name)
    found = otherwise(wanted, labels)
    if found is not None and found in cards:
        return cards[found]
    raise KeyError(f"no {noun} {wanted!r}; {name_fix(wanted, sorted(cards))}")
