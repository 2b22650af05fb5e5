"""A generated layer in a training loop: learn to say what came 40 tokens ago.

Run: python examples/train_layer.py
"""

import torch
from torch import nn

from atlasgen.generated.omeganet_linear import OmegaNetLinear

STEPS, LENGTH, DISTANCE, SYMBOLS, HIDDEN = 200, 128, 40, 8, 64


def batch(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Blocks of DISTANCE random symbols, each repeated to the end: int64 [size, LENGTH] and targets."""
    repeats = -(-(LENGTH + 1) // DISTANCE)
    tokens = torch.randint(SYMBOLS, (size, DISTANCE)).repeat(1, repeats)
    return tokens[:, :LENGTH], tokens[:, 1 : LENGTH + 1]


def main() -> float:
    """Trains; returns the share of right answers on repeated symbols of fresh sequences."""
    torch.manual_seed(0)
    layers = [OmegaNetLinear(HIDDEN, num_heads=2), OmegaNetLinear(HIDDEN, num_heads=2)]
    embedding, head = nn.Embedding(SYMBOLS, HIDDEN), nn.Linear(HIDDEN, SYMBOLS)
    model = nn.ModuleList([embedding, *layers, head])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    share = 0.0
    for step in range(STEPS):
        tokens, targets = batch(16)
        x = embedding(tokens)
        for layer in layers:
            x = x + layer(nn.functional.rms_norm(x, (HIDDEN,)))
        logits = head(x)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        share = float((logits.argmax(-1) == targets)[:, DISTANCE:].float().mean())
        if step % 25 == 0:
            print(f"step {step:3}: loss {loss.item():.3f}, right {share:.0%}")
    return share


if __name__ == "__main__":
    print(f"right at the end: {main():.0%}")
