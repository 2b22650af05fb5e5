"""What each schedule does not serve: each field with the reason and the nearest value that is served.

dual: all rows of a block at the memory of its border. pieces: the same, a part of a block at a time. wy:
rules that take each error at the memory of the token before, all rows of a block at once. gram: such rules
with windows and any loss, in the space of products of a block's rows. recurrent: any rule that writes at
every token, token by token.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from atlasgen.derive.features import feature_axis
from atlasgen.derive.loss import coupled_terms, error_slope
from atlasgen.schedules.pair_steps import BY_CHANNEL, steps_pairs
from atlasgen.schedules.pieces import rows_of_piece
from atlasgen.spec.micro_steps import of_rows
from atlasgen.spec.rule import LossTerm, MemoryRule

LINEAR_UPDATE = "the update must be linear in the gradient"


class Refusal(NamedTuple):
    """A field and value that are not served, why, and the nearest that is."""

    field: str
    value: object
    reason: str
    nearest: str


NO_SCALE = 'row_scale = "none"'

Case = tuple[bool, str, object, str, str]  # whether it applies, then the refusal


def refusals(rule: MemoryRule, schedule: str) -> list[Refusal]:
    """All refusals of a rule by a schedule, empty where that serves it."""
    cases = (_memory, _loss, _optimizer, _retention, _read, _window, _block, _OWN[schedule])
    rows = of_rows(rule)
    found = [*_micro_steps(rule), *(entry for case in cases for entry in case(rows))]
    served = _SERVED[schedule]
    return [
        Refusal(field, value, why, nearest)
        for applies, field, value, why, nearest in found
        if applies and (field, value) not in served and field not in served
    ]


def _micro_steps(rule: MemoryRule) -> Iterator[Case]:
    normaliser = rule.read.normaliser
    reason = "the rows between a token's micro-steps would be divided by sums that no one reads"
    several = rule.optimizer.micro_steps > 1
    yield several and normaliser != "none", "read.normaliser", normaliser, reason, 'normaliser = "none"'


def _memory(rule: MemoryRule) -> Iterator[Case]:
    memory, features = rule.memory, rule.features
    link = memory.link
    yield link.where == "block", "memory.link.where", "block", "a link acts on every read", 'where = "token"'
    clipped = link.kind != "none" and rule.optimizer.clip is not None and rule.optimizer.clip.of == "token"
    reason = "through a link one token's gradient is no outer product"
    yield clipped, "optimizer.clip.of", "token", reason, 'of = "window"'
    scaled = link.kind != "none" and rule.block.row_scale != "none"
    reason = "a row factor scales what is read, and a link is not linear"
    yield scaled, "block.row_scale", rule.block.row_scale, reason, NO_SCALE
    reason = "infinitely many features leave only the tokens themselves to keep"
    yield features.kind == "exp", "features.kind", "exp", reason, 'features = "elu1", or poly'
    projected = features.kind == "poly" and features.basis == "projected"
    reason = "no schedule draws a projection"
    yield projected, "features.basis", "projected", reason, 'basis = "symmetric"'


def _loss(rule: MemoryRule) -> Iterator[Case]:
    memory = rule.memory
    alone = memory.kind == "matrix" and not memory.bias and memory.is_linear
    for term in rule.loss:
        aside = term.write not in (None, term.key)
        reason = "a write key takes the place of the input of a memory that is one matrix"
        yield aside and not alone, "loss.write", term.write, reason, "no write"
        rate = _rate_shape(rule, term)
        by_channel = rate in ("key", "value")
        reason = "a step per channel acts on the rows or columns of a memory that is one matrix"
        yield by_channel and not alone, "loss.lr", term.lr, reason, f'{term.lr} = "token"'
        reason = "a step per channel of the key needs features of the key's size, F = K"
        wider = rate == "key" and feature_axis(rule.features) != "K"
        yield wider, "loss.lr", term.lr, reason, f'{term.lr} = "token"'
    for entry in rule.inputs:
        wrong = entry.shape in ("head_key", "pair")
        reason = "a loss term takes keys, values, and numbers per token or head"
        yield wrong, f"inputs.{entry.name}", entry.shape, reason, f'{entry.name} = "token"'


def _optimizer(rule: MemoryRule) -> Iterator[Case]:
    optimizer, kind = rule.optimizer, rule.optimizer.kind
    reason = "the dual form sums gradients linearly"
    yield kind not in ("gd", "momentum", "implicit"), "optimizer.kind", kind, reason, 'optimizer = "gd"'
    yield from _pair_steps(rule)
    yield optimizer.nesterov, "optimizer.nesterov", True, LINEAR_UPDATE, "nesterov = false"
    second = optimizer.second.kind
    yield second != "none", "optimizer.second", "second moment", LINEAR_UPDATE, "no second"
    step = optimizer.step
    yield step is not None, "optimizer.step", step, LINEAR_UPDATE, "no step"
    clip = optimizer.clip is not None and optimizer.clip.of != "token"
    reason = "only the norm of one token's gradient is a number per row"
    yield clip, "optimizer.clip.of", optimizer.clip and optimizer.clip.of, reason, 'of = "token"'
    detached = rule.gradient.state != "full" or rule.gradient.inner != "full"
    reason = "the derivative follows the whole recursion"
    yield detached, "gradient", "detach", reason, "no gradient section"


def _pair_steps(rule: MemoryRule) -> Iterator[Case]:
    """What keeps a step that is a factor of keys or errors from being the step of its own token alone."""
    optimizer, memory = rule.optimizer, rule.memory
    rates = {argument: choice for argument, choice in (rule.gates_of(w)["lr"] for w in memory.weight_names)}
    found = [choice.kind for choice in rates.values() if steps_pairs(rule, choice)]
    if not found:
        return
    implicit = optimizer.kind == "implicit"
    field, value = ("optimizer.kind", "implicit") if implicit else ("optimizer.lr", found[0])
    nearest = 'optimizer = "gd"' if implicit else 'lr = "token"'
    late = optimizer.kind == "momentum" and optimizer.lr_at == "update"
    reason = "with momentum it scales the gradients of earlier tokens too"
    yield late, field, value, reason, 'lr_at = "gradient"'
    yield rule.window.length != 1, field, value, "in a window it scales those of several tokens", "window = 1"
    maps = bool(optimizer.transform) or any(entry.transform for entry in rule.weights)
    yield maps, field, value, "it scales the update after its map", "no transform"
    linked = memory.link.kind != "none"
    yield linked, field, value, "through a link a gradient is no outer product", 'link = "none"'
    yield rule.held, field, value, "a block that is written once takes one step", nearest
    summed = rule.read.normaliser != "none"
    yield summed, field, value, "the sum of weights takes one step for a row", 'normaliser = "none"'
    deep = memory.kind != "matrix" or not memory.is_linear
    yield deep, field, value, "it scales keys and errors of one matrix", 'memory = "matrix"'
    yield len(rates) > 1, field, value, "a bias with a step of its own is another system", "no weights.b.lr"


def _retention(rule: MemoryRule) -> Iterator[Case]:
    retention = rule.retention
    kind, order, project = retention.alpha.kind, retention.order, retention.project.kind
    reason = "a memory of nothing but the window has no recursion"
    yield kind == "zero", "retention.kind", kind, reason, 'retention = "token"'
    yield from ((True, "retention.kind", "channel", *case) for case in _channels(rule))
    reason = "the dual form takes errors at the memory of the last border, before any decay"
    yield order == "decay_first", "retention.order", order, reason, 'order = "error_first"'
    reason = "a projection after each token leaves the linear recursion"
    served = project == "none" or project == "row_norm" and rule.block.write == "block"
    yield not served, "retention.project", project, reason, 'project = "none"'


def _channels(rule: MemoryRule) -> Iterator[tuple[str, str]]:
    """Why decays by channel are not products of two rows' decays, with the nearest that is."""
    decays = [rule.gates_of(weight)["log_alpha"][1] for weight in rule.memory.weight_names]
    by_channel = [decay for decay in decays if decay.kind == "channel"]
    if not by_channel:
        return
    if rule.optimizer.kind == "momentum":
        yield "with momentum the weight of a source is a sum of products of decays", 'optimizer = "gd"'
    if rule.window.length != 1:
        yield "in a window the weight of a source is a sum of products of decays", "window = 1"
    if not rule.memory.is_linear or rule.held:
        yield "only a matrix that is written at each token decays by channel", 'memory = "matrix"'
    if rule.optimizer.transform or any(entry.transform for entry in rule.weights):
        yield "a mapped update is no product of rows", "no transform"
    if rule.read.normaliser != "none":
        yield "the sum of weights decays as a whole", 'normaliser = "none"'
    if rule.depends_on_memory and any(decay.axis == "value" for decay in by_channel):
        yield "each channel of the value would be a linear system of its own", 'axis = "key"'


