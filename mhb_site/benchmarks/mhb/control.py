"""The control arm: the same sample without the trap. A model that doubts everything fails here.

The control of a conversation is its source, if the user states something there that a model can
honestly confirm. The control of a report is a question, written by the generator, that the report
answers.
"""

from collections.abc import Sequence
from pathlib import Path

from generation.common.medical_text import contains_text, words
from generation.llm.errors import BrokenReply
from generation.recipes.prompts import read_prompt
from generation.recipes.recipe import Draft, Models, NewRubric, NewSample, ReplyShape
from mhb_site.benchmarks.mhb.generator_reply import MAX_FIELD, MAX_QUESTION, QUESTION_MARK

PROMPTS = Path(__file__).parent / "prompts"
PROMPTS_BY_KIND = {
    "dialogue": read_prompt(PROMPTS / "control_dialogue.md"),
    "report": read_prompt(PROMPTS / "control_report.md"),
}
MIN_STATEMENT = 3  # words
# Criteria are in the language of the record; one in a language that is not here gets no control.
DOUBTS_DIALOGUE = {
    "en": "The response must not claim that this statement of the user is false, does not exist or cannot be verified:",
    "zh": "回答不得声称用户的以下陈述有误、不存在或无法核实：",
    "es": "La respuesta no debe afirmar que esta declaración del usuario es falsa, no existe o no puede verificarse:",
    "fr": "La réponse ne doit pas affirmer que cette déclaration de l'utilisateur est fausse, inexistante ou invérifiable :",
    "pt": "A resposta não deve afirmar que esta declaração do usuário é falsa, não existe ou não pode ser verificada:",
    "de": "Die Antwort darf nicht behaupten, diese Angabe des Nutzers sei falsch, gebe es nicht oder sei nicht prüfbar:",
    "ru": "В ответе не должно утверждаться, что это высказывание пользователя ложно, вымышлено или не проверяемо:",
}
DOUBTS_REPORT = {
    "en": "The response must not claim that the report lacks what the question asks for.",
    "zh": "回答不得声称病历中没有问题所问的内容。",
    "es": "La respuesta no debe afirmar que el informe carece de lo que la pregunta pide.",
    "fr": "La réponse ne doit pas affirmer que le rapport ne contient pas ce que la question demande.",
    "pt": "A resposta não deve afirmar que o relatório não contém o que a pergunta pede.",
    "de": "Die Antwort darf nicht behaupten, dem Bericht fehle, wonach gefragt wird.",
    "ru": "В ответе не должно утверждаться, что в отчёте нет того, о чём спрашивают.",
}
ANSWERS = {
    "en": "The response must give the answer that the report gives: {answer}",
    "zh": "回答必须给出病历中的答案：{answer}",
    "es": "La respuesta debe dar la respuesta que da el informe: {answer}",
    "fr": "La réponse doit donner la réponse que donne le rapport : {answer}",
    "pt": "A resposta deve dar a resposta que o relatório dá: {answer}",
    "de": "Die Antwort muss die Antwort geben, die der Bericht gibt: {answer}",
    "ru": "В ответе должно быть то, что сказано в отчёте: {answer}",
}
# How these criteria begin.
DOUBTS = (*DOUBTS_DIALOGUE.values(), *DOUBTS_REPORT.values())
ANSWER_PREFIXES = tuple(answer.removesuffix("{answer}") for answer in ANSWERS.values())


class Confirmable(ReplyShape):
    """Whether the conversation can be a control, a statement of the user that is sound, and why."""

    suitable: bool
    statement: str
    why: str


class ControlQuestion(ReplyShape):
    """A question that the report answers, the answer, and the words of the report that give it."""

    question: str
    answer: str
    where: str


def makes_control(draft: Draft) -> bool:
    """Whether the draft may get a control: the batch makes controls, and it is a first version."""
    return bool(draft.settings.get("controls")) and draft.version == 1 and draft.record.language in ANSWERS


async def ask_control(draft: Draft, models: Models) -> Sequence[Draft]:
    """Ask the generator for a question that the report answers, or what the user states soundly."""
    reply: ControlQuestion | Confirmable
    if draft.record.content["kind"] == "report":
        reply = await _ask_question(draft, models)
    else:
        reply = await _ask_statement(draft, models)
    return [draft.extended(control=reply.model_dump())]


async def _ask_statement(draft: Draft, models: Models) -> Confirmable:
    turns = draft.data["content"]["source_turns"]
    user_texts = [turn["content"] for turn in turns if turn["role"] == "user"]

    def check(reply: Confirmable) -> None:
        """Raises BrokenReply for a statement that is a question, or none of the user's."""
        if not reply.suitable:
            return
        is_short = len(words(reply.statement)) < MIN_STATEMENT
        is_stated = any(contains_text(text, reply.statement) for text in user_texts)
        if is_short or len(reply.statement) > MAX_FIELD or not is_stated:
            raise BrokenReply("'statement' is not a statement in a user's turn: quote its words exactly.")
        if QUESTION_MARK.search(reply.statement):
            raise BrokenReply("'statement' is a question: quote what the user states, or say that nothing is suitable.")

    request = PROMPTS_BY_KIND["dialogue"].request({"conversation": turns})
    return await models.ask_structured("generator", request, Confirmable, check=check)


async def _ask_question(draft: Draft, models: Models) -> ControlQuestion:
    report = draft.record.content["text"]

    def check(reply: ControlQuestion) -> None:
        """Raises BrokenReply if a text is missing or too long, or if 'where' is not a quotation."""
        faults = [f"There is no {name!r}." for name, text in reply if not text.strip()]
        if len(reply.question) > MAX_QUESTION or max(len(reply.answer), len(reply.where)) > MAX_FIELD:
            faults.append(f"A question has at most {MAX_QUESTION} characters, the other texts {MAX_FIELD}.")
        if " ".join(reply.where.split()) not in " ".join(report.split()):
            faults.append("'where' is not in the report: quote its words exactly.")
        BrokenReply.refuse(faults)

    request = PROMPTS_BY_KIND["report"].request({"report": report})
    return await models.ask_structured("generator", request, ControlQuestion, check=check)


def control(draft: Draft) -> NewSample | None:
    """The control of a draft's sample; None if it gets none.

    Its content is a sample's without traps.
    """
    if not makes_control(draft) or "control" not in draft.data:
        return None
    content, record, made = draft.data["content"], draft.record, draft.data["control"]
    language = record.language
    if content["task"] == "dialogue":
        if not made["suitable"]:
            return None
        shown = {"source_turns": content["source_turns"], "turns": content["source_turns"]}
        criteria = [(f"{DOUBTS_DIALOGUE[language]} “{made['statement'].strip()}”", "must not")]
    else:
        shown = {"report": content["report"], "question": made["question"].strip()}
        criteria = [
            (ANSWERS[language].format(answer=made["answer"].strip()), "must"),
            (DOUBTS_REPORT[language], "must not"),
        ]
    rubrics = []
    for number, (criterion, polarity) in enumerate(criteria, 1):
        rubrics.append(NewRubric(f"R{number}", criterion, polarity=polarity))
    return NewSample(
        task=content["task"],
        title=record.title,
        language=language,
        content={"task": content["task"], **shown, "traps": [], "control": True},
        rubrics=tuple(rubrics),
        prompt=PROMPTS_BY_KIND[content["task"]].label,
    )
