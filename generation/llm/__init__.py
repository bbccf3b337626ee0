"""The only door to models: plain values in, plain values out; knows neither Django models nor benchmarks."""
