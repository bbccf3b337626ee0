"""Question answering: the question with its right option makes a factual statement.

The question with a wrong option makes the non-factual one.
"""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from generation.common.medical_text import is_same_text
from mhb_site.benchmarks.medhal.tasks.pair import Pair, draw_index
from mhb_site.benchmarks.medhal.tasks.sentences import last_question, last_sentence

KIND = "mcq"
_REFERS_TO_OPTIONS = re.compile(
    r"\b(?:all|none|both|any|either|neither)\b.{0,20}\b(?:above|these|them|the options)\b|\bthe above\b"
    r"|\A\s*+(?:all|none|both|any|either|neither)\s*+[.]?+\s*+\Z"
    r"|\A\s*+(?:both )?\(?[a-d]\)?\s*+(?:and|or|&|,)\s*+\(?[a-d]\)?\s*+[.]?+\s*+\Z",
    re.IGNORECASE,
)
_TRUTH = re.compile(r"\b(?:true|false)\b", re.IGNORECASE)
# 'Not' asks for the exception where it belongs to what is asked for, not to what a patient has.
_EXCEPT = re.compile(
    r"\b(?:except|excluding|incorrect|false|untrue)\b|\bleast (?:likely|appropriate|true|correct)\b"
    r"|\b(?:is|are|was|were|be|do|does|did|has|have|had|can|could|may|might|should|would|will|shall|must|need|/are)\s+not\b"
    r"(?=[^;]*\Z)|\b(?:which|what|all|one|following|these)(?:\s+\w+){0,3}\s+not\b|\bcannot\b|n['’]t\b"
    r"|\bnot\b[^;.]{0,40}\b(?:is|are)\b\W*\Z",
    re.IGNORECASE,
)
# What the reader of a question would have to see.
_PICTURE = (
    r"(?:photograph|photo|photomicrograph|picture|image|figure|diagram|illustration|exhibit|graph|curve|loop|tracing|slide"
    r"|section|specimen|smear|biopsy|scan|radiograph|radiogram|x-?ray|ecg|ekg|electrocardiogram|eeg|ct|mri|ultrasound"
    r"|ultrasonography|sonogram|echocardiogram|angiogram|angiography|mammogram|endoscopy|fundus|pedigree|karyotype|instrument)s?"
)
_UNSEEN = re.compile(
    rf"\b{_PICTURE}\b[^.?!\n]{{0,60}}\b(?:is|are|was|were|as)\s+(?:shown|depicted|displayed|pictured|provided|attached|given"
    rf"|seen)(?=\s*(?:[.,;:)]|\Z|\(?(?:here|below|above|for comparison|in the|with an?)\b))"
    rf"|\b(?:shown|depicted|seen|given|marked|labell?ed|indicated|displayed|illustrated|pictured|provided)\b[^.?!\n]{{0,30}}"
    rf"\bin\s+(?:the\s+|this\s+)?(?:\w+\s+)?(?:photograph|photo|picture|image|figure|diagram|illustration|exhibit|graph|slide)\b"
    r"|\b(?:marked|indicated|pointed|labell?ed|shown)\b[^.?!\n]{0,25}\b(?:arrow|arrows|arrowhead|asterisk)\b"
    r"|\barrow[- ]?marked\b"
    rf"|(?<!which of )(?<!one of )(?<!any of )\b(?:the following|given|this|accompanying|attached|below)\s+"
    rf"(?:\w+\s+)?(?:{_PICTURE}|lesion)(?=\s*(?:[-–:;.,?]|\Z"
    r"|is\b|are\b|shows?\b|depicts?\b|below\b|above\b))"
    rf"|\bthe\s+(?:picture|image|photograph|photo|figure|diagram|illustration|exhibit)\s+"
    r"(?:shows?|depicts?|demonstrates?|below|above)\b"
    r"|\bfigure\s+\d|\(see (?:picture|image|figure|photograph)",
    re.IGNORECASE,
)
_PLACEHOLDER = re.compile(r"\A\W*(?:not recalled|option [a-e]|no option)\W*\Z", re.IGNORECASE)
_LETTER = re.compile(r"\A\W*[a-e]\W*\Z", re.IGNORECASE)
_NUMBER = re.compile(r"\A\s*(?:q\.?\s*)?\d{1,3}[.)]\s+", re.IGNORECASE)
# The letter of the right option as explanations name it: 'b', (b), b. i.e.,
_OPTION = (
    r"[\"'‘“`(\[]*(?!(?<=\bis\s)(?-i:a\s+(?!i\.?\s?e\b)[a-z]))\b[a-e](?![\w'’-]*[a-z])[\"'’”`)\]]*+(?:\s*+[.:)\-–,]+)?"
    r"(?:\s*+\bi\.?\s?e\b\.?\s*+[,.:]?)?"
)
_BEFORE = r"(?:[\s.:\-–=,]|\b(?:is|was|option|choice)\b)*"
_ANSWER = re.compile(
    rf"\A\s*\(?(?:(?:so|hence|thus)\W+)?(?:the\s+)?(?:(?:correct\s+|right\s+)?ans(?:wer)?|(?:correct|right)\s+(?:option|choice))\b{_BEFORE}{_OPTION}\s*"
    r"|\A\s*[\"'‘“(\[]*[a-e][\"'’”)\]]*\s*+[.,]?\s*+i\.?\s?e\b\.?\s*+[,.:]?\s*+",
    re.IGNORECASE,
)
# Further on: a sentence that says no more, and the letter in one that does. 'Answer a' may be a verb.
_LATER = r"\bans(?:wer)?(?:\.|\s+is\b|\s*[:\-–=])[\s.:\-–=]*(?:option\s+)?"
_ANSWER_ALONE = re.compile(rf"(?:(?<=[.!?\n])|\A)[^.!?\n]{{0,40}}{_LATER}{_OPTION}\s*(?=\Z|\n)", re.IGNORECASE)
_ANSWER_LATER = re.compile(rf"({_LATER}){_OPTION}\s*", re.IGNORECASE)
_RIGHT_OPTION = re.compile(
    rf"\b(?:option|choice)\s+{_OPTION}(?=\s+is\s+(?:the\s+)?(?:correct|right|true|answer|best)\b)", re.IGNORECASE
)


