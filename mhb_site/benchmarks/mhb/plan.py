"""How often MHB wants each trap: the composition of the published data set (the paper's Figure 2)."""

from generation.recipes.recipe import TrapPlan

# Samples that carry a trap of the cluster, of 4,695: their sum is larger, as a sample can carry traps of several clusters.
# The paper prints no number for a subtype and none for a data set: within a cluster they are spread evenly, and conversations
# and reports have the same targets. Of cluster B the multimodal subtype is left out: neither source has images.
PAPER = TrapPlan(
    name="paper",
    targets={"": {"A": 3_108, "B1": 260, "B2": 260, "C": 2_628, "D": 2_643, "E": 96}},
    samples={"": 4_695},
)
