"""The stages of benchmarks/gpu.py: correctness on a device, speed beside a peer, candidates."""
