"""What importers say is translated where it is shown, and stored as it was said."""

import pytest
from django.utils.translation import override

from generation.sources.translated_reasons import TEMPLATES, translated

REASONS = {
    "line 12": "第 12 行",
    "record 3 and everything after it": "第 3 条记录及其后全部内容",
    "'Befund' is blank.": "“Befund”为空。",
    "The header has 4 columns, this record has 5.": "表头有 4 列，而该记录有 5 列。",
    "a.csv: line 3: 'x' is not one of a, b.": "a.csv: 第 3 行: “x”不是以下值之一：a, b。",
    "Image a: b.png: It is missing.": "图像 a: b.png: 缺失。",
    "The array breaks off here: the file ends before it does.": "数组在此处中断：文件提前结束。",
    "Turn 2: 'content' is blank.": "第 2 轮: “content”为空。",
    "Turn 2 has no text.": "第 2 轮没有文本。",
    "Something that nobody knows: 100%.": "Something that nobody knows: 100%.",
    "": "",
}


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_is_told_in_the_readers_language(reason: str) -> None:
    with override("en"):
        assert translated(reason) == reason
    with override("zh-hans"):
        assert translated(reason) == REASONS[reason]


def test_every_template_is_translated_with_its_placeholders() -> None:
    for template in TEMPLATES:
        example = template.replace("%(reason)s", "it is so").replace("%(where)s", "line 1")
        filled = example % {name: f"<{name}>" for name in _names(example)}
        with override("en"):
            assert translated(filled) == filled
        with override("zh-hans"):
            told = translated(filled)
        assert told != filled, template
        assert template.startswith("The %(unit)s") or all(f"<{name}>" in told for name in _names(example)), template


def _names(template: str) -> list[str]:
    return [part.partition(")")[0] for part in template.split("%(")[1:]]
