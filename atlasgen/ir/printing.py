"""Print scalar expressions as torch or Triton source text."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.printing.precedence import PRECEDENCE
from sympy.printing.str import StrPrinter


class _TensorPrinter(StrPrinter):
    """Shared rules; subclasses name the functions of their library."""

    functions: dict[str, str] = {}

    def __init__(self, arguments: list[str]) -> None:
        super().__init__({"full_prec": False})
        self.arguments = arguments

    def _print_Symbol(self, expr: sympy.Symbol) -> str:
        return self.arguments[int(str(expr)[1:])]

    def _print_Integer(self, expr: sympy.Integer) -> str:
        return f"{int(expr)}.0"

    def _print_Rational(self, expr: sympy.Rational) -> str:
        return repr(float(expr))

    _print_Half = _print_Rational

    def _print_Float(self, expr: sympy.Float) -> str:
        return repr(float(expr))

    def _print_NumberSymbol(self, expr: sympy.NumberSymbol) -> str:
        return repr(float(expr))

    _print_Pi = _print_Exp1 = _print_NumberSymbol

    def _print_Function(self, expr: Any) -> str:
        name = type(expr).__name__
        if name not in self.functions:
            raise ValueError(f"no {type(self).__name__} text for function {name!r} in {expr}")
        return self.functions[name].format(*(self._print(argument) for argument in expr.args))

    _print_Abs = _print_sign = _print_root = _print_inverse_root = _print_sigmoid = _print_Function

    def _print_Pow(self, expr: sympy.Pow, rational: bool = False) -> str:
        base = self.parenthesize(expr.base, PRECEDENCE["Atom"])
        exponent = expr.exp
        if expr.is_number:
            return repr(float(expr))
        if exponent == sympy.S.Half:
            return self.functions["sqrt"].format(self._print(expr.base))
        if exponent == -sympy.S.Half:
            return self.functions["rsqrt"].format(self._print(expr.base))
        if exponent.is_Integer and 2 <= int(exponent) <= 4:
            return "(" + " * ".join([base] * int(exponent)) + ")"
        if exponent.is_Integer and int(exponent) == -1:
            return f"(1.0 / {base})"
        if exponent.is_Integer and -4 <= int(exponent) <= -2:
            return "(1.0 / (" + " * ".join([base] * -int(exponent)) + "))"
        return self.functions["pow"].format(self._print(expr.base), self._print(exponent))

    def _print_Mul(self, expr: sympy.Mul) -> str:
        numbers, rest = expr.as_independent(*expr.free_symbols, as_Add=False)
        if rest.is_Mul and rest.as_coeff_Mul()[0] != 1:
            coefficient, rest = rest.as_coeff_Mul()
            numbers *= coefficient
        coefficient = numbers if numbers.is_Rational else sympy.Float(float(numbers))
        factors = [self.parenthesize(f, PRECEDENCE["Mul"]) for f in sympy.Mul.make_args(rest)]
        text = " * ".join(factors)
        if coefficient == 1:
            return text
        if coefficient == -1:
            return "-" + text
        return f"{self._print(coefficient)} * {text}"

    def _print_nested(self, arguments: tuple, name: str) -> str:
        text = self._print(arguments[0])
        for argument in arguments[1:]:
            text = self.functions[name].format(text, self._print(argument))
        return text

    def _print_Max(self, expr: sympy.Max) -> str:
        return self._print_nested(expr.args, "maximum")

    def _print_Min(self, expr: sympy.Min) -> str:
        return self._print_nested(expr.args, "minimum")

    def _print_Relational(self, expr: Any) -> str:
        return f"({self._print(expr.lhs)} {expr.rel_op} {self._print(expr.rhs)})"

    def _print_And(self, expr: Any) -> str:
        return "(" + " & ".join(self._print(argument) for argument in expr.args) + ")"

    def _print_Or(self, expr: Any) -> str:
        return "(" + " | ".join(self._print(argument) for argument in expr.args) + ")"

    def _print_Not(self, expr: Any) -> str:
        return f"(~{self._print(expr.args[0])})"

    def _print_Piecewise(self, expr: sympy.Piecewise) -> str:
        *cases, (last, condition) = expr.args
        text = self._print(last)
        if condition is not sympy.true and condition != True:  # noqa: E712
            text = self.functions["where"].format(self._print(condition), text, "0.0")
        for value, condition in reversed(cases):
            text = self.functions["where"].format(self._print(condition), self._print(value), text)
        return text


class TorchPrinter(_TensorPrinter):
    """torch text; `scalar_where` of the block library accepts numbers for both branches."""

    functions = {
        "exp": "torch.exp({})",
        "log": "torch.log({})",
        "sqrt": "torch.sqrt({})",
        "rsqrt": "torch.rsqrt({})",
        "pow": "torch.pow({}, {})",
        "tanh": "torch.tanh({})",
        "sin": "torch.sin({})",
        "cos": "torch.cos({})",
        "sinh": "torch.sinh({})",
        "cosh": "torch.cosh({})",
        "erf": "torch.erf({})",
        "Abs": "torch.abs({})",
        "sign": "torch.sign({})",
        "root": "torch.sqrt({})",
        "inverse_root": "blocks.inverse_root({})",
        "sigmoid": "torch.sigmoid({})",
        "power": "blocks.power({}, {})",
        "signed_power": "blocks.signed_power({}, {})",
        "softplus": "torch.nn.functional.softplus({})",
        "gelu": "torch.nn.functional.gelu({})",
        "gelu_slope": "blocks.gelu_slope({})",
        "logcosh": "blocks.logcosh({})",
        "maximum": "blocks.maximum({}, {})",
        "minimum": "blocks.minimum({}, {})",
        "where": "blocks.where({}, {}, {})",
    }


class TritonPrinter(_TensorPrinter):
    """Triton text, from functions that exist in every supported Triton and in its interpreter."""

    functions = {
        "exp": "tl.exp({})",
        "log": "tl.log({})",
        "sqrt": "tl.sqrt({})",
        "rsqrt": "tl.rsqrt({})",
        "pow": "tl.exp({1} * tl.log({0}))",
        "tanh": "tanh({})",
        "sin": "tl.sin({})",
        "cos": "tl.cos({})",
        "sinh": "(0.5 * (tl.exp({0}) - tl.exp(-({0}))))",
        "cosh": "(0.5 * (tl.exp({0}) + tl.exp(-({0}))))",
        "erf": "tl.erf({})",
        "Abs": "tl.abs({})",
        "sign": "sign({})",
        "root": "tl.sqrt({})",
        "inverse_root": "inverse_root({})",
        "sigmoid": "tl.sigmoid({})",
        "power": "power({}, {})",
        "signed_power": "signed_power({}, {})",
        "softplus": "softplus({})",
        "gelu": "gelu({})",
        "gelu_slope": "gelu_slope({})",
        "logcosh": "logcosh({})",
        "maximum": "tl.maximum({}, {})",
        "minimum": "tl.minimum({}, {})",
        "where": "tl.where({}, {}, {})",
    }


def torch_text(expression: sympy.Expr, arguments: list[str]) -> str:
    """The expression as torch source with placeholders replaced by `arguments`."""
    return TorchPrinter(arguments).doprint(expression)


def triton_text(expression: sympy.Expr, arguments: list[str]) -> str:
    """The expression as Triton source with placeholders replaced by `arguments`."""
    return TritonPrinter(arguments).doprint(expression)
