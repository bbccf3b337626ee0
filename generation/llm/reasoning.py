"""Separation of what a model thought from what it answered, for the families of marks in use.

A reply is read once from front to back, in time proportional to its length.
"""

import re

MAX_BLOCKS = 100  # blocks of reasoning in a reply
MAX_TAILS = 5  # marks after it

_NAME = (
    r"(?:[a-z_]{1,20}[:_]|ant)?(?:think(?:ing)?|thoughts?|reason(?:ing)?|scratch_?pad|reflection|(?:inner|internal)_monologue"
    r"|cot)(?:_(?:process|content|trace|block|steps?))?"
)
# One mark of the beginning or end of reasoning. Each mark of an end sets one of the named groups.
_MARK = re.compile(
    # <think>, </Thinking>, <thought id="1">, <end_of_thought>
    rf"<\s?(?P<a>/|end_of_)?(?:start_of_|begin_of_)?\s?{_NAME}(?:\s[^<>]{{0,200}})?(?<!/)>"
    r"|\[(?P<b>/?)think(?:ing)?\]"  # [THINK]
    rf"|<\|(?P<c>/|end_of_|end_)?(?:begin_of_|begin_|start_of_|start_)?{_NAME}(?P<d>_end)?(?:_start)?\|>"
    r"|◁(?P<e>/?)think(?:ing)?▷"
    r"|<\|channel>\s?(?:thought|analysis)|(?P<f><channel\|>)"  # Gemma
    r"|<unused94>thought|(?P<g><unused95>)"  # MedGemma
    r"|(?P<h>\[BEGIN FINAL RESPONSE\])",
    re.IGNORECASE,
)

# Channels of gpt-oss, whole and with their marks stripped.
_FINAL = re.compile(
    r"(?:<\|start\|>\s?assistant\s?)?<\|channel\|>\s?final\b[^<]{0,80}(?:<\|constrain\|>[^<]{0,80})?<\|message\|>"
    r"|assistantfinal",
    re.IGNORECASE,
)
_CHANNEL = re.compile(
    r"(?:assistant\s?)?(?:<\|channel\|>\s?(?:analysis|commentary)|(?-i:analysis(?=[A-Z])))", re.IGNORECASE
)
_CHANNEL_MARK = re.compile(
    r"<\|(?:start|end|channel|message|return|call|constrain)\|>(?:assistant|analysis|commentary|final)?"
    r"|^(?:assistant)?(?:analysis|commentary)(?=[A-Z])|assistant(?:analysis|commentary)(?=[A-Z])"
)
_ENDS_CHANNEL = re.compile(r"<\|(?:return|end|start|call)\|>")

# Words instead of marks (Granite), and headings (HuatuoGPT).
_SPOKEN = re.compile(r"here(?: is|'s) my thought process:|(?P<heading>#{1,3} ?thinking\b)", re.IGNORECASE)
_SPOKEN_END = re.compile(
    r"here(?: is|'s) my response:|^#{1,3} ?final (?:response|answer)\b:?", re.IGNORECASE | re.MULTILINE
)

# Marks before and after a whole turn.
_LEAD = re.compile(
    r"(?:\s|\ufeff|<s>|<bos>|<\|(?:im_start|start|assistant|begin_of_text|start_header_id|end_header_id)\|>(?:assistant)?"
    r"|<think\s?/>|(?:assistant|model)\n(?=\s*<))*",  # an empty thought; a role from the template
    re.IGNORECASE,
)
_TAILS = (
    *("<|im_end|>", "<|eot_id|>", "<|endoftext|>", "<|end_of_text|>", "<|end|>", "<|return|>"),
    *("</s>", "<eos>", "<end_of_turn>", "<｜end▁of▁sentence｜>"),
)
# Marks around the answer that follows reasoning.
_ANSWER_START = re.compile(
    r"\s*(?:<(?:final_)?answer>|<\|begin_of_solution\|>|<\|start_response\|>|<response>|<output>)", re.IGNORECASE
)
_ANSWER_ENDS = (
    *("</answer>", "</final_answer>", "<|end_of_solution|>", "<|end_response|>", "</response>", "</output>"),
    "[end final response]",
)

_LIKE_REASONING = re.compile(
    r"\s*(?:<\|?/?[a-z_]{0,20}(?:analy|think|thought|reason|reflect|scratch|monolog|deliberat|ponder|cot\b|channel)"
    r"|\[/?[a-z_]{0,20}(?:think|thought|reason|reflect)|<\|[a-z_]{1,40}\|>|◁|&lt;/?think|<｜"
    r"|<seed:cot|<details[^<>]{0,99}>\s*<summary>\s*(?:think|thought|reason)|<details[^<>]{0,99}reasoning"
    r"|(?:```|\*\*|#{1,3}) ?(?:thinking|thoughts?|reasoning|analysis)\b"
    r"|(?:okay|ok|alright|hmm|wait|so)\b[,.]{0,3} (?:so\b|let|the user|i need|we need|i have|we have|first)"
    r"|let me (?:think|analy|break|consider)|let's (?:think|analy|break)|we (?:need|have|must|should)(?: to)? "
    r"(?:answer|respond|decide|determine|produce|output|judge|consider|figure)|the user (?:asks|is asking|wants|says|has|asked)"
    r"|i need to (?:figure|think|determine|decide|analy)|thinking process|thought process|thoughts?:|reasoning:"
    r"|here(?:'s| is) (?:a |my |the )?(?:thinking|thought|reasoning) |(?-i:analysis[A-Z])"
    r"|嗯|好的，(?:用户|我)|首先，用户|用户(?:问|想|要|询))",
    re.IGNORECASE,
)


