"""A protocol that measures nothing; release pages read its facet names."""

from types import SimpleNamespace

PROTOCOL = SimpleNamespace(facets=())
