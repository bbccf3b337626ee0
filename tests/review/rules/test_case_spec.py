"""Cases are stored alike one by one and in bulk."""

import json
from dataclasses import replace

import pytest

from review.rules.blocks import Text
from review.rules.case_spec import spec_to_json, specs_to_json
from review.rules.state_machine import Policy
from tests.review.factories import FORM, FULL_FORM, case_spec

pytestmark = pytest.mark.plain


def test_specs_in_bulk_are_byte_for_byte_equal_to_single_ones() -> None:
    translated = replace(FORM, wordings={"de": {"natural.label": "Nat\0ür\ud800lich?"}})
    specs = [
        case_spec(number, form=form, policy=policy, blocks=(Text("Context", f"\0{number} \ud800"),))
        for number, (form, policy) in enumerate(
            [
                (FORM, Policy()),
                (FORM, Policy(primary=False)),
                (replace(FORM), Policy(primary=False)),
                (FULL_FORM, Policy()),
                (translated, Policy()),
                (FORM, Policy()),
            ]
        )
    ]
    assert [json.dumps(spec) for spec in specs_to_json(specs)] == [json.dumps(spec_to_json(spec)) for spec in specs]
