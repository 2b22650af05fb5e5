"""A rule's recursion as lines of mathematics, for any rule of the grammar."""

from __future__ import annotations

from dataclasses import replace

import sympy

from atlasgen.derive.loss import ErrorForm, error_form
from atlasgen.ir.scalar import inverse_root, placeholder, root
from atlasgen.spec.rule import Gate, LossTerm, MemoryRule

_DIGITS = str.maketrans("0123456789-+", "₀₁₂₃₄₅₆₇₈₉₋₊")
Line = tuple[str, str]  # the formula, and a remark


def subscript(number: int) -> str:
    """A number in small letters."""
    return str(number).translate(_DIGITS)


def update_equations(rule: MemoryRule) -> list[Line]:
    """The recursion from the loss to the read, one (formula, remark) a line."""
    return [
        *_features(rule),
        *_losses(rule),
        *_errors(rule),
        *_gradient(rule),
        *_momentum(rule),
        *_retention(rule),
        *_read(rule),
    ]


def gate_text(gate: Gate, letter: str, index: str = "ₜ") -> str:
    """A gate as a factor: the empty text for one, a number, or its letter with its index."""
    if gate.kind == "none":
        return ""
    if gate.kind == "zero":
        return "0"
    if gate.kind == "constant":
        return f"{gate.value:g}" if gate.value is not None else f"({gate.expression})"
    return letter + {"head": "ₕ", "position": "ₜ₋ᵢ", "pair": "ₜ,ₜ₋ᵢ"}.get(gate.kind, index)


def _factor(text: str) -> str:
    return f"{text} " if text else ""


def _feature(rule: MemoryRule, argument: str, side: str) -> str:
    plain = rule.features.kind == "identity" or side not in rule.features.on
    return argument if plain else f"φ({argument})"


def _features(rule: MemoryRule) -> list[Line]:
    features = rule.features
    if features.kind == "identity":
        return []
    text = {
        "relu": "max(x, 0)",
        "silu": "x σ(x)",
        "elu1": "elu(x) + 1",
        "l2norm": "x / |x|",
        "softmax": "softmax(x)",
        "poly": f"powers of each entry of x up to degree {features.degree}"
        if features.basis == "powers"
        else f"all monomials of x up to degree {features.degree} ({features.basis})",
        "exp": "all monomials of x: φ(q)·φ(k) = exp(q·k)",
        "expr": features.expression or "",
    }[features.kind]
    sides = {"qk": "of queries and keys", "q": "of queries alone", "k": "of keys alone"}[features.on]
    return [(f"φ(x) = {text}", sides)]


Group = tuple[LossTerm, ...]


def term_groups(rule: MemoryRule) -> list[Group]:
    """The loss's terms by what they predict from and write along; each group has one error."""
    found: dict[tuple[str, str, str | None], Group] = {}
    for term in rule.loss:
        step = term.lr if _step_side(rule, term) else None
        side = (term.key, term.write or term.key, step)
        found[side] = (*found.get(side, ()), term)
    return list(found.values())


def _step_side(rule: MemoryRule, term: LossTerm) -> str | None:
    """Whose channels a term's own step scales, "key" or "value"; None for a step per token or head."""
    entry = rule.input_named(term.lr) if term.lr is not None else None
    return entry.shape if entry is not None and entry.shape in ("key", "value") else None


def _number(groups: list[Group], index: int) -> str:
    return subscript(index + 1) if len(groups) > 1 else ""


def _losses(rule: MemoryRule) -> list[Line]:
    groups, lines = term_groups(rule), list[Line]()
    for index, group in enumerate(groups):
        scaled = [replace(term, lr=None) if _step_side(rule, term) else term for term in group]
        rows = any(term.per == "row" for term in group)
        text = " + ".join(loss_text(term) for term in scaled)
        lines.append((f"ℓ{_number(groups, index)} = {text}", "of whole rows of v" if rows else ""))
    return lines


