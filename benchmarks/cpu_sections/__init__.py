"""The sections of benchmarks/cpu.py."""
