"""Exact rules with errors affine in the memory: all tokens of a block at once, by a triangular inverse.

With block size 1 the error of token t is taken at the memory after token t - 1 (decayed first, where the
rule says so). That memory is a read of the dual form by the key k_t: what the block's start gives it, less
what the errors of the rows before have written,

    pred_t = diag(a) x W - diag(b) x S - sum over s < t of (x_t . u_s) P[t, s] E_s

and an error affine in pred, E = slope pred + offset, makes that a linear system over the rows of a block:

    (I + A) E = error at what the block's start gives,  A[t, s] = slope_t (x_t . u_s) P[t, s] for s < t

(the UT or WY form of the delta rule; with momentum, b and P hold it as in every read). With E known the block
is the dual form's, for any number of rows: reads, next memory and derivatives are its own.
"""

from __future__ import annotations

from collections.abc import Mapping

from atlasgen.derive.features import Featured, apply_features
from atlasgen.derive.loss import error_slope
from atlasgen.derive.memory import Weight
from atlasgen.ir import build
from atlasgen.ir.node import Node
from atlasgen.schedules.dual import DualForm
from atlasgen.schedules.inner_gradient import Outer
from atlasgen.schedules.row_weights import RowWeights

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
        x = self.inner.features(SOURCE)
        k = build.leaf("k", (READER, "K"), kind="token", segment="block")
        reader = apply_features(self.rule.features, k, "k")
        self.features |= {x.node: x, reader.node: reader}
        coupling: list[Node] = []

        def before_block(weight: Weight, bias: Weight | None, rows: Node) -> Node:
            parts = [self._before(weight, rows, x, coupling)]
            if bias is not None:
                parts.append(self._before(bias, None, x, coupling))
            return build.add(*parts)

        given = self.inner.finished(self.graph.output(reader.node, before_block), reader.node, k)
        self.give(given, "predictions_given", "what the block's start predicts for each key")
        residual = self.inner.errors(READER, given)
        system = build.mul(self._slope(), build.add(*coupling))
        self.give(system, "coupling", "A: how the errors of earlier rows enter an error")
        inverse = build.unit_inverse(system, READER, SOURCE)
        self.give(inverse, "inverse", "(I + A)^-1")
        error = self.give(build.dot(inverse, residual, READER), "errors", "E = (I + A)^-1 R")
        self.pairs[SOURCE] = {
            weight.name: [Outer(x.node if weight.is_matrix else None, error)] for weight in self.graph.weights
        }

    def _before(self, weight: Weight, rows: Node | None, x: Featured, coupling: list[Node]) -> Node:
        """What rows read from a weight at the block's start, decayed; `coupling` gets (x u^T) * P."""
        kept, lost, weights = self._weights_before(self.rows[weight.name])
        keys = x.node if weight.is_matrix else None
        coupling.append(self._attention(weight, rows, keys, weights, SOURCE))
        return build.add(*self._state_terms(weight, rows, kept, lost))

    def _weights_before(self, rows: RowWeights) -> tuple[Node, Node, Node]:
        """a, b and P of what each key is predicted from, P strictly lower."""
        decays = self.rule.retention.order == "decay_first"
        if decays and not self.momentum:
            # The memory before a token, decayed, is the memory after it but for its own write.
            kept, lost, weights = rows.read(pre=False)
            return kept, lost, build.mask(weights[SOURCE], READER, SOURCE, 1, None)
        kept, lost, weights = rows.read(pre=True)
        decay = rows.decay_of_row(READER) if decays else build.const(1.0)
        return build.mul(decay, kept), build.mul(decay, lost), build.mul(decay, weights[SOURCE])

    def _slope(self) -> Node:
        """d error / d pred of the whole loss, a number or one per row."""
        parts = []
        for term in self.rule.loss:
            found = error_slope(self.rule, term)
            assert found is not None  # refused before
            expression, inputs = found
            leaves = [self.inner.loss_input(name, READER, "block") for name in inputs]
            parts.append(build.map_(expression, *leaves) if leaves else build.const(float(expression)))
        return build.add(*parts)