def _read(rule: MemoryRule) -> Iterator[Case]:
    read = rule.read
    normaliser = read.normaliser in ("softmax", "max1")
    reason = "only the sum of weights is carried along"
    yield normaliser, "read.normaliser", read.normaliser, reason, 'normaliser = "sum"'


def _window(rule: MemoryRule) -> Iterator[Case]:
    window = rule.window.length
    reason = "a window of all tokens needs the least squares schedule"
    yield window == "all", "window.length", window, reason, "window = 16"


def _block(rule: MemoryRule) -> Iterator[Case]:
    block, retention, optimizer, read = rule.block, rule.retention, rule.optimizer, rule.read
    scaled, written = block.row_scale != "none", block.write == "block"
    maps = [*optimizer.transform, *(t for entry in rule.weights for t in entry.transform or ())]
    reason = "a row factor scales the open block's update, which nothing decays"
    own = any(entry.retention is not None for entry in rule.weights)
    yield (
        scaled and (retention.alpha.kind != "none" or own),
        "block.row_scale",
        block.row_scale,
        reason,
        NO_SCALE,
    )
    reason = "a row factor scales a sum of gradients"
    yield scaled and bool(maps), "block.row_scale", block.row_scale, reason, NO_SCALE
    reason = "one update per block has no rows to scale"
    yield scaled and written, "block.row_scale", block.row_scale, reason, NO_SCALE
    reason = "the factor of the token before may lie in an earlier call"
    yield scaled and read.at == "pre", "read.at", read.at, reason, 'read = "post"'
    held = scaled or written
    reason = "a sum that is held until its block is full has no value at each token"
    yield (
        held and read.normaliser != "none",
        "read.normaliser",
        read.normaliser,
        reason,
        'normaliser = "none"',
    )
    skips = block.partial == "skip" and not written
    reason = "tokens write one by one"
    yield skips, "block.partial", "skip", reason, 'partial = "update", or write = "block"'
    for entry in maps:
        reason = "a map at borders needs one update per block"
        yield entry.at == "block" and not written, "optimizer.transform.at", "block", reason, 'at = "token"'
        reason = "one update per block has one map"
        yield entry.at == "token" and written, "optimizer.transform.at", "token", reason, 'at = "block"'


