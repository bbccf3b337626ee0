"""The site, which combines the three engines and the benchmarks. No other package imports it."""

import os

# Else the first model of pydantic reads what every installed package declares, for a plugin of its.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
