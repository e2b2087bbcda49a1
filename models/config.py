"""What a job file may say about the model."""

from __future__ import annotations

from typing import Annotated, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, PositiveInt


class _Config(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class RankMixerConfig(_Config):
    """RankMixer (arXiv 2507.15551): token mixing without parameters, then a feed-forward network per token."""

    name: Literal["rankmixer"]
    tokens: PositiveInt = Field(
        8, description="Number of tokens T the features are cut into; must divide `dim`."
    )
    dim: PositiveInt = Field(64, description="Width D of a token.")
    layers: PositiveInt = Field(2, description="Number of blocks L.")
    expansion: PositiveInt = Field(
        4, description="Hidden width of a token's feed-forward network as a multiple k of `dim`."
    )
    gelu: Literal["exact", "tanh"] = Field(
        "exact", description="GELU by the error function or by its tanh approximation."
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of hidden units dropped while training.")
    epsilon: float = Field(1e-6, gt=0, description="Added to the variance in every LayerNorm.")
    groups: list[list[str]] | None = Field(
        None,
        description="Feature names per token, one list for each token. Default: the features in the order of the job "
        "file, concatenated and cut into T equal parts.",
    )


class DeepFMConfig(_Config):
    """DeepFM (arXiv 1703.04247): factorisation machine and a deep network on shared embeddings."""

    name: Literal["deepfm"]
    hidden: list[PositiveInt] = Field([128, 64], description="Widths of the deep network's layers.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of hidden units dropped while training.")


class DCNConfig(_Config):
    """DCN-v2 (arXiv 2008.13535): full-matrix cross layers beside a deep network."""

    name: Literal["dcn"]
    cross_layers: PositiveInt = Field(2, description="Number of cross layers.")
    hidden: list[PositiveInt] = Field([128, 64], description="Widths of the deep network's layers.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of hidden units dropped while training.")


ModelConfig = Annotated[Union[RankMixerConfig, DeepFMConfig, DCNConfig], Field(discriminator="name")]
