"""Conditions: what they keep, against Python on exact numbers with None as null, and what is refused."""

from __future__ import annotations

import operator
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data import where as w
from data.where import And, Compare, In, IsNull, Not, Or, WhereError, mask, parse, program, type_problems

INT64 = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([-(2**63), 2**63 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 512, 127, -128]),
)
DOUBLE = st.one_of(
    st.sampled_from([-2.0, -0.5, -0.0, 0.0, 0.1, 1.0, 2.5, 3.0, 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 1e300]),
    st.sampled_from([float("inf"), float("-inf"), float(np.float32(0.1))]),
    st.floats(allow_nan=False, width=32),
)
CONSTANT = st.one_of(INT64, DOUBLE)
TYPES = {"i": pa.int64(), "s": pa.int8(), "b": pa.bool_(), "f": pa.float32(), "d": pa.float64()}
NAMES = st.sampled_from(list(TYPES))

LEAVES = st.one_of(
    st.builds(Compare, NAMES, st.sampled_from(w.OPERATORS), CONSTANT),
    st.builds(In, NAMES, st.lists(CONSTANT, min_size=1, max_size=5).map(tuple)),
    st.builds(IsNull, NAMES),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=8,
)

ROW = st.fixed_dictionaries(
    {
        "i": st.none() | INT64,
        "s": st.none() | st.integers(-128, 127),
        "b": st.none() | st.booleans(),
        "f": st.none() | DOUBLE.map(lambda x: as_float32(x)) | st.just(float("nan")),
        "d": st.none() | DOUBLE | st.just(float("nan")),
    }
)
OPERATIONS = dict(zip(w.OPERATORS, (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)))


def as_float32(value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(value))


def text_of(node) -> str:
    """The tree as a user writes it."""
    if isinstance(node, Compare):
        return f"{node.column} {node.operator} {number(node.constant)}"
    if isinstance(node, In):
        return f"{node.column} in ({', '.join(map(number, node.constants))},)"
    if isinstance(node, IsNull):
        return f"{node.column} is None"
    if isinstance(node, Not):
        return f"not ({text_of(node.operand)})"
    return f" {'and' if isinstance(node, And) else 'or'} ".join(f"({text_of(one)})" for one in node.operands)


def number(value) -> str:
    return repr(value).replace("inf", "1e999")


def truth(node, row) -> bool | None:
    """Three-valued, by Python's exact comparison of integers and floats."""
    if isinstance(node, Not):
        inner = truth(node.operand, row)
        return None if inner is None else not inner
    if isinstance(node, (And, Or)):
        inner = [truth(one, row) for one in node.operands]
        decisive = isinstance(node, Or)
        if decisive in inner:
            return decisive
        return None if None in inner else not decisive
    value = row[node.column]
    if isinstance(node, IsNull):
        return value is None
    if value is None:
        return None
    if isinstance(node, In):
        return any(value == constant for constant in node.constants)
    return OPERATIONS[node.operator](value, node.constant)


def interpreted(code: w.Program, names: list[str], row) -> int:
    """What a program says of a row: 0, 1 or 2; written from the description of the encoding alone."""
    stack: list[int] = []
    for op, a, b, c, d in code.code.tolist():
        if op <= 2:
            value = row[names[a]]
        if op == 0:
            constant = (code.ints if c == 0 else code.floats)[d].item()
            operations = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
            stack.append(2 if value is None else int(operations[b](value, constant)))
        elif op == 1:
            constants = (code.ints if c == 0 else code.floats)[b : b + d].tolist()
            assert len(constants) == d > 0
            stack.append(2 if value is None else int(any(value == constant for constant in constants)))
        elif op == 2:
            stack.append(int(value is None))
        elif op == 5:
            stack.append({0: 1, 1: 0, 2: 2}[stack.pop()])
        else:
            operands = [stack.pop() for _ in range(a)]
            decisive = {3: 0, 4: 1}[op]
            stack.append(decisive if decisive in operands else 2 if 2 in operands else 1 - decisive)
    (result,) = stack
    return result


def arrays(rows) -> dict[str, pa.Array]:
    return {name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()}


@given(TREES, st.lists(ROW, min_size=1, max_size=12))
@settings(deadline=None, max_examples=300)
def test_mask_and_program_keep_what_python_keeps(tree, rows):
    where = parse(text_of(tree))
    expected = [truth(tree, row) is True for row in rows]
    found = mask(where, arrays(rows))
    assert found.dtype == bool
    assert found.tolist() == expected
    names = ["unused", *reversed(TYPES)]
    code = program(where, names)
    assert (code.code.dtype, code.code.shape[1], code.ints.dtype, code.floats.dtype) == ("int64", 5, "int64", "float64")
    unknown = {False: 0, True: 1, None: 2}
    assert [interpreted(code, names, row) for row in rows] == [unknown[truth(tree, row)] for row in rows]


