"""MedHallu's simulated models for generation and evaluation.

Both modules publish their true rates.
"""

from generation.llm.simulator.script import Scripts
from mhb_site.benchmarks.medhallu import simulate_detection, simulate_generation

SCRIPT = Scripts((simulate_generation.SCRIPT, simulate_detection.SCRIPT))
