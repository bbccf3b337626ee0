"""Which column of a table is which field of a record: said by a person, guessed from the names.

A mapping is stored with each import, and may be saved under a name.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, StringConstraints

from generation.sources.importers.records import letters

Field = Literal[
    "id", "text", "turns", "question", "answer", "options", "context", "language", "specialty", "licence"
]  # fmt: skip
Constant = Literal["language", "specialty", "licence"]
FIELDS: tuple[Field, ...] = get_args(Field)
CONSTANTS: tuple[Constant, ...] = get_args(Constant)  # may be the same for all records
SEVERAL = ("id", "turns", "options", "context")  # may be in several columns
# Columns of a REDCap export, raw or with labels, that tell the rows of one person apart.
REDCAP_VISIT = (
    "redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance",
    "Event Name", "Repeat Instrument", "Repeat Instance",
)  # fmt: skip
BODIES: tuple[Field, ...] = ("text", "turns", "question")  # one of these is what a record is about
MAX_COLUMNS = 300

_Column = Annotated[str, StringConstraints(min_length=1, max_length=300)]
_Value = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=100)]


class TableMapping(BaseModel):
    """The columns of each field, and the values that are the same for all records."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    columns: dict[Field, tuple[_Column, ...]]
    values: dict[Constant, _Value] = {}

    def column(self, field: Field) -> str:
        """The first column of a field; '' if it has none."""
        return next(iter(self.columns.get(field, ())), "")

    @property
    def fields(self) -> dict[str, Field]:
        """column -> its field."""
        fields: dict[str, Field] = {}
        for field, columns in self.columns.items():
            fields |= dict.fromkeys(columns, field)
        return fields

    @property
    def all_columns(self) -> list[str]:
        return list(chain.from_iterable(self.columns.values()))


# --------------------------------------------------------------------------------------- the guess

# Names of columns as hospitals and annotation tools write them, without case, spaces and signs.
_NAMES: Mapping[Field, str] = {
    "id": "id caseid recordid rowid uid uuid key casenumber caseno patientid promptid externalid nr fallnr fallnummer"
    " fallid patientennummer aktenzeichen identifiant numero 编号 病例编号 病例号 病历号 住院号 序号 رقم رقمالحالة معرف المعرف",
    "text": "text report casereport note notes clinicalnote fullnote case casetext history narrative document body content"
    " befund befundtext bericht arztbrief fallbericht falltext fallbeschreibung anamnese texte rapport informe texto"
    " 文本 正文 内容 病历 病例 病史 报告 病例报告 病历文本 نص النص تقرير التقرير الحالة patient",
    "turns": "turns conversation conversations dialogue dialog messages chat prompt gesprach gespräch dialogue 对话 会话"
    " 医患对话 محادثة المحادثة حوار الحوار",
    "question": "question query frage fragestellung pregunta 问题 题目 提问 سؤال السؤال",
    "answer": "answerkey correctoption correctchoice"
    " answer correctanswer rightanswer longanswer groundtruth goldanswer gold antwort richtigeantwort lösung"
    " respuesta réponse 答案 回答 正确答案 标准答案 جواب الجواب إجابة الإجابة الإجابةالصحيحة answeridx",
    "options": "options choices optionen antwortmöglichkeiten 选项 خيارات الخيارات",
    "context": "context contexts knowledge passage passages abstract background kontext hintergrund 背景 上下文 参考资料"
    " 依据 سياق السياق",
    "language": "language lang sprache langue idioma 语言 语种 لغة اللغة",
    "specialty": "specialty speciality department fachgebiet fachrichtung fachabteilung abteilung spécialité especialidad"
    " 科室 专科 专业 تخصص التخصص القسم",
    "licence": "licence license lizenz 许可 许可证 授权 ترخيص الترخيص",
}