def loss_text(term: LossTerm) -> str:
    """One term of the inner loss."""
    row = term.per == "row"
    target = {"v - k": "(v − k)"}.get(term.target, term.target)
    difference = "pred" if target == "0" else f"pred − {target}"
    distance = f"|{difference}|₂" if row else f"({difference})"
    if term.kind == "dot":
        text = f"−⟨pred, {target}⟩"
    elif term.kind == "l2":
        text = f"½ |{difference}|²"
    elif term.kind == "lp":
        smooth = f"({distance}² + {term.eps:g})^{term.p / 2:g}" if term.eps else f"|{distance}|^{term.p:g}"
        text = f"{'' if row else 'Σ '}{smooth} / {term.p:g}"
    elif term.kind == "huber":
        text = f"huber{'' if row else 'Σ'}({distance}, δ = {term.delta})"
    else:
        where = "" if target in ("v", "0") or row else f", v = {target}"
        text = f"{'' if row else 'Σ '}{term.expression}" + (f", norm = |{difference}|₂" if row else where)
    return f"{term.lr} · ({text})" if term.lr else text


def _errors(rule: MemoryRule) -> list[Line]:
    """The error of each group of terms, and where it is taken."""
    groups = term_groups(rule)
    lines = []
    for index, group in enumerate(groups):
        number, remark = _number(groups, index), "" if index else _point(rule)
        text = f"e{number}ᵢ = ∂ℓ{number}/∂pred  at  pred = {_prediction(rule, group[0].key)}"
        lines.append((text, remark))
    return lines


def _prediction(rule: MemoryRule, name: str) -> str:
    key = _feature(rule, f"{name}ᵢ", "k")
    return f"M*ᵀ {key}" if rule.memory.kind == "matrix" else f"f(M*, {key})"


def _written_rows(rule: MemoryRule, group: Group, number: str) -> str:
    """What a matrix memory's gradient has of one group: the rows written along, and the error."""
    term = group[0]
    rows, error = _feature(rule, f"{term.write or term.key}ᵢ", "k"), f"e{number}ᵢ"
    side = _step_side(rule, term)
    if side == "key":
        rows = f"({term.lr}ᵢ ⊙ {rows})"
    return f"{rows} ({term.lr}ᵢ ⊙ {error})ᵀ" if side == "value" else f"{rows} {error}ᵀ"


def _point(rule: MemoryRule) -> str:
    if not rule.depends_on_memory:
        return "the same at any M*: every block size is the same rule"
    if rule.block.size > 1:
        return f"M* = the memory at the last border of {rule.block.size} tokens"
    if rule.retention.order == "decay_first":
        return "M* = αₜ Mₜ₋₁, decayed first"
    return "M* = Mₜ₋₁"


def _gradient(rule: MemoryRule) -> list[Line]:
    window, rate = rule.window, ""
    matrix = rule.memory.kind == "matrix"
    groups = term_groups(rule)
    parts = [
        _written_rows(rule, group, _number(groups, index)) if matrix else f"∇ₘ ℓ{_number(groups, index)}ᵢ"
        for index, group in enumerate(groups)
    ]
    one = " + ".join(parts)
    if rule.window.length == 1 and window.gate.kind == "none":
        return [(f"Gₜ = {rate}{one.replace('ᵢ', 'ₜ')}", "")]
    gate = gate_text(window.gate, "γ", "ᵢ")
    if window.length == "all":
        first = "1"
    else:
        first = f"max(1, t−{int(window.length) - 1})" if window.length > 1 else "t"
    total = f"Σ {_factor(gate)}{one if len(parts) == 1 else f'({one})'}"
    remark = [f"sum over i = {first} … t"]
    if window.normalise == "mean":
        total += f" / Σ {gate or '1'}"
    if rule.depends_on_memory and rule.window.length != 1:
        remark.append(
            {
                "halo": "tokens before the border at the new M*",
                "carry": "tokens before the border keep their errors",
                "truncate": "only tokens of the own block",
            }[window.boundary]
        )
    return [(f"Gₜ = {total}", "; ".join(remark))]


def _momentum(rule: MemoryRule) -> list[Line]:
    optimizer = rule.optimizer
    lines: list[Line] = []
    source = "Gₜ"
    if optimizer.kind == "momentum":
        theta = gate_text(optimizer.theta, "θ") or "1"
        rate = _factor(gate_text(optimizer.lr, "η")) if optimizer.lr_at == "gradient" else ""
        lines.append((f"Sₜ = {theta} Sₜ₋₁ + {rate}Gₜ", "momentum"))
        source = "Sₜ"
    elif optimizer.kind != "gd":
        lines.append((f"Sₜ = {optimizer.kind}(Mₜ₋₁, Gₜ)", f"optimizer = {optimizer.kind}"))
        source = "Sₜ"
    for transform in optimizer.transform:
        name = {"newton_schulz": f"NewtonSchulz{subscript(transform.steps)}"}.get(
            transform.kind, transform.kind
        )
        lines.append((f"Uₜ = {name}({source})", f"at every {transform.at}"))
        source = "Uₜ"
    return lines


