"""Replies of a real small model to MHB's prompt for reports, through the checks of the reply.

They came from Qwen2.5-Coder-1.5B on the demo's reports. What is expected of each was read in it.
"""

import json
from pathlib import Path

import pytest
from django.conf import settings

from generation.llm.errors import BrokenReply
from generation.llm.reply_reading import read_shape
from generation.llm.types import Reply
from mhb_site.benchmarks.mhb import taxonomy
from mhb_site.benchmarks.mhb.generator_reply import ReportQuestion, check_report

pytestmark = pytest.mark.plain
ROWS = json.loads(Path(__file__).with_name("real_replies.json").read_text(encoding="utf-8"))
REPORTS = json.loads((settings.BASE_DIR / "mhb_site" / "demo" / "reports.json").read_text(encoding="utf-8"))
TEXTS = {row["patient_uid"]: row["patient"] for row in REPORTS}
NOT_QUOTED = "The 'words' of trap 1 are not in what you wrote: quote them exactly."
DEMANDS = "Criterion 1 demands something, but its polarity is 'must not'."
FAULTS = {
    "another's words": [NOT_QUOTED, DEMANDS],
    "denies itself": [NOT_QUOTED, NOT_QUOTED.replace("trap 1", "trap 2"), DEMANDS],
    "copies the dots": [NOT_QUOTED, "There is only one criterion"],
    "copies the example": ["The last turn asks nothing", NOT_QUOTED, "Criterion 1 names nothing"],
    "passes, though false": [],  # the report says what it calls missing, which only a reader sees
    "passes": [],  # its criteria speak of the question ("a value of blood pressure"), not of the trap
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_real_reply_is_refused_for_its_own_faults_alone(row: dict[str, str]) -> None:
    reply = read_shape(Reply(row["text"]), ReportQuestion)
    reasons = ""
    try:
        check_report(reply, TEXTS[row["report"]], taxonomy.TERMS)
    except BrokenReply as refusal:
        reasons = refusal.detail
    faults = FAULTS[row["name"]]
    assert [fault in reasons for fault in faults] == [True] * len(faults)
    assert bool(reasons) == bool(faults)
