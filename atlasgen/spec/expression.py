"""Expressions of a rule file: a whitelist over Python's `ast`, never eval or sympify on a user's
text.

`parse_tree` turns text into a checked syntax tree; `interpret` gives the tree a meaning by an
*algebra*: the values of its names and the functions it may call. sympy (`parse_expression`), plain
numbers (`evaluate_number`, `evaluate_size`) and the shapes of a memory graph (graph.py) are
algebras.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import sympy

from atlasgen.spec.errors import SpecError, near_miss

MAX_LENGTH = 1000  # characters
MAX_NODES = 200
MAX_DEPTH = 40
MAX_CALLS = 8  # functions inside functions: silu and gelu double their argument in sympy
MAX_EXPONENT = 16
MAX_NUMBER = 1e38  # largest constant, and the inverse of the smallest: what float32 holds

ELEMENTWISE_FUNCTIONS: dict[str, int] = {
    "exp": 1, "log": 1, "sqrt": 1, "tanh": 1, "sigmoid": 1, "relu": 1, "silu": 1, "gelu": 1,
    "softplus": 1, "abs": 1, "sign": 1, "sinh": 1, "cosh": 1, "sin": 1, "cos": 1, "erf": 1,
    "min": 2, "max": 2, "where": 3,
}  # fmt: skip
"""Functions of elementwise expressions and how many arguments each takes."""

NUMBER_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": math.exp,
    "log": math.log,
    "sqrt": math.sqrt,
    "abs": abs,
    "min": min,
    "max": max,
}

_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
}
_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


# --------------------------------------------------------------------------------------------------
# sympy functions that sympy lacks; each knows a derivative that does not overflow.


class sigmoid(sympy.Function):  # noqa: N801  (sympy's functions are lower case)
    """1 / (1 + exp(-x)); derivative s (1 - s), finite for every finite x."""

    nargs = 1
    is_real = True

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        return self * (1 - self)

    def _eval_evalf(self, prec: int) -> sympy.Expr:
        return (1 / (1 + sympy.exp(-self.args[0])))._eval_evalf(prec)


class softplus(sympy.Function):  # noqa: N801
    """log(1 + exp(x)); derivative sigmoid(x)."""

    nargs = 1
    is_real = True

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        return sigmoid(self.args[0])

    def _eval_evalf(self, prec: int) -> sympy.Expr:
        return sympy.log(1 + sympy.exp(self.args[0]))._eval_evalf(prec)


class logcosh(sympy.Function):  # noqa: N801
    """log(cosh(x)); derivative tanh(x), where sympy's sinh(x)/cosh(x) would be inf/inf for large
    x."""

    nargs = 1
    is_real = True

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        return sympy.tanh(self.args[0])

    def _eval_evalf(self, prec: int) -> sympy.Expr:
        return sympy.log(sympy.cosh(self.args[0]))._eval_evalf(prec)


class gelu(sympy.Function):  # noqa: N801
    """x (1 + erf(x / sqrt(2))) / 2, kept whole: backends have it as one function."""

    nargs = 1
    is_real = True

    @classmethod
    def eval(cls, x: sympy.Expr) -> sympy.Expr | None:
        return sympy.S.Zero if x.is_zero else None

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        return gelu_slope(self.args[0])

    def _eval_evalf(self, prec: int) -> sympy.Expr:
        x = self.args[0]
        return (x * (1 + sympy.erf(x / sympy.sqrt(2))) / 2)._eval_evalf(prec)


class gelu_slope(sympy.Function):  # noqa: N801
    """The derivative of gelu: its own is (2 - x^2) times the normal density."""

    nargs = 1
    is_real = True

    @classmethod
    def eval(cls, x: sympy.Expr) -> sympy.Expr | None:
        return sympy.S.Half if x.is_zero else None

    def fdiff(self, argindex: int = 1) -> sympy.Expr:
        x = self.args[0]
        return (2 - x**2) * sympy.exp(-(x**2) / 2) / sympy.sqrt(2 * sympy.pi)

    def _eval_evalf(self, prec: int) -> sympy.Expr:
        x = self.args[0]
        density = sympy.exp(-(x**2) / 2) / sympy.sqrt(2 * sympy.pi)
        return ((1 + sympy.erf(x / sympy.sqrt(2))) / 2 + x * density)._eval_evalf(prec)


def _sympy_log(argument: sympy.Expr) -> sympy.Expr:
    if isinstance(argument, sympy.cosh):
        return logcosh(argument.args[0])
    return sympy.log(argument)


def _sympy_where(condition: Any, then: sympy.Expr, otherwise: sympy.Expr) -> sympy.Expr:
    # Unevaluated: sympy would otherwise try to solve nested conditions, which can take minutes.
    if condition in (sympy.true, sympy.false):
        return then if condition == sympy.true else otherwise
    return sympy.Piecewise((then, condition), (otherwise, True), evaluate=False)


SYMPY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "exp": sympy.exp,
    "log": _sympy_log,
    "sqrt": sympy.sqrt,
    "tanh": sympy.tanh,
    "sigmoid": sigmoid,
    "relu": lambda x: sympy.Max(x, 0),
    "silu": lambda x: x * sigmoid(x),
    "gelu": gelu,
    "softplus": softplus,
    "abs": sympy.Abs,
    "sign": sympy.sign,
    "sinh": sympy.sinh,
    "cosh": sympy.cosh,
    "sin": sympy.sin,
    "cos": sympy.cos,
    "erf": sympy.erf,
    "min": sympy.Min,
    "max": sympy.Max,
    "where": _sympy_where,
}


# --------------------------------------------------------------------------------------------------
# text -> checked tree


def parse_tree(
    text: Any,
    variables: Iterable[str],
    functions: Mapping[str, int],
    *,
    field: str = "expression",
    file: str | None = None,
    matrix_product: bool = False,
) -> ast.expr:
    """The syntax tree of `text`, in which only whitelisted nodes, `variables` and `functions`
    occur.

    `functions` maps a name to its number of arguments. Raises SpecError within milliseconds for
    anything else: attributes, strings, lambdas, comprehensions, keyword arguments, texts that are
    too long or deep.
    """
    reader = _Reader(text, frozenset(variables), functions, field, file, matrix_product)
    return reader.read()


class _Reader:
    """One reading of one expression; holds what its error messages need."""

    def __init__(
        self,
        text: Any,
        variables: frozenset[str],
        functions: Mapping[str, int],
        field: str,
        file: str | None,
        matrix_product: bool,
    ) -> None:
        self.text, self.variables, self.functions = text, variables, functions
        self.field, self.file, self.matrix_product = field, file, matrix_product
        self.nodes = 0
        self.calls = 0  # calls that enclose the node being checked

    def refuse(self, reason: str, allowed: Iterable[str] = (), suggestion: str | None = None) -> Any:
        raise SpecError(
            self.field,
            reason,
            value=self.text,
            allowed=tuple(allowed),
            suggestion=suggestion,
            file=self.file,
        )

    def read(self) -> ast.expr:
        if not isinstance(self.text, str):
            self.refuse("an expression is a text", ["an expression in quotes"])
        if len(self.text) > MAX_LENGTH:
            self.refuse(f"an expression has at most {MAX_LENGTH} characters, not {len(self.text)}")
        if not self.text.isascii():
            # Python reads look-alikes (full-width letters) as the plain ones; a text here means itself.
            odd = next(letter for letter in self.text if not letter.isascii())
            self.refuse(
                f"an expression is plain ASCII text, without {odd!a} ({unicodedata.name(odd, 'unnamed')})"
            )
        try:
            tree = ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            detail = error.msg if isinstance(error, SyntaxError) else "too deeply nested"
            self.refuse(f"not an expression ({detail})", suggestion=self._example())
        self.check(tree, 0, in_condition=False)
        return tree

    def _example(self) -> str:
        names = ", ".join(sorted(self.variables)) or "no names"
        return f"Write arithmetic in {names}"

    def check(self, node: ast.AST, depth: int, in_condition: bool) -> None:
        self.nodes += 1
        if depth > MAX_DEPTH:
            self.refuse(f"nested more than {MAX_DEPTH} deep")
        if self.nodes > MAX_NODES:
            self.refuse(f"more than {MAX_NODES} names, numbers and operators")
        match node:
            case ast.Constant(value=value):
                self._check_constant(value)
            case ast.Name(id=name):
                self._check_name(name)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
                self.check(operand, depth + 1, False)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                if isinstance(op, ast.MatMult) and not self.matrix_product:
                    self.refuse("the matrix product @ is not allowed here", ["+ - * / **"])
                self.check(left, depth + 1, False)
                self.check(right, depth + 1, False)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                if not in_condition:
                    self.refuse("a comparison may only be the first argument of where(...)")
                self.check(left, depth + 1, False)
                self.check(right, depth + 1, False)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                self._check_call(name, arguments, depth)
            case _:
                self.refuse(
                    f"{_described(node)} is not allowed in an expression",
                    ["numbers", *sorted(self.variables), "+ - * / **", *sorted(self.functions)],
                )

    def _check_constant(self, value: Any) -> None:
        if type(value) not in (int, float):
            self.refuse("only plain numbers may be constants")
        # Compared as integers first: converting a huge int to float raises.
        if type(value) is int and value.bit_length() > 64:
            self.refuse("a constant has at most 64 bits")
        if value != value or (value and not 1 / MAX_NUMBER <= abs(value) <= MAX_NUMBER):
            self.refuse(f"a constant lies between {1 / MAX_NUMBER} and {MAX_NUMBER} in size")

    def _check_name(self, name: str) -> None:
        if name in self.variables:
            return
        if name in self.functions:
            self.refuse(f'the function "{name}" needs its arguments in parentheses')
        self.refuse(
            f'unknown name "{name}"',
            sorted(self.variables),
            near_miss(name, self.variables),
        )

    def _check_call(self, name: str, arguments: list[ast.expr], depth: int) -> None:
        if name not in self.functions:
            self.refuse(
                f'unknown function "{name}"',
                sorted(self.functions),
                near_miss(name, self.functions),
            )
        count = self.functions[name]
        if len(arguments) != count:
            self.refuse(f"{name} takes {count} argument{'s' * (count > 1)}, not {len(arguments)}")
        if name == "where" and not isinstance(arguments[0], ast.Compare):
            self.refuse("the first argument of where is a comparison", ["a < b", "a <= b", "a > b"])
        self.calls += 1
        if self.calls > MAX_CALLS:
            self.refuse(f"more than {MAX_CALLS} functions inside each other")
        for index, argument in enumerate(arguments):
            self.check(argument, depth + 1, in_condition=name == "where" and index == 0)
        self.calls -= 1


def _described(node: ast.AST) -> str:
    names = {
        ast.Attribute: "attribute access", ast.Lambda: "a lambda", ast.Subscript: "indexing",
        ast.ListComp: "a comprehension", ast.GeneratorExp: "a comprehension",
        ast.SetComp: "a comprehension", ast.DictComp: "a comprehension",
        ast.JoinedStr: "a string", ast.IfExp: "if/else (use where(condition, a, b))",
        ast.BoolOp: "and/or", ast.NamedExpr: "an assignment", ast.Compare: "this comparison",
        ast.Call: "this kind of call", ast.Starred: "unpacking", ast.BinOp: "this operator",
        ast.UnaryOp: "this operator",
    }  # fmt: skip
    return names.get(type(node), type(node).__name__)


def names_in(text: str) -> frozenset[str]:
    """The variables and functions that a text names, valid or not."""
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))


# --------------------------------------------------------------------------------------------------
# checked tree -> value


def interpret(
    tree: ast.expr,
    names: Mapping[str, Any],
    functions: Mapping[str, Callable[..., Any]],
    *,
    number: Callable[[Any], Any] = lambda value: value,
    power: Callable[[Any, Any], Any] = operator.pow,
    guard: Callable[[Any], Any] = lambda value: value,
) -> Any:
    """The value of a tree from `parse_tree`: Python's operators on `names`, `functions` by name.

    `number` makes a constant, `power` computes a ** b, `guard` sees every intermediate value. Works
    for floats, tensors and sympy expressions alike.
    """

    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=constant):
                return number(constant)
            case ast.Name(id=name):
                return names[name]
            case ast.UnaryOp(op=op, operand=operand):
                inner = value(operand)
                return -inner if isinstance(op, ast.USub) else inner
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return guard(power(value(left), value(right)))
            case ast.BinOp(left=left, op=op, right=right):
                return guard(_BINARY[type(op)](value(left), value(right)))
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _COMPARE[type(op)](value(left), value(right))
            case ast.Call(func=ast.Name(id=name), args=arguments):
                return guard(functions[name](*[value(argument) for argument in arguments]))
        raise AssertionError(f"parse_tree let {type(node).__name__} through")

    return value(tree)


def symbol(name: str) -> sympy.Symbol:
    """The symbol that `parse_expression` uses for a variable: real."""
    return sympy.Symbol(name, real=True)


def parse_expression(
    text: str,
    variables: Iterable[str],
    *,
    field: str = "expression",
    file: str | None = None,
) -> sympy.Expr:
    """An elementwise expression as sympy, its variables being `symbol(name)`.

    Constants become exact rationals. relu, min and max are sympy's Max and Min; where is a
    Piecewise; sigmoid, softplus and log(cosh(.)) are this module's functions; silu and gelu (erf
    form) expand. Exponents are constants of at most 16 in size. Raises SpecError naming `field`.
    """
    names = list(variables)
    tree = parse_tree(text, names, ELEMENTWISE_FUNCTIONS, field=field, file=file)

    def refuse(reason: str) -> Any:
        raise SpecError(field, reason, value=text, file=file)

    def power(base: sympy.Expr, exponent: sympy.Expr) -> sympy.Expr:
        if not exponent.is_number or not abs(float(exponent)) <= MAX_EXPONENT:
            refuse(f"an exponent is a constant of at most {MAX_EXPONENT} in size")
        result = base**exponent
        merged = isinstance(result, sympy.Pow) and result.exp.is_number  # (x**a)**b is x**(a b)
        if merged and abs(float(result.exp)) > MAX_EXPONENT:
            refuse(f"nested powers exceed the exponent {MAX_EXPONENT}")
        return result

    def guard(value: Any) -> Any:
        if value.has(sympy.I, sympy.zoo, sympy.nan, sympy.oo, -sympy.oo):
            refuse("a part of the expression is not a finite real number")
        constant = value.is_number and value != 0
        if constant and not 1 / MAX_NUMBER <= abs(float(value)) <= MAX_NUMBER:
            refuse(f"a part of the expression exceeds {MAX_NUMBER} in size")
        return value

    try:
        return interpret(
            tree,
            {name: symbol(name) for name in names},
            SYMPY_FUNCTIONS,
            number=lambda value: sympy.Rational(str(value)),
            power=power,
            guard=guard,
        )
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, SpecError):
            raise
        return refuse(f"has no finite real value ({error})")


def evaluate_number(
    text: str,
    values: Mapping[str, float],
    *,
    field: str = "expression",
    file: str | None = None,
) -> float:
    """The finite float of an expression such as "K**-0.5" or "1 - 2**(-5 - head)" at given numbers.

    Computed in floats, so a huge power overflows (SpecError) instead of running for ever.
    """
    counts = {name: 2 if name in ("min", "max") else 1 for name in NUMBER_FUNCTIONS}
    tree = parse_tree(text, values, counts, field=field, file=file)
    try:
        result = interpret(
            tree,
            {name: float(value) for name, value in values.items()},
            NUMBER_FUNCTIONS,
            number=float,
        )
        if isinstance(result, complex) or not math.isfinite(result):
            raise ValueError("not a finite real number")
    except (ArithmeticError, ValueError, TypeError) as error:
        at = ", ".join(f"{name} = {value}" for name, value in values.items())
        reason = f"has no finite value{f' at {at}' if at else ''} ({error})"
        raise SpecError(field, reason, value=text, file=file) from None
    return result


def evaluate_size(
    text: str,
    values: Mapping[str, int],
    *,
    field: str = "size",
    file: str | None = None,
) -> int:
    """The positive whole number of a size expression such as "4*K"; SpecError if it is none."""
    result = evaluate_number(text, values, field=field, file=file)
    if result != int(result) or result < 1:
        at = ", ".join(f"{name} = {value}" for name, value in values.items())
        reason = f"a size is a positive whole number, not {result:g} (at {at})"
        raise SpecError(field, reason, value=text, file=file)
    return int(result)