def split_reasoning(text: str, start: str = "", end: str = "") -> tuple[str, str]:
    """Split a reply into (answer, reasoning).

    `start`, `end`: an endpoint's own marks, beside the known ones. A block without an end is all
    reasoning. The start may be missing: chat templates put it into the prompt, so that the reply
    begins after it. Text that begins as a JSON object is the answer, whatever it quotes.
    """
    lead = _LEAD.match(text)
    position = 0
    if lead:
        position = lead.end()
    if text.startswith("{", position):
        return text, ""
    thoughts: list[str] = []
    if end:
        position = _skip_own(text, position, start, end, thoughts)
    channels = _split_channels(text, position)
    if channels:
        answer, thought = channels
        thoughts.append(thought)
        return _unwrapped(answer), _joined(thoughts)
    if spoken := _SPOKEN.match(text, position):
        finish = _SPOKEN_END.search(text, spoken.end())
        if finish or not spoken["heading"]:  # a heading alone may be one of an answer
            end_of_thought = position = len(text)
            if finish:
                end_of_thought, position = finish.span()
            thoughts.append(text[spoken.end() : end_of_thought])
    position = _skip_blocks(text, position, thoughts)
    if not thoughts:
        shown = _without_tail(text)
        if lead is not None and "<" in lead[0]:
            return shown[position:], ""
        return shown, ""
    return _unwrapped(text[position:]), _joined(thoughts)


def begins_like_reasoning(text: str, question: str = "") -> bool:
    """Whether an answer still begins like reasoning, so that its marks may be unknown.

    A heading that the question asks for is none of these marks.
    """
    if _LIKE_REASONING.match(text) is None:
        return False
    heading = text.lstrip().partition("\n")[0].rstrip()
    return heading not in question


def _skip_own(text: str, position: int, start: str, end: str, thoughts: list[str]) -> int:
    """Read one block in an endpoint's own marks; returns where the rest begins."""
    begins = bool(start) and text.startswith(start, position)
    at = position
    if begins:
        at = position + len(start)
    finish = text.find(end, at)
    if not begins and (finish < 0 or (start and text.find(start, at, finish) >= 0)):
        return position
    if finish < 0:
        thoughts.append(text[at:])
        return len(text)
    thoughts.append(text[at:finish])
    return finish + len(end)


def _split_channels(text: str, position: int) -> tuple[str, str] | None:
    """The final channel and the others; None if the reply has no channels."""
    final = _FINAL.search(text, position)
    if final is None:
        if _CHANNEL.match(text, position) is None:
            return None
        return "", _CHANNEL_MARK.sub("", text[position:])
    end = len(text)
    if finish := _ENDS_CHANNEL.search(text, final.end()):
        end = finish.start()
    answer = text[final.end() : end]
    return answer, _CHANNEL_MARK.sub("", text[position : final.start()])


def _skip_blocks(text: str, position: int, thoughts: list[str]) -> int:
    """Read the blocks at the front; returns where the answer begins."""
    if not any(first in text for first in "<[◁"):  # every mark begins so; most texts have none
        return position
    for _block in range(MAX_BLOCKS):
        at = position + len(text[position : position + 1_000]) - len(text[position : position + 1_000].lstrip())
        mark = _MARK.search(text, at)
        if mark is None:
            break
        if _closes(mark):  # the start is missing
            thoughts.append(text[position : mark.start()])
            position = mark.end()
            continue
        if mark.start() != at:
            break
        end_of_thought = position = len(text)
        for other in _MARK.finditer(text, mark.end()):
            if _closes(other):
                end_of_thought, position = other.span()
                break
        thoughts.append(text[mark.end() : end_of_thought])
    return position


def _closes(mark: "re.Match[str]") -> bool:
    return any(mark.groups())


def _unwrapped(answer: str) -> str:
    answer = _without_tail(answer)
    if opening := _ANSWER_START.match(answer):
        answer = answer[opening.end() :]
    stripped = answer.rstrip()
    for ending in _ANSWER_ENDS:
        if stripped[-len(ending) :].casefold() == ending:
            answer = stripped[: -len(ending)]
    return answer.lstrip()


def _without_tail(text: str) -> str:
    end = _end_without_space(text, len(text))
    for number in range(MAX_TAILS):
        tail = next((tail for tail in _TAILS if text.endswith(tail, 0, end)), "")
        if not tail:
            if number == 0:
                return text
            return text[:end]
        end = _end_without_space(text, end - len(tail))
    return text[:end]


def _end_without_space(text: str, end: int) -> int:
    while end and text[end - 1].isspace():
        end -= 1
    return end


def _joined(thoughts: list[str]) -> str:
    return "\n\n".join(thought.strip() for thought in thoughts if thought.strip())
