"""The configurations of releases: the paper publishes scenarios whose mistake was repeated."""

from django.utils.translation import gettext_noop as _

from generation.recipes.configuration import Configuration

CONFIGURATIONS = (
    Configuration(
        "all", _("All scenarios"), _("Scenarios whose mistake a target repeated, and those that none repeated.")
    ),
    Configuration(
        "replicated",
        _("Replicated scenarios"),
        _("Only scenarios whose mistake a target repeated."),
        provenance={"replicated": "yes"},
    ),
)
