"""MedMistake's simulated models, up to the mistake and after it.

Both modules publish their rates.
"""

from generation.llm.simulator.script import Scripts
from mhb_site.benchmarks.medmistake import simulate_conversation, simulate_replication

SCRIPT = Scripts((simulate_conversation.SCRIPT, simulate_replication.SCRIPT))
