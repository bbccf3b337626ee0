"""Nothing is measured with it; pages of releases ask for its words for facets."""

from types import SimpleNamespace

PROTOCOL = SimpleNamespace(facets=())
