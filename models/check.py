"""Whether a configuration fits its inputs; without TensorFlow, so that a job file is checked at once."""

from __future__ import annotations

from collections.abc import Sequence

from models.config import ModelConfig, RankMixerConfig
from models.inputs import InputSpec, check_inputs


def check_model(config: ModelConfig, inputs: Sequence[InputSpec]) -> list[str]:
    """All reasons why `config` and `inputs` do not fit, one line each; empty when they do.

    A line reads `PATH: expected …, found …`. PATH is a field of the configuration (`tokens`, `groups.2`) or
    `inputs.NAME`.
    """
    problems = check_inputs(inputs)
    if isinstance(config, RankMixerConfig):
        problems += _check_rankmixer(config, inputs)
    return problems


def _check_rankmixer(config: RankMixerConfig, inputs: Sequence[InputSpec]) -> list[str]:
    problems = []
    if config.dim % config.tokens:
        problems.append(f"tokens: expected a divisor of dim {config.dim}, found {config.tokens}")
    problems += _check_networks(config)
    if config.groups is None:
        width = sum(spec.dim for spec in inputs)
        if inputs and width < config.tokens:
            problems.append(f"tokens: expected at most {width}, all features' widths added up, found {config.tokens}")
        return problems
    if len(config.groups) != config.tokens:
        problems.append(f"groups: expected {config.tokens} groups, one for each token, found {len(config.groups)}")
    names = {spec.name for spec in inputs}
    for position, group in enumerate(config.groups):
        path = f"groups.{position}"
        if not group:
            problems.append(f"{path}: expected at least one feature, found none")
        for name in dict.fromkeys(group):
            if name not in names:
                problems.append(f"{path}: expected the name of a feature, found {name!r}")
            if group.count(name) > 1:
                problems.append(f"{path}: expected {name!r} once, found it {group.count(name)} times")
    grouped = {name for group in config.groups for name in group}
    left_out = [spec.name for spec in inputs if spec.name not in grouped]
    if left_out:
        problems.append(f"groups: expected every feature in at least one group, found none with {', '.join(left_out)}")
    return problems


def _check_networks(config: RankMixerConfig) -> list[str]:
    problems = []
    if config.activation == "swiglu" and config.gelu != "exact":
        problems.append(f"gelu: expected no kind of GELU beside activation: swiglu, found {config.gelu!r}")
    experts = config.experts
    if experts is None:
        return problems
    width = config.expansion * config.dim
    if experts.hidden is None and width % experts.count:
        problems.append(
            f"experts.count: expected a divisor of {width}, the width of the network, or experts.hidden, "
            f"found {experts.count}"
        )
    if experts.target_active * experts.count < 1:
        problems.append(
            f"experts.target_active: expected at least one of {experts.count} experts, {1 / experts.count:.3g}, found "
            f"{experts.target_active}"
        )
    return problems