@given(st.sampled_from(w.OPERATORS), INT64 | DOUBLE, st.lists(st.none() | INT64 | DOUBLE, min_size=1))
@settings(deadline=None, max_examples=300)
def test_comparison_of_integers_with_floats_is_that_of_fractions(sign, constant, values):
    integers = [value for value in values if not isinstance(value, float)]
    doubles = [value for value in values if not isinstance(value, int)]
    for column, kind in ((integers, pa.int64()), (doubles, pa.float64())):
        found = mask(parse(f"x {sign} {number(constant)}"), {"x": pa.array(column, kind)}).tolist()
        expected = [value is not None and OPERATIONS[sign](exact(value), exact(constant)) for value in column]
        assert found == expected


def exact(value):
    return Fraction(value) if abs(value) != float("inf") else value


@given(TREES)
@settings(deadline=None, max_examples=100)
def test_what_is_parsed_is_what_was_written(tree):
    where = parse(text_of(tree))
    assert repr(where.root).replace("-0.0", "0.0") == repr(tree).replace("-0.0", "0.0")
    order = [name for name in where.columns if f"column='{name}'" in repr(tree)]
    assert list(where.columns) == order
    assert sorted(order, key=lambda name: repr(tree).index(f"column='{name}'")) == order


def kept(text, **columns):
    return mask(parse(text), {name: pa.array(values) for name, values in columns.items()}).tolist()


def test_a_row_with_null_is_kept_by_neither_a_comparison_nor_its_opposite():
    x = [1, None, 5]
    assert kept("x > 3", x=x) == [False, False, True]
    assert kept("not x > 3", x=x) == [True, False, False]
    assert kept("x not in (5, 6)", x=x) == [True, False, False]
    assert kept("x is None or x > 3", x=x) == [False, True, True]
    assert kept("x is not None", x=x) == [True, False, True]


def test_comparisons_chain_and_take_the_constant_on_either_side():
    assert kept("1 < x <= 3", x=[1, 2, 3, 4]) == [False, True, True, False]
    assert kept("3 >= x", x=[1, 2, 3, 4]) == [True, True, True, False]
    assert kept("2 == x != 3", x=[1, 2]) == [False, True]


def test_nan_is_unequal_to_all_and_in_no_order():
    x = [float("nan"), 1.0]
    assert [kept(f"x {sign} 1", x=x)[0] for sign in w.OPERATORS] == [False, True, False, False, False, False]
    assert kept("x not in (1, 2)", x=x) == [True, False]
    assert kept("not x > 0", x=x) == [True, False]


def test_a_boolean_is_0_or_1():
    assert kept("b == True", b=[True, False, None]) == [True, False, False]
    assert kept("b < 0.5", b=[True, False, None]) == [False, True, False]


def test_a_float32_column_does_not_hold_a_tenth():
    x = pa.array([0.1], pa.float32())
    assert mask(parse("x == 0.1"), {"x": x}).tolist() == [False]
    assert mask(parse("0.0999 < x < 0.1001"), {"x": x}).tolist() == [True]


def test_a_slice_of_a_column_gives_its_own_rows():
    x = pa.array([1, None, 3, 4])[1:3]
    assert mask(parse("x >= 3"), {"x": x}).tolist() == [False, True]
    b = pa.array([True, False, None, True])[1:]
    assert mask(parse("b == True"), {"b": b}).tolist() == [False, False, True]


def test_no_rows_give_an_empty_mask():
    assert mask(parse("x > 1 and x in (2,)"), {"x": pa.array([], pa.int64())}).shape == (0,)


def test_lines_and_unicode_names_are_allowed():
    where = parse("  größe > 1\n\tand (größe < 5\n or b == 2)\n")
    assert where.columns == ("größe", "b")
    assert parse("ﬁle > 1").columns == ("ﬁle",)  # Python itself would read "file"


@pytest.mark.parametrize(
    ("text", "reason", "at"),
    [
        ("", "expected a condition, found nothing", 1),
        ("day >= 3 and x = 1", "expected ==, found =", 16),
        ("a <> 3", "expected !=, found <>", 3),
        ("a => 3", "expected >=, found =>", 3),
        ("a === 3", "expected ==, found ===", 3),
        ("a == 1 AND b == 2", "expected and, found AND", 8),
        ("a == 1 && b == 2", "expected and, found &&", 8),
        ("a == 1 & b == 2", "expected and, found &", 8),
        ("(a == 1) | (b == 2)", "expected or, found |", 10),
        ("!a == 1", "expected not, found !", 1),
        ("~(a == 1)", "expected not, found ~", 1),
        ("a NOT  IN (1, 2)", "expected not in, found NOT IN", 3),
        ("a IS NOT NULL", "expected is not, found IS NOT", 3),
        ("a is NULL", "expected None after is, found NULL", 6),
        ("a is 3", "expected None after is (numbers are compared with ==), found 3", 6),
        ("a == None", "expected a number after == (nulls are found with is None), found None", 6),
        ("a in (1, None)", "expected a number in the list (nulls are found with is None), found None", 10),
        ("a == true", "expected True, found the name true", 6),
        ("a between 1 and 3", "expected low <= column <= high, found between", 3),
        (
            "a == 'x = y'",
            "expected a number (strings are hashed to integers when samples are converted), found 'x = y'",
            6,
        ),
        ("a in (1)", "expected a list of numbers after in, such as (3, 7), or (3,) for a single one, found 1", 7),
        ("a in ()", "expected at least one number in the list, found none", 6),
        ("a in (1, b)", "expected a number in the list, found b", 10),
        ("clicked", "expected a comparison, such as clicked == 1, found just the name clicked", 1),
        ("a + 1 > 3", "expected a column or a number, found a + 1", 1),
        ("f(a) > 1", "expected a column or a number, found f(a)", 1),
        ("1 < 2", "expected a column on one side of the comparison, found two constants, 1 and 2", 1),
        ("a < b", "expected a constant to compare a with, found the name b", 5),
        ("(a > 1) == True", "expected a column or a number, found a condition, a > 1", 2),
        ("a > 1 or", "expected a condition, found the end of the text", 9),
        ("a == 1 b == 2", "expected a condition, found b", 8),
        ("(a == 1", "expected a condition, found '(' was never closed", 1),
        ("a > 1 # now", "expected nothing (a condition has no comments), found #", 7),
        (f"a > {2**63}", f"expected an integer from {-(2**63)} to {2**63 - 1}, found {2**63}", 5),
        ("größe > 1 and ü = 2", "expected ==, found =", 17),
        ("a > 1\nand b = 2", "expected ==, found =", 13),
    ],
)
def test_what_is_wrong_is_said_in_one_line_with_its_place(text, reason, at):
    with pytest.raises(WhereError) as error:
        parse(text)
    assert (error.value.reason, error.value.position + 1) == (reason, at)
    shown = text.replace("\n", "\\n")
    assert str(error.value) == f'{reason} (character {at} of "{shown}")'
    assert error.value.pointed().splitlines()[-1] == " " * (at - 1) + "^"


def test_a_long_text_is_shown_around_the_mistake():
    text = "a == 1 or " * 100 + "b = 2" + " or a == 1" * 100
    with pytest.raises(WhereError) as error:
        parse(text)
    assert len(str(error.value)) < 200
    assert "b = 2" in str(error.value)
    assert "character 1003 of" in str(error.value)


@pytest.mark.parametrize("text", ["not " * 5000 + "a > 1", "(" * 5000 + "a > 1" + ")" * 5000, "a > 1\0", "\ud800 > 1"])
def test_no_text_gives_anything_but_a_where_error(text):
    with pytest.raises(WhereError):
        parse(text)


@given(st.text("ab01. ()<>=!&|andornotinisNone,[]+-'\"#\n\\", max_size=30))
@settings(deadline=None, max_examples=500)
def test_random_texts_are_conditions_or_where_errors(text):
    try:
        where = parse(text)
    except WhereError as error:
        assert "\n" not in str(error)
        assert 0 <= error.position <= len(text)
    else:
        assert parse(text_of(where.root)).columns == where.columns


def test_columns_that_cannot_be_compared_are_named():
    schema = pa.schema(
        [("day", pa.int32()), ("name", pa.string()), ("items", pa.list_(pa.int64())), ("x", pa.float32())]
    )
    where = parse("days > 3 and name == 1 and x > 0 and items is None and day == 2 and q == 1")
    start = "expected an integer, boolean, float or double, as where compares it, found"
    assert type_problems(where, schema, "a.orc") == [
        f"a.orc: column days: {start} no such column; did you mean day?",
        f"a.orc: column name: {start} string",
        f"a.orc: column items: {start} list<item: int64>",
        f"a.orc: column q: {start} no such column; the file has: day, name, items, x",
    ]
    assert type_problems(parse("day > 3"), schema, "a.orc") == []
    twice = pa.schema([("x", pa.int64()), ("x", pa.int64())])
    assert type_problems(parse("x > 3"), twice, "a.orc") == [f"a.orc: column x: {start} 2 columns of that name"]
