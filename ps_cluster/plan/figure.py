"""A number with the formula and the inputs it comes from, so that a person can check it."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Union

from ps_cluster.plan import cuckoo_memory, curve, native_memory

Number = Union[int, float]
Values = Union[float, tuple[float, ...]]


@dataclass(frozen=True)
class Figure:
    """`value` is what `formula` gives for `inputs`; a formula that is one of the inputs is a given number."""

    value: float
    unit: str
    formula: str
    inputs: Mapping[str, Values] = field(default_factory=dict)
    source: str = ""
    """Where a given number comes from; what a formula leaves out."""


FUNCTIONS: Mapping[str, Callable[..., float]] = {
    "ceil": math.ceil,
    "floor": math.floor,
    "max": max,
    "min": min,
    "sqrt": math.sqrt,
    "log": math.log,
    "exp": math.exp,
    "ids_at_least": curve.ids_at_least,
    "most_between": curve.most_between,
    "slab_bytes": native_memory.slab_bytes,
    "index_bytes": native_memory.index_bytes,
    "bloom_bytes": native_memory.bloom_bytes,
    "unit_bytes": native_memory.unit_bytes,
    "slab_rest_bytes": native_memory.slab_rest_bytes,
    "index_rest_bytes": native_memory.index_rest_bytes,
    "cuckoo_bytes": cuckoo_memory.cuckoo_bytes,
}
"""What formulas may call; the docstrings of the last ones say what they compute."""


def figure(unit: str, formula: str, source: str = "", /, **inputs: Number | Sequence[float] | Figure) -> Figure:
    """The figure that `formula` gives for `inputs`; a figure among them stands for its value."""
    values = {name: _plain(one) for name, one in inputs.items()}
    return Figure(evaluate(formula, values), unit, formula, values, source)


def total(unit: str, parts: Mapping[str, Figure], source: str = "") -> Figure:
    """The sum of figures by name."""
    return figure(unit, " + ".join(parts) or "0", source, **parts)


def given(unit: str, name: str, value: Number, source: str) -> Figure:
    """A number that is not computed here: counted, measured or told."""
    return Figure(float(value), unit, name, {name: float(value)}, source)


def to_json(one: Figure) -> dict[str, Any]:
    """As plain values; what is empty is left out."""
    inputs = {name: list(value) if isinstance(value, tuple) else value for name, value in one.inputs.items()}
    found = {"value": one.value, "unit": one.unit, "formula": one.formula, "inputs": inputs}
    return {**found, "source": one.source} if one.source else found


def _plain(one: Number | Sequence[float] | Figure) -> Values:
    if isinstance(one, Figure):
        return one.value
    if isinstance(one, (int, float)):
        return float(one)
    return tuple(float(value) for value in one)


def evaluate(formula: str, inputs: Mapping[str, Values]) -> float:
    """The value of an expression of numbers, names of `inputs`, `+ - * / **` and `FUNCTIONS`.

    Raises ValueError for anything else.
    """
    return float(_value(ast.parse(formula, mode="eval").body, inputs))


_OPERATIONS: Mapping[type, Callable[[float, float], float]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
}


def _value(node: ast.AST, inputs: Mapping[str, Values]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name) and node.id in inputs:
        return inputs[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
        return _OPERATIONS[type(node.op)](_value(node.left, inputs), _value(node.right, inputs))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, inputs)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
        return FUNCTIONS[node.func.id](*(_value(argument, inputs) for argument in node.args))
    raise ValueError(f"formula: expected numbers, inputs, operations and known functions, found {ast.dump(node)}")