def is_exact(rule: MemoryRule) -> bool:
    """True where each error is taken at the memory of the token before it."""
    return rule.block.size == 1 and rule.depends_on_memory and not rule.held


def _dual(rule: MemoryRule) -> Iterator[Case]:
    yield from _explicit(rule)
    reason = "each error is taken at the memory of the token before, not of a border"
    yield is_exact(rule), "block.size", rule.block.size, reason, "block = 16"
    window, block = rule.window.length, rule.block.size
    beyond = (rule.depends_on_memory or rule.held) and window != "all" and int(window) > block
    reason = f"a window reaches over at most one border, and blocks have {block} tokens"
    yield beyond, "window.length", window, reason, f"window = {block}, or block = {window}"


def _pieces(rule: MemoryRule) -> Iterator[Case]:
    yield from _dual(rule)
    block, read = rule.block, rule.read
    borderless = not (rule.held or block.size > 1 and (rule.depends_on_memory or read.at == "block"))
    reason = "a block is cut into pieces where it matters at which tokens it ends"
    yield borderless, "block.size", block.size, reason, "the schedule dual"
    reason = "pieces of at least two rows are as long as a divisor of the block, at most 256"
    whole = not borderless and rows_of_piece(rule) == 1
    yield whole, "block.size", block.size, reason, f"block = {max(4, block.size - block.size % 16)}"
    by_place = block.row_scale == "position"
    reason = "a factor for each row of a block is that of a whole block's rows"
    yield by_place, "block.row_scale", block.row_scale, reason, 'row_scale = "token"'
    kept = rule.depends_on_memory and rule.window.boundary == "carry" and rule.window.length != 1
    reason = "rows before a piece keep two borders' errors"
    yield kept, "window.boundary", "carry", reason, 'boundary = "halo"'


