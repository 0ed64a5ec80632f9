"""Functions in a small part of Python, translated to text for LLVM.

They may contain integers of 64 bits; local variables; `if` and `while` with `and` and `or`;
`return`; the arithmetic + - * & | >>; comparisons of two; calls of each other and of `primitives`.
Names of the module and of enumerations are constants.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sciml_par.parallel.native import primitives

Function = Callable[..., Any]

_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.RShift: "ashr",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "slt",
    ast.Gt: "sgt",
    ast.GtE: "sge",
}

HEADER = """
declare void @llvm.x86.sse2.pause()
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""


def translated(functions: Sequence[Function], constants: Mapping[str, int]) -> str:
    """Return the functions, which may call each other, as one module."""
    names = {function.__name__ for function in functions}
    parts = [_Translator(function, names, constants).text() for function in functions]
    return HEADER + "\n".join(parts)


class _Translator:
    """Translates one function."""

    def __init__(
        self, function: Function, functions: set[str], constants: Mapping[str, int]
    ) -> None:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
        definition = tree.body[0]
        assert isinstance(definition, ast.FunctionDef)
        self._definition = definition
        self._functions = functions
        self._known: dict[str, Any] = {**inspect.unwrap(function).__globals__, **constants}
        self._lines: list[str] = []
        self._numbers = itertools.count()
        self._ended = False  # whether the current block has its last line

    def text(self) -> str:
        definition = self._definition
        parameters = [argument.arg for argument in definition.args.args]
        assigned = {
            node.id
            for node in ast.walk(definition)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        self._variables = {*parameters, *assigned}
        for name in sorted(self._variables):
            self._line(f"%{name} = alloca i64")
        for name in parameters:
            self._line(f"store i64 %{name}.given, ptr %{name}")
        self._block(definition.body)
        if not self._ended:
            self._line("ret i64 0")
        given = ", ".join(f"i64 %{name}.given" for name in parameters)
        body = "\n".join(self._lines)
        return f"define i64 @{definition.name}({given}) nounwind {{\nentry:\n{body}\n}}\n"

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                pass  # the docstring
            case ast.Expr(value=value):
                self._value(value)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._line(f"store i64 {self._value(value)}, ptr %{name}")
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
                old = self._new(f"load i64, ptr %{name}")
                new = self._new(f"{_ARITHMETIC[type(op)]} i64 {old}, {self._value(value)}")
                self._line(f"store i64 {new}, ptr %{name}")
            case ast.Return(value=value):
                self._end(f"ret i64 {'0' if value is None else self._value(value)}")
            case ast.If(test=test, body=body, orelse=orelse):
                self._if(test, body, orelse)
            case ast.While(test=test, body=body, orelse=[]):
                self._while(test, body)
            case _:
                raise self._error(node)

    def _if(self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        then, otherwise, after = self._labels("then", "else", "after")
        self._branch(test, then, otherwise)
        for label, statements in ((then, body), (otherwise, orelse)):
            self._begin(label)
            self._block(statements)
            self._end(f"br label %{after}")
        self._begin(after)

    def _while(self, test: ast.expr, body: Sequence[ast.stmt]) -> None:
        again, inside, after = self._labels("again", "inside", "after")
        self._end(f"br label %{again}")
        self._begin(again)
        self._branch(test, inside, after)
        self._begin(inside)
        self._block(body)
        self._end(f"br label %{again}")
        self._begin(after)

    def _branch(self, test: ast.expr, yes: str, no: str) -> None:
        """Jump to one of two labels, with Python's short-circuit evaluation."""
        match test:
            case ast.BoolOp(op=op, values=[*values, last]):
                for value in values:
                    (more,) = self._labels("more")
                    self._branch(value, *((more, no) if isinstance(op, ast.And) else (yes, more)))
                    self._begin(more)
                self._branch(last, yes, no)
            case _:
                self._end(f"br i1 {self._condition(test)}, label %{yes}, label %{no}")

    def _condition(self, node: ast.expr) -> str:
        """Return an expression as a bit."""
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = self._value(node.left), self._value(node.comparators[0])
            return self._new(f"icmp {_COMPARISONS[type(node.ops[0])]} i64 {left}, {right}")
        return self._new(f"icmp ne i64 {self._value(node)}, 0")

    def _value(self, node: ast.expr) -> str:
        """Return an expression as a word."""
        match node:
            case ast.Constant(value=int(number)):
                return str(int(number))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
                return str(-number)
            case ast.Name(id=name) if name in self._variables:
                return self._new(f"load i64, ptr %{name}")
            case ast.Name() | ast.Attribute():
                return self._constant(node)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
                first, second = self._value(left), self._value(right)
                return self._new(f"{_ARITHMETIC[type(op)]} i64 {first}, {second}")
            case ast.Compare():
                return self._new(f"zext i1 {self._condition(node)} to i64")
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._call(name, [self._value(each) for each in arguments])
        raise self._error(node)

    def _constant(self, node: ast.expr) -> str:
        value = eval(compile(ast.Expression(node), "<constant>", "eval"), self._known)  # noqa: S307
        if not isinstance(value, int):
            raise self._error(node)
        return str(int(value))

    def _call(self, name: str, arguments: list[str]) -> str:
        given = ", ".join(f"i64 {argument}" for argument in arguments)
        if name in self._functions:
            return self._new(f"call i64 @{name}({given})")
        if not hasattr(primitives, name):
            raise TypeError(f"{self._definition.name} calls {name}, which cannot be translated")
        match name, arguments:
            case "load", [address]:
                return self._new(f"load i64, ptr {self._pointer(address)}, align 8")
            case "load_acquire", [address]:
                return self._new(f"load atomic i64, ptr {self._pointer(address)} acquire, align 8")
            case "store", [address, word]:
                pointer = self._pointer(address)
                self._line(f"store atomic i64 {word}, ptr {pointer} release, align 8")
            case "exchange_if", [address, expected, word]:
                pair = self._new(
                    f"cmpxchg ptr {self._pointer(address)}, i64 {expected}, i64 {word} "
                    f"seq_cst seq_cst"
                )
                done = self._new(f"extractvalue {{i64, i1}} {pair}, 1")
                return self._new(f"zext i1 {done} to i64")
            case "add", [address, number]:
                pointer = self._pointer(address)
                self._new(f"atomicrmw add ptr {pointer}, i64 {number} seq_cst, align 8")
            case "fence", []:
                self._line("fence seq_cst")
            case "pause", []:
                self._line("call void @llvm.x86.sse2.pause()")
            case "copy", [target, source, length]:
                to, origin = self._pointer(target), self._pointer(source)
                self._line(
                    f"call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {origin}, i64 {length}, "
                    f"i1 false)"
                )
            case "call", [function, *_]:
                rest = given.partition(", ")[2]
                return self._new(f"call i64 {self._pointer(function)}({rest})")
            case "call_int32", [function, *_]:
                rest = given.partition(", ")[2]
                short = self._new(f"call i32 {self._pointer(function)}({rest})")
                return self._new(f"sext i32 {short} to i64")
            case _:
                raise TypeError(f"{self._definition.name}: wrong arguments for {name}")
        return "0"

    def _pointer(self, address: str) -> str:
        return self._new(f"inttoptr i64 {address} to ptr")

    def _labels(self, *names: str) -> list[str]:
        number = next(self._numbers)
        return [f"{name}.{number}" for name in names]

    def _new(self, operation: str) -> str:
        value = f"%v.{next(self._numbers)}"
        self._line(f"{value} = {operation}")
        return value

    def _line(self, text: str) -> None:
        if not self._ended:  # lines after a return are never reached
            self._lines.append(f"  {text}")

    def _end(self, text: str) -> None:
        self._line(text)
        self._ended = True

    def _begin(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._ended = False

    def _error(self, node: ast.AST) -> TypeError:
        return TypeError(f"{self._definition.name}: cannot translate {ast.unparse(node)}")
