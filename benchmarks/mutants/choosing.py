"""The mutations that can tell something: the operators, and the places in a module that they leave alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

OPERATORS = frozenset(
    f"core/{name}"
    for name in (
        "AddNot",
        "ExceptionReplacer",
        "NumberReplacer",
        "ReplaceAndWithOr",
        "ReplaceBreakWithContinue",
        "ReplaceContinueWithBreak",
        "ReplaceFalseWithTrue",
        "ReplaceOrWithAnd",
        "ReplaceTrueWithFalse",
        "ReplaceUnaryOperator_Delete_Not",
        "ReplaceUnaryOperator_USub_UAdd",
        "ZeroIterationForLoop",
        *(
            f"ReplaceBinaryOperator_{change}"
            for change in (
                "Add_Sub",
                "BitAnd_BitOr",
                "BitOr_BitAnd",
                "Div_Mul",
                "FloorDiv_Mul",
                "Mod_FloorDiv",
                "Mul_FloorDiv",
                "Pow_Mul",
                "Sub_Add",
            )
        ),
        *(
            f"ReplaceComparisonOperator_{change}"
            for change in (
                "Eq_NotEq",
                "Gt_GtE",
                "Gt_LtE",
                "GtE_Gt",
                "GtE_Lt",
                "Is_IsNot",
                "IsNot_Is",
                "Lt_GtE",
                "Lt_LtE",
                "LtE_Gt",
                "LtE_Lt",
                "NotEq_Eq",
            )
        ),
    )
)
"""One change of an arithmetic operator, and of a comparison its boundary and its contrary.

The other changes of the tool (13 for each plus sign) are noticed by nearly any test and would flatter the score;
``is`` for ``==`` is the same for enums and None.
"""

Position = tuple[int, int]
Span = tuple[Position, Position]


def spans_left_alone(source: str) -> list[Span]:
    """Return the spans (line from 1, column) in which a change means nothing when the program runs.

    Annotations are never evaluated (``from __future__ import annotations``). Decorators only say how a value is stored
    and compared (``frozen``, ``slots``) or how much is cached. ``strict`` of ``zip`` guards against our own mistakes,
    and ``repr`` of ``field`` is for whoever looks for them. The star before arguments with names alone is no product.
    """
    nodes = [*ast.walk(ast.parse(source))]
    return [*(_span(node) for parent in nodes for node in _left_alone(parent)), *filter(None, map(_star, nodes))]


def is_left_alone(start: Position, end: Position, spans: list[Span]) -> bool:
    """Whether a mutation from ``start`` to ``end`` lies in one of the spans."""
    return any(first <= start and end <= last for first, last in spans)


def _left_alone(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from node.decorator_list
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
        yield node.returns
    if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None:
        yield node.annotation
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from (each.value for each in node.keywords if (node.func.id, each.arg) in _WITHOUT_MEANING)


def _star(node: ast.AST) -> Span | None:
    """Return the span of the star in the arguments of a function, with the commas around it."""
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or not node.args.kwonlyargs:
        return None
    before: list[ast.arg | ast.expr] = [*node.args.posonlyargs, *node.args.args, *node.args.defaults]
    begin = max((_span(each)[1] for each in before), default=(node.lineno, node.col_offset))
    return begin, _span(node.args.kwonlyargs[0])[0]


_WITHOUT_MEANING = frozenset({("zip", "strict"), ("field", "repr")})
"""Functions, and their arguments that change no result."""


def _span(node: ast.expr | ast.arg) -> Span:
    end = (node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
    return (node.lineno, node.col_offset), end
