"""What a model is, in the contract's own words; every closed form reads these fields and nothing else.

Symbols used in formula bodies: h hidden_size, a heads, k kv_heads, d head_dim, q = a·d, g = k·d, f ffn_size,
V vocab_size, L layers, E experts.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureOfExperts:
    experts: int
    top_k: int
    expert_ffn_size: int
    shared_experts: int = 0
    shared_ffn_size: int = 0
    """Width of all shared experts together, as one MLP."""
    first_dense_layers: int = 0
    layer_step: int = 1
    """One block in `layer_step` is a mixture, the others are dense (Llama 4: 2)."""
    router_bias: bool = False
    expert_bias: bool = False
    shared_gate: bool = False
    """Qwen2-MoE's gate of h parameters on the shared expert."""
    dense_layers: tuple[int, ...] = ()
    """Blocks that stay dense whatever the step says (Qwen's `mlp_only_layers`)."""

    def is_mixture(self, layer: int) -> bool:
        """Whether block `layer` (from 0) is a mixture."""
        if layer < self.first_dense_layers or layer in self.dense_layers:
            return False
        return (layer + 1) % self.layer_step == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention (DeepSeek-V2)."""

    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearAttention:
    """Gated delta rule (Qwen3-Next, Qwen3.5): attention of a fixed-size state in the blocks typed `linear`."""

    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    convolution: int
    """Taps of the causal depth-wise convolution."""
    fused_projections: bool = True
    """Qwen3-Next holds q, k, v and the gate z as one matrix, Qwen3.5 as two."""

    @property
    def key_width(self) -> int:
        """Width of all keys together."""
        return self.key_heads * self.key_head_dim

    @property
    def value_width(self) -> int:
        """Width of all values together."""
        return self.value_heads * self.value_head_dim


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    family: str
    """Model type in Hugging Face's words (`llama`, `gpt2`, `mixtral` …): picks the implementation's habits."""
    layers: int
    hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_size: int
    vocab_size: int
    max_positions: int | None = None
    gated_mlp: bool = True
    activation: str = "silu"
    """`silu`, `gelu`, `gelu_new` (five saved tensors in Python), `gelu_tanh`, `relu`, `relu2` …"""
    norm: str = "rmsnorm"
    """`layernorm` or `rmsnorm`."""
    norms_per_layer: int = 2
    norm_bias: bool = True
    """LayerNorm's bias; an RMSNorm has none whatever this says."""
    norm_weight: bool = True
    learned_positions: bool = False
    tied_embeddings: bool = False
    attention_bias: bool = False
    """Bias on q, k and v."""
    attention_output_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    qk_norm_width: str = "head"
    """What a q or k norm spans: `head` (head_dim), `heads` (a row per head), `per_head` (a tensor per head),
    `full` (q or g), `none` (no weights)."""
    sliding_window: int | None = None
    sliding_layers: int | None = None
    """How many blocks use the window; None = all of them when there is a window."""
    layer_types: tuple[str, ...] = ()
    """`full`, `sliding` or `linear` for every block; empty where all are alike."""
    attention_softcap: bool = False
    final_softcap: bool = False
    parallel_block: bool = False
    attention_sinks: bool = False
    head_bias: bool = False
    attention_gate: bool = False
    """q_proj also makes an output gate, so it is 2q wide (Qwen3-Next)."""
    embedding_norm: bool = False
    """A norm right after the embeddings (BLOOM, BERT)."""
    final_norm: bool = True
    dropout: float = 0.0
    """On the residual stream."""
    attention_dropout: float = 0.0
    head: str = "lm"
    """`lm`, `masked_lm`, `classification` (extra `labels`) or `none` (the bare backbone)."""
    moe: MixtureOfExperts | None = None
    mla: LatentAttention | None = None
    linear_attention: LinearAttention | None = None
    encoder: Architecture | None = None
    """An encoder beside this decoder (T5): blocks of the decoder then carry cross-attention too."""
    causal: bool = True
    """False for encoders (BERT, ViT)."""
    extra: dict[str, int] = field(default_factory=dict, hash=False)
    """Rare counts a family needs (e.g. `token_types`), read only by that family's tensor rows."""

    @property
    def query_width(self) -> int:
        """q = a·d."""
        return self.heads * self.head_dim

    @property
    def key_value_width(self) -> int:
        """g = k·d."""
        return self.kv_heads * self.head_dim

    @property
    def cross_attention(self) -> bool:
        """Whether the decoder's blocks attend to the encoder (T5); two towers side by side (CLIP) do not."""
        return self.encoder is not None and self.causal

    def layer_type(self, layer: int) -> str:
        """`full`, `sliding` or `linear` attention of block `layer` (from 0)."""
        if self.layer_types:
            return self.layer_types[layer]
        return "full" if self.sliding_window is None else "sliding"
