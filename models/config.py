"""What a job file may say about the model."""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, PositiveInt


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _RankerConfig(_Config):
    """What every model has in common: how its inputs become vectors."""

    dense_transform: Literal["signed_log", "none"] = Field(
        "signed_log",
        description="What happens to a dense number x first: `signed_log` takes sign(x) · log(1 + |x|), "
        "which brings counts and prices to the size of shares; `none` takes it as it is.",
    )
    attention: Literal["dot", "din"] = Field(
        "dot",
        description="How a feature with `pooling: none` is attended to: `dot` by a softmax over scaled dot "
        "products, `din` by weights of a small network, not normalised (DIN, arXiv 1706.06978).",
    )
    attention_hidden: PositiveInt = Field(32, description="Hidden width of the network of `attention: din`.")


class ExpertsConfig(_Config):
    """Experts of each token in place of its one network, chosen row by row (RankMixer's Sparse-MoE variant)."""

    count: int = Field(ge=2, description="Number of experts E of each token.")
    hidden: PositiveInt | None = Field(
        None,
        description="Hidden width of an expert. Default: `expansion` · `dim` / E, all together the usual one.",
    )
    target_active: float = Field(
        0.5, gt=0, le=1, description="Share of a token's experts that are to be active, over all rows and layers."
    )
    dense_training: bool = Field(
        True,
        description="A second router in training, so that no expert is left without rows: half of the loss is that of "
        "the model with its gates. Evaluation and export know the first only.",
    )
    penalty_start: float = Field(
        1e-4, gt=0, description="λ, the weight of the mean gate in the loss, before the first step."
    )
    penalty_factor: float = Field(
        1.05, gt=1, le=2, description="What λ is multiplied or divided by after each step, to meet `target_active`."
    )


class RankMixerConfig(_RankerConfig):
    """RankMixer (arXiv 2507.15551): token mixing without parameters, then a network of each token's own."""

    name: Literal["rankmixer"]
    tokens: PositiveInt = Field(8, description="Number of tokens T the features are cut into; must divide `dim`.")
    dim: PositiveInt = Field(64, description="Width D of a token.")
    layers: PositiveInt = Field(2, description="Number of blocks L.")
    expansion: PositiveInt = Field(
        4, description="Hidden width of a token's feed-forward network as a multiple k of `dim`."
    )
    norm: Literal["post_ln", "pre_rms"] = Field(
        "post_ln",
        description="`post_ln`: LayerNorm after each residual, as in the paper. `pre_rms`: RMSNorm before mixing and "
        "before the networks, as in later work (arXiv 2602.06563), and once more behind the last block.",
    )
    activation: Literal["gelu", "swiglu"] = Field(
        "gelu", description="`swiglu` has a third matrix a network: one and a half times the weights."
    )
    gelu: Literal["exact", "tanh"] = Field(
        "exact", description="GELU by the error function or by its tanh approximation."
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of hidden units dropped while training.")
    epsilon: float = Field(1e-6, gt=0, description="Added to the variance in every norm.")
    precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="What the blocks compute in. Weights, sums, norms and everything outside the blocks are float32.",
    )
    fused: Literal["auto", "on", "off"] = Field(
        "auto",
        description="Whether a block, or with `experts` the sum of a token's experts, is one fused op: `auto`: where "
        "the op library has a kernel for it, `on`: else do not start. Weights and checkpoints are the same, dropout "
        "masks are not. A SavedModel has the op only in the form with our ops.",
    )
    experts: ExpertsConfig | None = Field(
        None, description="Experts in place of each token's network. Default: one network a token."
    )
    groups: list[list[str]] | None = Field(
        None,
        description="Feature names per token, one list for each token; every feature in at least one. "
        "Default: the features in the order of the job file, concatenated and cut into T parts whose "
        "widths differ by at most 1.",
    )

    @property
    def hidden(self) -> int:
        """Hidden width of a token's network, of all its experts together."""
        return self.expansion * self.dim if self.experts is None else self.experts.count * self.expert_hidden

    @property
    def expert_hidden(self) -> int:
        """Hidden width of one expert; only with `experts`."""
        assert self.experts is not None
        return self.experts.hidden or self.expansion * self.dim // self.experts.count


class DeepFMConfig(_RankerConfig):
    """DeepFM (arXiv 1703.04247): factorisation machine and a deep network on shared embeddings."""

    name: Literal["deepfm"]
    fm_dim: PositiveInt | None = Field(
        None,
        description="Width of a feature's vector in the factorisation machine; features of another width are "
        "projected. Default: the commonest width of the features' vectors, 8 when all features are dense.",
    )
    hidden: list[PositiveInt] = Field(
        [128, 64], description="Widths of the deep network's layers; an empty list leaves it out."
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of hidden units dropped while training.")


class DCNConfig(_RankerConfig):
    """DCN-v2 (arXiv 2008.13535): full-matrix cross layers beside a deep network."""

    name: Literal["dcn"]
    cross_layers: PositiveInt = Field(2, description="Number of cross layers.")
    cross_rank: PositiveInt | None = Field(
        None, description="Rank of the cross layers' matrices. Default: full matrices."
    )
    hidden: list[PositiveInt] = Field(
        [128, 64], description="Widths of the deep network's layers; an empty list leaves it out."
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of hidden units dropped while training.")


ModelConfig = Annotated[Union[RankMixerConfig, DeepFMConfig, DCNConfig], Field(discriminator="name")]