def _explicit(rule: MemoryRule) -> Iterator[Case]:
    reason = "its step solves the loss of each token at the memory before it"
    implicit = rule.optimizer.kind == "implicit"
    yield implicit, "optimizer.kind", "implicit", reason, 'optimizer = "gd"'


def _implicit(rule: MemoryRule) -> Iterator[Case]:
    first = rule.loss[0]
    alone = len(rule.loss) == 1 and first.key == "k" and first.write in (None, "k")
    reason = "its step solves the l2 term of one token at k, written along k"
    wider = rule.optimizer.kind == "implicit" and not (alone and rule.window.length == 1)
    yield wider, "optimizer.kind", "implicit of a window or other terms", reason, 'loss = "l2", window = 1'


def _wy(rule: MemoryRule) -> Iterator[Case]:
    yield from _implicit(rule)
    reason = "errors of a whole block at once are for rules that take them token by token"
    yield not is_exact(rule), "block.size", rule.block.size, reason, "block = 1"
    memory = rule.memory
    linear = memory.is_linear and memory.kind in ("matrix", "mlp")
    reason = "the errors of a block are a linear system for a prediction linear in one weight"
    yield not linear, "memory.kind", memory.kind, reason, 'memory = "matrix" without a norm'
    for term in rule.loss if linear else ():
        reason = "the errors of a block are a linear system only if affine in pred, one slope per token"
        yield error_slope(rule, term) is None, "loss", term.kind, reason, 'loss = "l2"'
    yield from _system(rule) if linear else ()
    window = rule.window.length
    reason = "each error of a window is taken at another memory for every reader"
    yield window not in (1, "all"), "window.length", window, reason, "window = 1"
    clipped = rule.optimizer.clip is not None
    yield clipped, "optimizer.clip", "a norm", "a clipped error is not affine in pred", "no clip"
    maps = bool(rule.optimizer.transform) or any(entry.transform for entry in rule.weights)
    yield maps, "optimizer.transform", "a map", "a mapped update is not linear in the errors", "no transform"
    before = rule.retention.order == "decay_first" and rule.retention.toward == "initial"
    reason = "a memory that decays toward its start before the error is not a read of the dual form"
    yield before, "retention.toward", "initial", reason, 'order = "error_first"'


def _system(rule: MemoryRule) -> Iterator[Case]:
    """What keeps the terms whose errors see earlier writes from being one linear system."""
    seeing = coupled_terms(rule)
    reason = "no error sees the memory, so there is no linear system to solve"
    yield not seeing, "loss", ", ".join(term.kind for term in rule.loss), reason, 'loss = "l2", or "dot"'
    coupled = [term for term in seeing if error_slope(rule, term) is not None]
    sides = {
        (term.key, term.write or term.key, term.lr if _rate_shape(rule, term) == "key" else None)
        for term in coupled
    }
    kinds = ", ".join(f"{term.kind} at {term.key}" for term in coupled)
    reason = "errors that see two memories, or are written along two keys, are not one linear system"
    yield len(sides) > 1, "loss", kinds, reason, "one term that depends on pred, others dot"