def _written(rule: MemoryRule) -> str:
    optimizer = rule.optimizer
    if optimizer.transform:
        return "Uₜ"
    return "Gₜ" if optimizer.kind == "gd" else "Sₜ"


def _retention(rule: MemoryRule) -> list[Line]:
    optimizer, retention = rule.optimizer, rule.retention
    alpha = gate_text(retention.alpha, "α")
    in_gradient = optimizer.kind == "momentum" and optimizer.lr_at == "gradient"
    rate = "" if in_gradient else _factor(gate_text(optimizer.lr, "η"))
    kept = f"{_factor(alpha)}Mₜ₋₁"
    if retention.toward == "initial" and alpha:
        kept += f" + (1 − {alpha}) M₀"
    remarks = {"channel": "α per channel", "head": "α per head", "constant": ""}
    remark = remarks.get(retention.alpha.kind, "")
    lines = [(f"Mₜ = {kept} − {rate}{_written(rule)}", remark)]
    if optimizer.micro_steps > 1:
        lines.append((f"Mₜ ← Mₜ − {rate}{_written(rule)}", _later_steps(rule)))
    if retention.project.kind != "none":
        lines.append((f"Mₜ ← {retention.project.kind}(Mₜ)", "projection"))
    if rule.read.normaliser == "sum":
        lines.append(("zₜ = the recursion of Mₜ with eᵢ = −1", "the total weight"))
    return lines


def _later_steps(rule: MemoryRule) -> str:
    times = rule.optimizer.micro_steps - 1
    seen = ", its error at M* = Mₜ" if rule.block.size == 1 and rule.depends_on_memory else ""
    again = "once more" if times == 1 else f"{times} times more"
    return f"{again}, with a key, value and step of its own{seen}"


def _read(rule: MemoryRule) -> list[Line]:
    read = rule.read
    memory = {"post": "Mₜ", "pre": "Mₜ₋₁", "block": "M*"}[read.at]
    query = _feature(rule, "qₜ", "q")
    link = "" if rule.memory.link.kind == "none" else rule.memory.link.kind
    shown = f"{link}({memory})" if link else memory
    text = f"{shown}ᵀ {query}" if rule.memory.kind == "matrix" else f"f({shown}, {query})"
    if read.scale != "1":
        text = f"{read.scale} · {text}"
    divisor = {
        "none": "",
        "sum": f" / zₜᵀ {query}",
        "softmax": " / softmax total",
        "max1": " / max(|zₜᵀ q|, 1)",
    }
    remark = {"post": "read after the write", "pre": "read before the write", "block": "read at the border"}
    return [(f"yₜ = {text}{divisor[read.normaliser]}", remark[read.at])]


# -- the derived error -----------------------------------------------------------------------------


def error_expression(rule: MemoryRule, term: LossTerm) -> sympy.Expr:
    """e = dl/dpred of one term, in pred, v, n = |pred - v| and the rule's inputs."""
    return readable(error_form(rule, term))


def readable(form: ErrorForm) -> sympy.Expr:
    """An error form with its placeholders given their names."""
    pred, v = sympy.symbols("pred v", real=True)
    n = sympy.Symbol("n", positive=True)
    if form.kind == "target":
        return -v
    first = 2 if form.kind == "element" else 1
    names = {
        placeholder(first + index): sympy.Symbol(name, real=True) for index, name in enumerate(form.inputs)
    }
    expression = form.expression.xreplace(names)
    if form.kind == "element":
        return expression.xreplace({placeholder(0): pred, placeholder(1): v})
    expression = expression.replace(root, lambda x: sympy.sqrt(x))
    expression = expression.replace(inverse_root, lambda x: 1 / sympy.sqrt(x))
    factor = sympy.simplify(expression.xreplace({placeholder(0): n**2}))
    return factor * (pred - v)


def error_text(rule: MemoryRule) -> str:
    """All terms' errors, pretty-printed over several lines."""
    blocks = []
    for term in rule.loss:
        name = sympy.Symbol("e")
        blocks.append(sympy.pretty(sympy.Eq(name, error_expression(rule, term), evaluate=False)))
        if term.per == "row" and term.kind not in ("dot", "l2"):
            blocks.append("n = |pred − v|₂")
    return "\n".join(blocks)
