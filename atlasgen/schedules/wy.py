"""Exact rules with errors affine in the memory: all tokens of a block at once, by a triangular inverse.

With block size 1 the error of token t is taken at the memory after token t - 1 (decayed first, where the
rule says so). That memory is a read of the dual form by the key k_t: what the block's start gives it, less
what the errors of the rows before have written,

    pred_t = diag(a) x W - diag(b) x S - sum over s < t of (x_t . u_s) P[t, s] E_s

(x the features of the key that predicts, u those of the key that is written at, times a step per channel
where the term has one), and an error affine in pred, E = slope pred + offset, makes that a linear system over
the rows of a block:

    (I + A) E = error at what the block's start gives,  A[t, s] = slope_t (x_t . u_s) P[t, s] for s < t

(the UT or WY form of the delta rule; with momentum, b and P hold it as in every read). A slope that differs
by value channel, as a step by channel makes it, does not go into A, which all channels share: E + slope (A E)
is solved for all of them at once. Terms of the loss whose errors E' no prediction enters (a dot term beside
an l2 term) are known before: what the block's start gives is less what they have written, ((x u'^T) * P) E'.
With E known the block is the dual form's, for any number of rows: reads, next memory and derivatives are its
own.
"""

from __future__ import annotations

from collections.abc import Mapping

from atlasgen.derive.loss import coupled_terms, error_slope
from atlasgen.derive.memory import Weight
from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.schedules.channels import DECAYED, PRE, Reach
from atlasgen.schedules.dual import DualForm
from atlasgen.schedules.inner_gradient import Outer, merged
from atlasgen.schedules.pair_steps import PairStep
from atlasgen.schedules.row_weights import RowWeights
from atlasgen.spec.rule import LossTerm

READER, SOURCE = "r", "s"


class WYForm(DualForm):
    """The dual form with errors that see each other."""

    @property
    def anchored(self) -> bool:
        """Never: M* is the memory before the token itself."""
        return False

    @property
    def aligned(self) -> bool:
        """Never: where a block of rows ends changes nothing."""
        return False

    def _find_pairs(self, points: Mapping[str, Node], previous: Mapping[str, Node]) -> None:
        """The errors of all rows, and with them the factors of every weight's gradient."""
        key, written, solved, known = self._system()
        x = self.inner.features(READER, key)
        coupling: list[Node] = []

        def before_block(weight: Weight, bias: Weight | None, rows: Node) -> Node:
            parts = [self._before(weight, rows, written, known, coupling)]
            if bias is not None:
                parts.append(self._before(bias, None, written, known, coupling))
            return build.add(*parts)

        raw = self.inner.row(key, READER, "K")
        given = self.inner.finished(self.graph.output(x.node, before_block), x.node, raw)
        self.give(given, "predictions_given", "what the block's start predicts for each key")
        residual = self.inner.errors(READER, given, solved)
        self.give(residual, "residual", "R: the error at what the block's start gives")
        error = self._solved(build.add(*coupling), solved, residual)
        pairs = [Outer(written, error), *known]
        self.pairs[SOURCE] = {
            weight.name: merged(pair if weight.is_matrix else Outer(None, pair.error) for pair in pairs)
            for weight in self.graph.weights
        }

    def _solved(self, coupling: Node, terms: list[LossTerm], residual: Node) -> Node:
        """The errors of all rows; where a factor of them differs by value channel, channels are solved
        together."""
        step = self._step.of_errors(READER)
        factor, given = build.mul(step, self._slope(terms)), build.mul(step, residual)
        if "V" in factor.dims:
            self.give(coupling, "coupling", "A: how the errors of earlier rows enter a prediction")
            self.give(factor, "slope", "g: the slope of an error, by value channel")
            error = build.unit_solve(coupling, factor, given, READER, SOURCE)
            return self.give(error, "errors", "E = R - g (A E)")
        system = build.mul(factor, coupling)
        self.give(system, "coupling", "A: how the errors of earlier rows enter an error")
        inverse = build.unit_inverse(system, READER, SOURCE)
        self.give(inverse, "inverse", "(I + A)^-1")
        return self.give(build.dot(inverse, given, READER), "errors", "E = (I + A)^-1 R")

    @property
    def _step(self) -> PairStep:
        """The step that is a factor of keys or errors, of all weights the same."""
        return self.steps[self.graph.weights[0].name]

    def _system(self) -> tuple[str, Node, list[LossTerm], list[Outer]]:
        """The key that predicts, the rows that its error is written along, all terms that are written along
        those, and the factors of the others, whose errors no prediction enters."""
        rows: dict[Node, list[LossTerm]] = {}
        for term in self.rule.loss:
            rows.setdefault(self.inner.written_rows(term, SOURCE), []).append(term)
        first = coupled_terms(self.rule)[0]
        written = self.inner.written_rows(first, SOURCE)
        known, step = [], self._step
        for other, terms in rows.items():
            if other is not written:
                error = self.inner.errors(SOURCE, build.const(0.0), terms)
                self.give(error, "errors_known", "E': errors that no prediction enters")
                known.append(step.pair(Outer(other, error), SOURCE))
        return first.key, build.mul(written, step.of_rows(SOURCE)), rows[written], known

    def _before(
        self, weight: Weight, rows: Node | None, written: Node, known: list[Outer], coupling: list[Node]
    ) -> Node:
        """What rows read from a weight before their own token, but for the errors that are solved for.

        Of the block's start, decayed, less what the known errors of earlier rows have written. `coupling`
        gets (x u^T) * P of the others.
        """
        kept, lost, weights, reach = self._weights_before(self.rows[weight.name])

        def attention(along: Node | None) -> Node:
            along = along if weight.is_matrix else None
            return self._attention(weight, rows, along, weights, SOURCE, reach)

        coupling.append(attention(written))
        terms = self._state_terms(weight, rows, kept, lost)
        terms += [(-1, build.dot(attention(pair.rows), pair.error, SOURCE)) for pair in known]
        return build.add(*terms)

    def _weights_before(self, rows: RowWeights) -> tuple[Node, Node, Node, Reach]:
        """a, b and P of what each key is predicted from, P strictly lower."""
        decays = self.rule.retention.order == "decay_first"
        if decays and not self.momentum:
            # The memory before a token, decayed, is the memory after it but for its own write.
            kept, lost, weights = rows.read(pre=False)
            own = weights[SOURCE]
            if rows.channels is None:
                own = build.mask(own, READER, SOURCE, 1, None)
            return kept, lost, own, DECAYED
        kept, lost, weights = rows.read(pre=True)
        decay = rows.decay_of_row(READER) if decays else build.const(1.0)
        return build.mul(decay, kept), build.mul(decay, lost), build.mul(decay, weights[SOURCE]), PRE

    def _slope(self, terms: list[LossTerm]) -> Node:
        """d error / d pred of some terms together, a number or one per row."""
        parts = []
        for term in terms:
            found = error_slope(self.rule, term)
            assert found is not None  # refused before
            expression, inputs = found
            leaves = [self.inner.loss_input(name, READER) for name in inputs]
            slope = build.map_(expression, *leaves) if leaves else build.const(float(expression))
            parts.append(self.inner.stepped(slope, term, READER))
        return build.add(*parts)
