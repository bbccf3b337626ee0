"""What batches, samples and recipes add to the pages and checks below them."""

from generation.batches import attention
from generation.batches.kind import BATCHES
from generation.jobs import kinds, overview
from generation.outcomes import reopening
from generation.recipes import registry
from generation.releases import integrity
from generation.samples import errata
from review.audit import verification
from review.common import page_slots
from review.labels import register_labels

kinds.register(BATCHES)
verification.register(verification.FurtherCheck(integrity.faults, integrity.not_covered))
register_labels(benchmark=registry.label, task=registry.task_label)
page_slots.register("attention", "generation/jobs/_failing_endpoints.html", overview.problems)
page_slots.register("attention", "generation/jobs/_jobs_needing_attention.html", overview.jobs_needing_attention)
page_slots.register("attention", "generation/batches/_fruitless.html", attention.fruitless_batches)
page_slots.register("first-steps", "generation/batches/_first_steps.html", attention.first_steps)
page_slots.register("attention", "generation/samples/_undecided.html", errata.undecided_reports)
page_slots.register("in-progress", "generation/jobs/_jobs_in_progress.html", overview.jobs_in_progress)
page_slots.register("cost", "generation/jobs/_week.html", overview.cost)
page_slots.register("case", "generation/samples/_on_case.html", errata.case_context)
page_slots.register("reviewer", "generation/outcomes/_on_reviewer.html", reopening.reviewer_context)
page_slots.register("own-review", "generation/samples/_own_review.html", errata.own_review_context)