def pairs(content: Mapping[str, Any], external_id: str, settings: Mapping[str, Any]) -> Sequence[Pair]:
    """The pair of a question, or the reason why there is none."""
    if reason := exclusion_reason(content, settings["qa_filters"]):
        return [Pair("qa", out=reason)]
    context, question = _context_and_question(content["question"], settings["qa_context"])
    answer = content["answer"]
    wrong_letters = []
    for letter, text in content["options"].items():
        if not is_same_text(text, content["options"][answer]) and not _PLACEHOLDER.search(text):
            wrong_letters.append(letter)
    if not wrong_letters:
        return [Pair("qa", out="no-wrong-option")]
    if settings["wrong_option"] == "similar":
        wrong_letters = _most_similar(wrong_letters, content["options"], answer)
    letter = wrong_letters[draw_index(len(wrong_letters), settings["seed"], "option", external_id)]
    return [
        Pair(
            "qa",
            context=context,
            question=question,
            right=content["options"][answer],
            wrong=content["options"][letter],
            option=letter,
            source_explanation=clean_explanation(content["explanation"]),
        )
    ]


def exclusion_reason(content: Mapping[str, Any], filters: str) -> str:
    """Why a question is left out, a code of `REASONS`; '' if it is used.

    `filters` is 'none', 'released' or 'stricter'.
    """
    options, question = list(content["options"].values()), content["question"]
    match filters:
        case "released":
            return _released_exclusion(content["dataset"], question, options)
        case "stricter":
            if any(map(_REFERS_TO_OPTIONS.search, options)):
                return "the-above"
            if _EXCEPT.search(_context_and_question(question, "split")[1]):
                return "negated"
            if _UNSEEN.search(question) or all(map(_LETTER.search, options)):
                return "unseen"
            if any(map(_TRUTH.search, options)):
                return "true-false"
            return ""
    return ""


def _released_exclusion(dataset: str, question: str, options: Sequence[str]) -> str:
    """The reason by the rules of the released code.

    It looks for 'the above' only in the last option, and for 'except' only in lower case.
    """
    if dataset == "medqa":
        if last_question(question)[1]:
            return ""
        return "no-question"
    if "the above" in options[-1]:
        return "the-above"
    if "except" in question:
        return "negated"
    if any("true" in text.lower() or "false" in text.lower() for text in options):
        return "true-false"
    return ""


def _context_and_question(question: str, mode: str) -> tuple[str, str]:
    """The context of a question and the question itself."""
    if mode != "split":
        return "", question
    context, asked = last_sentence(_NUMBER.sub("", question))
    # A quotation mark that closes what nothing opened.
    if question.count('"') % 2:
        asked = asked.removesuffix('"').rstrip()
    return context, asked


def clean_explanation(text: str) -> str:
    """The data set's explanation without the letter of the answer ('Ans. is 'b' i.e. …').

    The letter tells which options were offered, and no statement shows them.
    """
    text = _ANSWER_ALONE.sub("", _ANSWER.sub("", text))
    return _RIGHT_OPTION.sub("this", _ANSWER_LATER.sub(r"\1", text)).strip()


def _most_similar(letters: Sequence[str], options: Mapping[str, str], answer: str) -> list[str]:
    """The wrong options whose length is closest to that of the right one: its length says nothing."""
    by_distance: dict[int, list[str]] = defaultdict(list)
    for letter in letters:
        distance = abs(len(options[letter].strip()) - len(options[answer].strip()))
        by_distance[distance].append(letter)
    return by_distance[min(by_distance)]
