"""The small changes that a mutation run makes: one node of the syntax tree replaced by another."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
OPPOSITES = {"min": "max", "max": "min", "any": "all", "all": "any"}
# What only type checkers and people read; operators are replaced through the node that has them.
UNSEEN_FIELDS = {"annotation", "returns", "decorator_list", "type_params", "ops", "op"}
UNSEEN_NODES = (ast.Import, ast.ImportFrom, ast.JoinedStr)


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change, made in place and taken back by `source`."""

    line: int
    column: int
    description: str
    in_function: bool
    holder: ast.AST | list[ast.AST]
    slot: str | int
    replacement: ast.AST


def mutants(tree: ast.Module) -> Iterator[Mutant]:
    """Every change that we know how to make to `tree`, in the order of its lines."""
    yield from _below(tree, in_function=False)


def source(mutant: Mutant, tree: ast.Module) -> ast.Module:
    """A copy of `tree` with the change."""
    original = _put(mutant, mutant.replacement)
    try:
        return ast.fix_missing_locations(copy.deepcopy(tree))
    finally:
        _put(mutant, original)


def _put(mutant: Mutant, node: ast.AST) -> ast.AST:
    if isinstance(mutant.holder, list):
        assert isinstance(mutant.slot, int)
        old, mutant.holder[mutant.slot] = mutant.holder[mutant.slot], node
    else:
        assert isinstance(mutant.slot, str)
        old = getattr(mutant.holder, mutant.slot)
        setattr(mutant.holder, mutant.slot, node)
    return old


def _below(parent: ast.AST, *, in_function: bool) -> Iterator[Mutant]:
    function = isinstance(parent, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    for field, value in ast.iter_fields(parent):
        if field in UNSEEN_FIELDS:
            continue
        inside = in_function or (function and field == "body")
        if isinstance(value, list):
            for index, node in enumerate(value):
                yield from _at(value, index, node, inside)
        else:
            yield from _at(parent, field, value, inside)


def _at(holder: ast.AST | list[ast.AST], slot: str | int, node: object, in_function: bool) -> Iterator[Mutant]:
    if not isinstance(node, ast.AST) or isinstance(node, UNSEEN_NODES) or _is_for_readers(node):
        return
    for description, replacement in _changes(node):
        line, column = _place(node)
        yield Mutant(line, column, description, in_function, holder, slot, ast.copy_location(replacement, node))
    yield from _below(node, in_function=in_function)


def _place(node: ast.AST) -> tuple[int, int]:
    if isinstance(node, ast.comprehension):  # has no place of its own
        node = node.target
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0) + 1


def _is_for_readers(node: ast.AST) -> bool:
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name):
        return node.test.id == "TYPE_CHECKING"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for description, replacement in _replacements(node):
        yield f"{ast.unparse(node)[:100]!r}: {description}", replacement


def _replacements(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.AugAssign():
            yield "removed", ast.Pass()
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield "removed", ast.Pass()
        case ast.Continue():
            yield "break", ast.Break()
        case ast.Break():
            yield "continue", ast.Continue()
        case ast.If() | ast.IfExp():
            yield "always", _with(node, test=ast.Constant(value=True))
            yield "never", _with(node, test=ast.Constant(value=False))
        case ast.comprehension(ifs=[_, *_]):
            yield "unconditional", _with(node, ifs=[])
        case ast.Compare(ops=ops):
            for index, operator in enumerate(ops):
                for other in COMPARISONS[type(operator)]:
                    yield other.__name__, _with(node, ops=[*ops[:index], other(), *ops[index + 1 :]])
        case ast.BoolOp(op=operator, values=values):
            yield "and for or", _with(node, op=ast.Or() if isinstance(operator, ast.And) else ast.And())
            for index, value in enumerate(values):
                rest = [*values[:index], *values[index + 1 :]]
                yield f"without {ast.unparse(value)!r}", rest[0] if len(rest) == 1 else _with(node, values=rest)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield "operand alone", operand
        case ast.Call(func=ast.Name(id=name)) if name in OPPOSITES:
            yield OPPOSITES[name], _with(node, func=ast.Name(OPPOSITES[name], ast.Load()))
        case ast.Constant(value=bool(value)):
            yield str(not value), ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield str(value + 1), ast.Constant(value + 1)
        case ast.Constant(value=str(value)):
            yield "another text", ast.Constant("XX" + value)
        case _:
            pass
    if isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in ARITHMETIC:
        other = ARITHMETIC[type(node.op)]
        yield other.__name__, _with(node, op=other())


def _with(node: ast.AST, **fields: object) -> ast.AST:
    changed = copy.copy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed
