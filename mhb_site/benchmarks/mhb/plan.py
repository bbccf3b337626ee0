"""The trap plans of MHB: the composition of the published data set (the paper's Figure 2)."""

from django.utils.translation import gettext_noop as _

from generation.recipes.recipe import TrapPlan

SAMPLES = 4_695
# How many of them carry a trap of each cluster. The numbers add up to 1.9 clusters a sample.
CLUSTERS = {"A": 3_108, "B": 520, "C": 2_628, "D": 2_643, "E": 96}

# Types that a plan joins by chance have nothing to do with one another, and one natural
# question cannot bait for both. So each sample is asked for one type, in the paper's proportions,
# and the generator adds those that its premise is of as well. The paper gives no numbers by subtype
# or by data set, so subtypes share their cluster's number evenly, and conversations and reports
# have the same targets. Where a record carries no structured data, a type of cluster B other than
# the multimodal one takes its place.
PAPER = TrapPlan("paper", {"": CLUSTERS}, label=_("One trap a sample, in the paper's proportions"))
# To redo Figure 2: the numbers as they are, several types a sample.
FIGURE_2 = TrapPlan("figure-2", {"": CLUSTERS}, {"": SAMPLES}, _("Several traps a sample, as in Figure 2 of the paper"))
