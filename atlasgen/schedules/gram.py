"""Exact rules of any window and loss with one matrix: the errors of a block in the space of its products.

With block size 1 the window's tokens are predicted again at every token. Within a block of rows t with the
sources p that their windows reach (halo and block), the memory is its start and what was written since:

    M_t = a_t M - b_t S - sum over p of x_p (x) W_t[p]      W_t[p] = sum over i of P[t, i] Gamma[i, p] E[i, p]

(x the sources' features, P = D(alpha) diag(lr) D(theta), E[i, p] the error of source p at the memory before
row i.) So predictions need products of sources alone,

    pred_t[p] = a'_t (x_p M) - b'_t (x_p S) - sum over g of (x_p . x_g) W'_t[g]

with a', b', W' those before row t (decayed first, where the rule says so): the errors E follow one row after
the other in the operator `exact_errors`, and M is read at the block's start only, once for each source. What
a token costs then hardly grows with the features. Reads and next states are those of the dual form, with W:

    y_t = a_t q M - b_t q S - sum over p of (q . x_p) W_t[p]      M' = a_C M - b_C S - X^T W_C
"""

from __future__ import annotations

from collections.abc import Mapping

from atlasgen.derive.features import Featured, similarity
from atlasgen.derive.memory import Weight
from atlasgen.ir import build
from atlasgen.ir.differentiate import row_function
from atlasgen.ir.node import Node
from atlasgen.schedules.dual import DualForm
from atlasgen.schedules.row_weights import GradientWeights, RowWeights
from atlasgen.spec.rule import MemoryRule

SOURCE, WRITTEN = "p", "g"  # sources of errors, and as rows that errors are written along


class GramForm(DualForm):
    """The dual form of whole gradients, whose errors exist for each row and source."""

    def __init__(self, rule: MemoryRule) -> None:
        super().__init__(rule)
        (weight,) = self.graph.weights
        self.weight, self.sources = weight, (SOURCE,)
        own = (rule, weight, self.gates[weight.name], self.sources, self.labels)
        self.rows = {weight.name: GradientWeights(*own)}
        self.totals = RowWeights(*own)
        self.keys = self.inner.features(SOURCE, rule.loss[0].key)
        self.gated = build.const(0.0)

    @property
    def anchored(self) -> bool:
        """Never: M* is the memory before the token itself."""
        return False

    @property
    def aligned(self) -> bool:
        """Never: where a block of rows ends changes nothing."""
        return False

    @property
    def keeps(self) -> bool:
        """Never: the sources before a block are predicted again."""
        return False

    def _find_pairs(self, points: Mapping[str, Node], previous: Mapping[str, Node]) -> None:
        """Gamma E [i, p, V] of all rows and sources."""
        key = self.rule.loss[0].key
        scores = similarity(self.keys, self.inner.features(WRITTEN, key), self.weight.axes[0])
        self.give(scores, "source_scores", "X X^T of the sources")
        prediction = build.leaf("prediction", (SOURCE, "V"), kind="given")
        raw = self.inner.row(key, SOURCE, "K")
        predicted = self.inner.finished(prediction, self.keys.node, raw)
        error = self.inner.errors(SOURCE, predicted, self.rule.loss)
        function, operands = row_function(error, prediction)
        links, terms = self._before()
        window = self.totals.window_gates()[SOURCE]
        errors = build.exact_errors(function, scores, links, window, terms, operands)
        self.give(errors, "errors", "E: each row's errors, at the memory before it")
        self.gated = self.give(build.mul(window, errors), "window_errors", "Gamma E")

    def _before(self) -> tuple[Node, list[tuple[Node, Node]]]:
        """P' [r, i] of the gradients before each row, and what the block's start predicts, as pairs of a
        factor per row and values per source."""
        weight, x = self.weight, self.keys.node
        rows = self.rows[weight.name]
        kept, lost, weights = rows.read(pre=True)
        links = weights[SOURCE]
        if self.rule.retention.order == "decay_first":
            decay = rows.decay_of_row("r")
            kept, lost, links = (build.mul(decay, factor) for factor in (kept, lost, links))
        self.give(links, "links", "P': weights of earlier rows' gradients in what a row predicts from")

        def through(state: Node) -> Node:
            return build.dot(x, state, weight.axes[0])

        state, speed = self.states[weight.name], self.speeds[weight.name]
        if self.rule.retention.toward == "initial":
            origin = self.leaf("origin", weight)
            terms = [(kept, through(build.sub(state, origin))), (build.const(1.0), through(origin))]
        else:
            terms = [(kept, through(state))]
        if not build.is_const(lost, 0.0):
            terms.append((build.neg(lost), through(speed)))
        return links, terms

    def gradients(self, weight: Weight, source: str, weights: Node) -> list[Node]:
        """The one term of sum over rows i of weights[i] G_i, G_i = sum over p of x_p (x) Gamma E[i, p]."""
        return [build.dot(self.keys.node, build.dot(weights, self.gated, "i"), source)]

    def _read_weight(self, weight: Weight, bias: Weight | None, value: Node) -> Node:
        """diag(a) z M - diag(b) z S - sum over p of (z . x_p) W_t[p]."""
        kept, lost, weights = self.rows[weight.name].read(self.rule.read.at == "pre")
        terms = self._state_terms(weight, value, kept, lost)
        scores = similarity(self.features.get(value) or Featured(value), self.keys, weight.axes[0])
        self.give(scores, "scores", "Q X^T")
        sums = build.dot(weights[SOURCE], self.gated, "i")
        self.give(sums, "written", "W_t: the errors that each source was written with")
        return build.add(*terms, (-1, build.dot(scores, sums, SOURCE)))
