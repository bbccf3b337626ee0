"""The site, which combines the three engines and the benchmarks. No other package imports it."""
