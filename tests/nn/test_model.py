"""Blocks, the language model and the classes of generated packages."""

import inspect
import pickle

import pytest
import torch

from atlasgen import ArgumentError, SpecError
from atlasgen.nn import MemoryBlock, MemoryLanguageModel, MemoryLayer, ModelState, class_name, layer_class
from tests.nn.support import close, gradients, layer_of


def model(**options: object) -> MemoryLanguageModel:
    return MemoryLanguageModel("omeganet_linear", 16, 2, 2, vocabulary_size=19, backend="torch", **options)


def run_blocks(network: MemoryLanguageModel, token: int) -> torch.Tensor:
    x = network.embedding(torch.tensor([[token]]))
    for block in network.blocks:
        x = block(x)
    return x


def test_a_block_adds_the_layer_and_the_feed_forward_network() -> None:
    block, x = MemoryBlock(layer_of("simple_gla"), mlp_size=24), torch.randn(2, 7, 16)
    middle = x + block.layer(block.layer_norm(x))
    gate, up = block.mlp.widen(block.mlp_norm(middle)).chunk(2, -1)
    expected = middle + block.mlp.narrow(torch.nn.functional.silu(gate) * up)
    close(block(x), expected)
    assert MemoryBlock(layer_of("simple_gla", hidden=96)).mlp.narrow.weight.shape == (96, 256)


def test_pieces_of_a_text_equal_the_whole() -> None:
    network, tokens = model(), torch.randint(19, (2, 70))
    logits, state = network(tokens, output_state=True)
    assert logits.shape == (2, 70, 19)
    first, carried = network(tokens[:, :30], output_state=True)
    second, after = network(tokens[:, 30:], carried.detach(), output_state=True)
    close(torch.cat([first, second], 1), logits)
    close(after, state)
    assert isinstance(after, ModelState) and len(after) == 2
    close(after[1].layers[0], state.layers[0][1])


def test_padding_and_packing_reach_every_layer() -> None:
    network, tokens = model(), torch.randint(19, (1, 12))
    alone = network(tokens[:, 5:])
    mask = torch.tensor([[0] * 5 + [1] * 7])
    padded, state = network(tokens, mask=mask, output_state=True)
    close(padded[:, 5:], alone)
    assert torch.equal(padded[:, :5], torch.zeros(1, 5, 19))
    close(network(tokens[:, :3], state), network(tokens[:, :3], network(tokens[:, 5:], output_state=True)[1]))
    close(network(tokens, cu_seqlens=torch.tensor([0, 5, 12]))[:, 5:], alone)


def test_generation_follows_the_logits() -> None:
    network, prompt = model(), torch.randint(19, (2, 5))
    drawn = network.generate(prompt, 6, temperature=0)
    tokens = torch.cat([prompt, drawn], 1)
    assert torch.equal(network(tokens)[:, 4:-1].argmax(-1), drawn)
    twice = [
        network.generate(prompt, 6, top_k=3, generator=torch.Generator().manual_seed(5)) for _ in range(2)
    ]
    assert torch.equal(*twice) and twice[0].shape == (2, 6)
    assert network.generate(prompt, 0).shape == (2, 0)
    with pytest.raises(ArgumentError, match="prompt"):
        network.generate(prompt[:, :0], 3)


def test_only_the_likeliest_are_drawn() -> None:
    network, prompt = model(), torch.randint(19, (64, 3))
    likely = network(prompt)[:, -1].topk(2, dim=-1).indices
    drawn = network.generate(prompt, 1, top_k=2, generator=torch.Generator().manual_seed(0))
    assert (drawn == likely).any(-1).all()
    assert (drawn != likely[:, :1]).any() and (drawn != likely[:, 1:]).any()


def test_tied_and_untied_weights() -> None:
    tied, untied = model(), model(tie_weights=False)
    close(tied(torch.tensor([[3]])), tied.norm(run_blocks(tied, 3)) @ tied.embedding.weight.T)
    assert len(list(untied.parameters())) == len(list(tied.parameters())) + 1
    for network in (tied, untied):
        network(torch.randint(19, (2, 40))).square().sum().backward()
        assert all(torch.isfinite(g).all() and g.any() for g in gradients(network).values())


def test_a_model_made_on_the_meta_device() -> None:
    network = model(device="meta")
    network.to_empty(device="cpu").reset_parameters()
    assert torch.isfinite(network(torch.randint(19, (2, 9)))).all()
    other = model()
    other.load_state_dict(network.state_dict())
    tokens = torch.randint(19, (1, 4))
    assert torch.equal(other(tokens), network(tokens))


@pytest.mark.parametrize(
    "rule, name",
    [
        ("omeganet_linear", "OmegaNetLinear"),
        ("simple_gla", "SimpleGLA"),
        ("swla", "SWLA"),
        ("retnet", "RetNet"),
        ("linear_attention", "LinearAttention"),
        ("titans_linear", "TitansLinear"),
        ("my_rule_2", "MyRule2"),
    ],
)
def test_class_names(rule: str, name: str) -> None:
    assert class_name(rule) == name


def test_a_layer_class_is_a_layer_of_its_rule() -> None:
    made = layer_class("titans_linear", __name__)
    assert made.__name__ == "TitansLinear" and made.__module__ == __name__
    assert issubclass(made, MemoryLayer) and "titans_linear" in str(made.__doc__)
    assert list(inspect.signature(made).parameters)[:3] == ["hidden_size", "num_heads", "key_size"]
    layer = made(16, num_heads=2, key_size=4, backend="torch")
    assert layer.rule.name == "titans_linear" and layer.key_size == 4
    network = MemoryLanguageModel(made, 16, 1, 2, vocabulary_size=19)
    assert type(network.blocks[0].layer) is made
    tokens = torch.randint(19, (1, 4))
    assert torch.equal(pickle.loads(pickle.dumps(network))(tokens), network(tokens))
    with pytest.raises(SpecError, match="omeganet_linear"):
        layer_class("omeganet_linaer")
