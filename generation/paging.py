"""Long tables, a page at a time by key."""

from review.paging import keyset as keyset
