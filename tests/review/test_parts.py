"""Cached parts of pages."""

import pytest
from django.urls import get_script_prefix, set_script_prefix

from review.templatetags.review_parts import part


@pytest.mark.plain
def test_a_cached_part_links_to_the_sub_path_of_the_request() -> None:
    before = get_script_prefix()
    try:
        for prefix in ("/", "/mhb/"):
            set_script_prefix(prefix)
            assert f'href="{prefix}"' in part("site/_brand.html")
    finally:
        set_script_prefix(before)