def _fields_by_name() -> dict[str, Field]:
    by_name: dict[str, Field] = {}
    for field, names in _NAMES.items():
        for name in names.split():
            by_name.setdefault(name, field)  # the first field that has the name
    return by_name


_FIELD_OF = _fields_by_name()
_OPTION = re.compile(
    r"(?:option|opt|op|choice|antwort|wahl|选项|خيار|الخيار)?([a-h])|(?:option|choice|选项|خيار)([1-8])"
)
_PATIENT = "user human patient patientin pat prompter client caller 患者 病人 家属 用户 مريض المريض المريضة المستخدم"
_DOCTOR = (
    "assistant doctor physician clinician nurse gpt ai bot model chatbot arzt ärztin dr 医生 医师 大夫 护士 助手 طبيب"
    " الطبيب الطبيبة المساعد"
)
_ROLES = {**dict.fromkeys(_PATIENT.split(), "user"), **dict.fromkeys(_DOCTOR.split(), "assistant")}
IGNORED_SPEAKERS = frozenset({"system", "developer", "tool"})


def role_of(speaker: str) -> str:
    """'user' for a patient, 'assistant' for a doctor or model, by a word in several languages.

    '' if unknown.
    """
    words = re.split(r"[\W_]+", re.sub(r"\d+", " ", speaker.casefold()))
    for word in words:
        if word in _ROLES:
            return _ROLES[word]
    return ""


def guess_field(column: str) -> Field | None:
    """The field that a column's name means; of `data.text`, also the last part tells."""
    return _FIELD_OF.get(letters(column)) or _FIELD_OF.get(letters(column.rpartition(".")[2]))


def option_letter(column: str) -> str:
    """The letter of the option that a column's name means ('opa', 'Option 1'); '' for none."""
    found = _OPTION.fullmatch(letters(column.rpartition(".")[2]))
    if found is None:
        return ""
    return (found[1] or chr(ord("a") + int(found[2]) - 1)).upper()


def guess(columns: Sequence[str], examples: Mapping[str, Sequence[str]]) -> TableMapping:
    """The likeliest mapping of a table with these columns.

    `examples`: the first values of each. Where no name tells, the column of the longest values is
    the text. The first column that means a field is the field's.
    """
    chosen: dict[Field, tuple[str, ...]] = {}
    for column in columns:
        field = guess_field(column)
        if field and (field not in chosen or field == "context"):
            chosen[field] = (*chosen.get(field, ()), column)
    if "id" in chosen:
        chosen["id"] = (*chosen["id"], *_where(columns, REDCAP_VISIT.__contains__))
    options = _where(columns, option_letter)
    if "options" not in chosen and len(options) > 1:
        chosen["options"] = options
    speakers = _where(columns, role_of)
    if "turns" not in chosen and "question" not in chosen and len({role_of(column) for column in speakers}) > 1:
        chosen["turns"] = speakers
    if not {"question", "answer"} <= chosen.keys():
        chosen.pop("question", None)
        chosen.pop("options", None)
        chosen.pop("context", None)
    elif "context" not in chosen and "options" not in chosen and "text" in chosen:
        chosen["context"] = chosen["text"]
    bodies = [field for field in ("question", "turns", "text") if field in chosen]
    if not bodies:
        used = set().union(*chosen.values())
        longest, length = "", -1
        for column in columns:
            longest_value = max(map(len, examples.get(column, ())), default=0)
            if column not in used and longest_value > length:
                longest, length = column, longest_value
        bodies = ["text"]
        if longest:
            chosen["text"] = (longest,)
    unused = {*BODIES} - {bodies[0]}
    if bodies[0] != "question":
        unused.add("answer")
    mapped = {}
    for field in FIELDS:
        if chosen.get(field) and field not in unused:
            mapped[field] = chosen[field]
    return TableMapping(columns=mapped)


def _where(columns: Iterable[str], matches: Callable[[str], Any]) -> tuple[str, ...]:
    return tuple(column for column in columns if matches(column))