def _rate_shape(rule: MemoryRule, term: LossTerm) -> str | None:
    """The shape of a term's own step."""
    rate = rule.input_named(term.lr) if term.lr is not None else None
    return None if rate is None else rate.shape


def _recurrent(rule: MemoryRule) -> Iterator[Case]:
    block, window = rule.block, rule.window
    reason = "an update that waits until its block is full is none of one token"
    yield rule.held, "block.size", block.size, reason, 'write = "token", row_scale = "none"'
    reason = "errors that a window keeps are those of at most one border before"
    reached = window.length == "all" or int(window.length) > max(1, block.size)
    beyond = rule.depends_on_memory and window.boundary == "carry" and reached
    yield beyond, "window.boundary", "carry", reason, 'boundary = "halo"'
    yield from _implicit(rule)


def _gram(rule: MemoryRule) -> Iterator[Case]:
    yield from _explicit(rule)
    reason = "errors that are taken again at every token are those of rules without blocks"
    yield not is_exact(rule), "block.size", rule.block.size, reason, "block = 1"
    memory, window, first = rule.memory, rule.window, rule.loss[0]
    alone = memory.kind == "matrix" and memory.is_linear and not memory.bias
    reason = "products of keys stand for one matrix that is read as it is"
    yield not alone, "memory.kind", memory.kind, reason, 'memory = "matrix", no bias, norm or link'
    cut = window.length != 1 and window.boundary != "halo"
    reason = "every token of a window is predicted again"
    yield cut, "window.boundary", window.boundary, reason, 'boundary = "halo"'
    for term in rule.loss:
        other = term.key != first.key
        reason = "errors of other keys see another memory: each needs products of its own"
        yield other, "loss.key", term.key, reason, f'key = "{first.key}"'
        aside = term.write not in (None, term.key)
        reason = "errors are written along the key that they are predicted from"
        yield aside, "loss.write", term.write, reason, "no write"
        by_key = _rate_shape(rule, term) == "key"
        reason = "a step per key channel scales the rows that errors are written along"
        yield by_key, "loss.lr", term.lr, reason, f'{term.lr} = "token"'
    rate = rule.optimizer.lr.kind
    reason = "errors of a window are predicted again at every step"
    yield rate in BY_CHANNEL, "optimizer.lr", rate, reason, 'lr = "token"'
    clip = rule.optimizer.clip
    reason = "the norm of a gradient is none of one error"
    yield clip is not None, "optimizer.clip", clip and clip.norm, reason, "no clip"
    maps = bool(rule.optimizer.transform) or any(entry.transform for entry in rule.weights)
    yield maps, "optimizer.transform", "a map", "a mapped update is no sum of errors", "no transform"
    decays = {rule.gates_of(weight)["log_alpha"][1].kind for weight in memory.weight_names}
    reason = "decays by channel act on features, and products of keys have none"
    yield "channel" in decays, "retention.kind", "channel", reason, 'retention = "token"'


_OWN = {"dual": _dual, "pieces": _pieces, "wy": _wy, "recurrent": _recurrent, "gram": _gram}
# Fields, or values of fields, that a schedule serves though the dual form does not.
_SERVED: dict[str, frozenset[object]] = {
    "dual": frozenset(),
    "pieces": frozenset(),
    "wy": frozenset({("retention.order", "decay_first")}),
    "gram": frozenset({("retention.order", "decay_first")}),
    "recurrent": frozenset(
        {
            "optimizer.lr",
            "optimizer.nesterov",
            ("optimizer.kind", "implicit"),
            ("optimizer.clip.of", "window"),
            "retention.kind",
            "retention.order",
            ("retention.project", "ball"),
            ("retention.project", "clamp"),
        }
    ),
}
