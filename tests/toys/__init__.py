"""Benchmarks for tests alone. `settings.MHB_BENCHMARKS = "tests.toys"` puts them in the place of ours."""
