"""A memory rule of one's own, from a file to its gradient.

Run: python examples/own_rule.py
"""

import tempfile
from pathlib import Path

import torch

import atlasgen

RULE = """
rule = "my_rule"
loss = { kind = "expr", expression = "sqrt((pred - v)**2 + 0.01)" }
window = { length = 4, gate = "none" }
block = 16
optimizer = { lr = 0.01 }
retention = { kind = "constant", value = 0.99 }
"""


def main() -> torch.Tensor:
    """Writes the rule's file, compiles it, and differentiates what the memory answers by the keys."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "my_rule.toml")
        path.write_text(RULE)
        memory = atlasgen.compile(path, backend="torch")
    print(memory.signature)

    q, k, v = (torch.randn(2, 100, 3, 16) / 4 for _ in range(3))  # [batch, tokens, heads, size]
    k.requires_grad_()
    y, state = memory(q, k, v, output_final_state=True)
    y.square().sum().backward()
    assert state is not None and k.grad is not None
    print("answers", list(y.shape), "memory", list(state.memory["M"].shape))
    return k.grad


if __name__ == "__main__":
    print("gradient of the keys: norm", float(main().norm()))
