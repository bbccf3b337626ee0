"""The only door to models: plain values in and out, no Django models, no benchmarks."""
