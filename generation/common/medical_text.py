"""Whether two medical texts say the same: the one place that decides by their words.

What changes nothing is ignored: case, width, spacing, punctuation, Unicode's ways of writing one
character, a Greek letter or its name. What changes the meaning is kept: signs, decimals, exponents,
comparisons, directions, ratios, negation, the marks of Indic and Semitic scripts. What cannot be
told is different: a judge or a person then decides.
"""

import html
import unicodedata
from collections.abc import Mapping

import regex

# ------------------------------------------------------------------------------------------- words

_SUPERSCRIPT = regex.compile(r"(\d?)([⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+)")
_HTML_SUPERSCRIPT = regex.compile(r"(\d?)<sup>\s*+([+\-−]?\d*[+\-−]?)\s*+</sup>", regex.IGNORECASE)
_HTML_TAG = regex.compile(r"</?(?:sub|i|b|em|strong|u)>", regex.IGNORECASE)
# As PubMed's abstracts are written in plain text: 10(9), kg/m(2), SpO(2), Ca(2+).
_PLAIN_EXPONENT = regex.compile(r"(?<=(?<![\d.,])10)\(([+\-−]?\d{1,2})\)")
_PLAIN_RAISED = regex.compile(r"(?<=(?<!\p{L})(?:[cdkmnμµ]?m|s|min)|\p{Lu}|(?<!\p{L})\p{Lu}\p{Ll})\((\d[+-]?)\)")
_LATEX_COMMAND = regex.compile(r"\\([A-Za-z]+)")
_LATEX_SIGNS = {
    **dict.fromkeys(("ge", "geq", "geqslant"), "≥"),
    **dict.fromkeys(("le", "leq", "leqslant"), "≤"),
    **dict.fromkeys(("approx", "sim", "simeq"), "~"),
    **dict.fromkeys(("to", "rightarrow"), "→"),
    **dict.fromkeys(("boxed", "mathbf", "mathrm", "text", "textbf"), ""),
    "cdot": "·",
    "circ": "°",
    "downarrow": "↓",
    "leftarrow": "←",
    "pm": "±",
    "times": "×",
    "uparrow": "↑",
    "gt": ">",
    "lt": "<",
    "ne": "≠",
    "neq": "≠",
}
# Markdown's emphasis. Any other asterisk beside a name belongs to it: miR-21* is the other strand,
# CYP2C19*2 and *1/*2 are alleles.
_EMPHASIS = regex.compile(r"(?<![\p{L}\p{N}*])(\*{1,3})(?=[^\s*])([^*\n]*+)(?<=\S)\1(?![\p{L}\p{N}*])")
# Before NFKC, which would make 1½ of '11/2', 38ºC of '38oC', and 0·5 and 0.5 two texts.
_MIXED_FRACTION = regex.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
_MIDDLE_DOT = regex.compile(r"(?<=\d)[·∙⋅](?=\d)")
# A minus before its number ('BE − 4'), unless it is a range or a difference.
_MINUS_BEFORE = regex.compile(r"(?<=\p{L}\s|[(\[=:,;<>≤≥]\s?)−\s++(?=\.?\d)(?<!\d\s?\p{L}{1,4}\s−\s+)")
# A minus by itself behind a word: 'HBsAg −'. A hyphen there may be a dash.
_MINUS_BEHIND = regex.compile(r"(?<=[^\d\s]\s)−(?=\s*+(?:(?!\.\d)[^\s\d]|$))|(?<=[^\d\s]\s)[-–](?=[,;)]|\.(?!\d)|$)")
# Before NFKC, which makes two of ″. A quotation has its mark in front, too.
_PRIME_BEHIND = regex.compile(r"(?<=(?<!['’‘\d.,])\d+)['’](?!\p{L})")
_INCHES_BEHIND = regex.compile(r"(?<=(?<![\"“\d.,])\d+)\"(?!\p{L})")
_DASH_BETWEEN = regex.compile(r"(?<=\d\s?)[—―](?=\s?\d)")
# Of a prefix's letter the size tells: 5 MU are a thousand million 5 mU.
_MEGA = regex.compile(r"(?<=\d\s?)M(?=(?:IU|U|Gy|Sv|Ci|Bq|Hz|Pa|eV|J|W|V)\b)")
_MOLAR = regex.compile(r"(?<=\d\s?[mnpµμ]?)M(?![\p{L}\p{N}])")  # 5 mM are no 5 mm
# Letters by their size: AA, Aa and aa are three genotypes, X^H X^h and X^h X^h two. Not 5 CC, nor a
# Roman numeral.
_GENOTYPE = regex.compile(
    r"(?<![\p{L}\p{N}]|\d\s)(?:(?![cilmvx])(?:(\p{Latin})/?\1)+|X\^?(?!X)\p{L}[\s/]?(?:X\^?\p{L}|Y))(?![\p{L}\p{N}])",
    regex.IGNORECASE,
)
_THOUSANDS_SPACE = regex.compile(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3}(?!\d))")
_SPACES = regex.compile(r"\s{2,}+")
_SIGNS = str.maketrans(
    {
        **dict.fromkeys("−‐‑‒–", "-"),
        **dict.fromkeys("—―", " "),
        **dict.fromkeys("≧⩾", "≥"),
        **dict.fromkeys("≦⩽", "≤"),
        **dict.fromkeys("º˚", "°"),
        **dict.fromkeys("®©™", " "),
        **dict.fromkeys("⇑⬆", "↑"),
        **dict.fromkeys("⇓⬇", "↓"),
        **dict.fromkeys("≈≃≅〜", "~"),
        **dict.fromkeys("⇒⟶", "→"),
        **dict.fromkeys("٪", "%"),
        "٫": ".",
        "∆": "Δ",
        **dict.fromkeys("ΩΩ", "ohm"),
        "×": "x",
        "∶": ":",
        "⁄": "/",
        "∼": "~",
        "’": "'",
    }
)
# A unit that both ends of a range may carry: 5%-10%, 2 days to 4 weeks.
_UNIT = (
    r"(?:[%‰°]|[cf]|[kcmμnpd]?(?:g|l|m|mol|eq|i?u)(?:/\p{L}{1,4}){0,2}|mmhg|s|min|h"
    r"|(?:hour|day|week|month|year)s?|[岁天周月年])"
)
_TO = r"(?:-|~|\bto\b|至)"
# What may be the end of a range though it is no number: months, days, the first letters.
_MONTHS = (
    "jan|january|feb|february|mar|march|apr|april|may|jun|june|jul|july|aug|august|sep|sept|september|oct|october"
    "|nov|november|dec|december"
)
_DAYS = (
    "mo|mon|monday|tu|tue|tues|tuesday|we|wed|wednesday|th|thu|thur|thurs|thursday|fr|fri|friday|sa|sat|saturday"
    "|su|sun|sunday"
)
_ASIAN = "sea|fil|thai|med"  # deletions of both α genes: --SEA/αα
_GLOBIN = rf"α[\d.]{{0,4}}|(?:--|deleted )(?:{_ASIAN}|α[\d.]{{0,4}})?"
_RESPELLED = (
    (regex.compile(r"\p{Cf}+"), ""),  # soft hyphens, marks of direction
    # Genes that are missing: -α/αα is no αα/αα.
    (regex.compile(rf"(?<![\p{{L}}\p{{N}}])-(?=α[\d.]{{0,4}}/[α-])|(?<=(?:{_GLOBIN})/)-(?=α)"), "deleted "),
    (regex.compile(rf"(?<![\p{{L}}\p{{N}}-])--(?=(?:{_ASIAN})?/[α-])|(?<=(?:{_GLOBIN})/)--"), "both deleted "),
    (regex.compile(r"-\s*+/\s*+-(?![\p{L}\p{N}])"), " both deleted "),  # p53-/-
    (regex.compile(r"-{1,2}>"), " → "),
    (regex.compile(r"-{2,}"), " "),
    (regex.compile(r">=|=>|>\s*+(?:/|or)\s*+="), "≥"),
    (regex.compile(r"<=|=<|<\s*+(?:/|or)\s*+="), "≤"),
    (regex.compile(r"!="), "≠"),
    (regex.compile(r"\+\s*/\s*-"), "±"),
    (regex.compile(r"(?<=\d)\*\*(?=-?\d)"), "^"),
    (regex.compile(r"(?<=(?<![\p{L}\p{N}-])[\d.,]+)\s*+\*\s*+(?=\d)"), " x "),
    (regex.compile(r"\^\{\s*([+-]?\d+)\s*\}"), r"^\1"),
    (regex.compile(r"\(\s*([+-])\s*\)"), r"(\1)"),
    (regex.compile(r"(?<=\d)[\s-]?(?:\(oh\)|oh)[\s-]?(?=\d?d\d?\b)"), " oh "),  # 25(OH)D, 25-OHD
    (regex.compile(r"(?<=\d)\s++:\s++(?=\d)"), ":"),
    (regex.compile(r"([+-])ve\b"), r"\1 "),
    (regex.compile(r"&"), " and "),
    (regex.compile(r"(?<=\d)\s*+deg\b"), "°"),
    (regex.compile(r"°\s*+(?=[cf]\b)"), " "),  # 38 °C is 38 C, but 30° is not 30
    (regex.compile(r"(?<=\p{L})\^(?=\d)"), ""),  # mm^3
    (regex.compile(r"\b(\d{4})/(\d{1,2})/(?=\d{1,2}\b)"), r"\1-\2-"),
    # L4-L5 and L4-5 are one range; L4, L5 is none.
    (regex.compile(r"\b([a-z])(\d{1,2})\s*+(?:-|\bto\b)\s*+\1?(?=\d)"), r"\1\2 … \1"),
    (regex.compile(r"\b([a-z]\d{1,2})\s*+(?:-|\bto\b)\s*+(?=[a-z]\d)"), r"\1 … "),
    # 1,5 mg; but 1,3 may be two numbers.
    (regex.compile(rf"(?<![\d.,])(\d+),(?=\d{{1,2}}(?:\s?{_TO}\s?\d+,\d{{1,2}})?\s?{_UNIT}(?!\p{{L}}))"), r"\1."),
    # A range, which is no sign: 5-10, 5 – 10, 5 to 10.
    (regex.compile(rf"(?<=\d)\s*+{_TO}\s*+(?=[+-]?\.?\d)"), " … "),
    # 5%-10% is 5-10%; the ends may have units of their own.
    (regex.compile(rf"(?<=\d)\s*+({_UNIT})\s*+{_TO}\s*+([+-]?\.?\d[\d.,]*+)(?=\s*+\1(?![\p{{L}}/]))"), r" … \2"),
    (regex.compile(rf"(?<=\d\s?{_UNIT})\s*+{_TO}\s*+(?=[+-]?\.?\d)"), " … "),
    (regex.compile(r"\b([ivx]+[a-c]?)\s*+(?:-|\bto\b)\s*+(?=[ivx]+[a-c]?\b)"), r"\1 … "),  # stage I-III
    (regex.compile(rf"\b({_MONTHS})\.?\s*+{_TO}\s*+(?=(?:{_MONTHS})\b)"), r"\1 … "),
    (regex.compile(rf"(?<=\b\d{{4}})\s*+{_TO}\s*+(?=(?:{_MONTHS})\b)"), " … "),
    (regex.compile(rf"\b({_MONTHS})\.?\s*+{_TO}\s*+(?=\d{{1,2}}\.? (?:{_MONTHS})\b)"), r"\1 … "),
    (regex.compile(rf"\b({_DAYS})\.?\s*+{_TO}\s*+(?=(?:{_DAYS})\b)"), r"\1 … "),
    (regex.compile(rf"\b([a-g])\s*+{_TO}\s*+(?=[b-h]\b)"), r"\1 … "),
    # Day 1 - day 5.
    (regex.compile(rf"\b(\p{{L}}{{3,12}}) ([\p{{L}}\d]{{1,4}})\s*+{_TO}\s*+(?=\1 [\p{{L}}\d])"), r"\1 \2 … "),
    (regex.compile(rf"(?<=(?:周|星期|礼拜)[一二三四五六])\s*+{_TO}\s*+(?=\p{{Han}})"), " … "),
    (regex.compile(r"(?<=\d)e(?=[+-]?\d)"), " x 10^"),
    (regex.compile(r"(?<=\^)\+"), ""),
    (regex.compile(r"(?<=\d)\s*+x\s*+(?=\d)"), " x "),
    (regex.compile(r"(?<=\p{L})\+\+(?!\+)"), "2+"),  # Ca++
    (regex.compile(r"(?<!\p{L})mm hg\b"), "mmhg"),
    (regex.compile(r"\b(?:cannot|can't)\b"), "can not"),
    (regex.compile(r"\bwon't\b"), "will not"),
    (regex.compile(r"n't\b"), " not"),
)
# b.i.d., I.V, p.o.
_DOTTED = regex.compile(r"(?<![\p{L}\p{N}.])(?:\p{Latin}\.)+\p{Latin}\b\.?")
_GREEK = {
    unicodedata.lookup(f"GREEK SMALL LETTER {name.upper()}"): f" {name} "
    for name in (
        *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lamda", "mu", "nu"),
        *("xi", "omicron", "pi", "rho", "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
    )
} | {"λ": " lambda "}
# A letter by itself: not one of a Greek word, nor the μ of a unit.
_GREEK_LETTER = regex.compile(
    r"(?:(?<=[\p{L}\p{N}])-)?+(?<!\p{Greek})(?!μ[a-z])(\p{Greek})(?!\p{Greek}|\p{M})(?:-(?=[\p{L}\p{N}]))?+"
)
_GREEK_NAME = regex.compile(r"\b(alpha|beta|gamma|delta|epsilon|kappa|lambda|chi|omega)(?=\d)")
_SPACELESS = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tibetan}ー"
# What stands before a character is looked for behind it: else every character would look back.
_WORD = regex.compile(
    rf"""
      \^[+-]?\d+                                                              # an exponent
    | (?:(?<![\p{{Latin}}\p{{Greek}}\p{{Cyrillic}}\p{{N}})\]%+-])[+-])?+      # a number with its sign
      (?:\d+(?:[.,]\d+)*+|(?<!\w)\.\d+)
    | [%‰…′] | (?![$^`|=])\p{{S}}                                            # any sign, known or not
    | (?<=[\p{{L}}\p{{N}})(])-(?![\p{{L}}\p{{N}}])                            # a sign behind: HBsAg-
    | (?<=\S\s)-(?=\s\.?\d)                                                 # a dash or a minus: BE - 4
    | / | (?<=\d):(?=\d)
    | \*(?<=(?<![\p{{L}}\p{{N}}])\p{{L}}[\p{{L}}\p{{N}}-]*\p{{N}}\p{{L}}*\*)(?![\p{{L}}\p{{N}}*])  # behind a name: miR-21*
    | \*(?<!(?:(?<![\p{{L}}\p{{N}}-])[\d.,]+\s?|\*)\*)(?=\d)                  # an allele: HLA-B*27, *1/*2
    | (?<![\p{{L}}\p{{N}}#])\#(?=[\p{{L}}\p{{N}}])                            # a number or a fracture: #3, #NOF
    | !(?<=(?<![\p{{L}}\p{{N}}.,])\d+!)(?![\p{{L}}\p{{N}}!])                  # a factorial: 3!
    | [{_SPACELESS}]\p{{M}}*+
    | \p{{L}}(?:(?![{_SPACELESS}])[\p{{L}}\p{{M}}\p{{N}}])*+
    """,
    regex.VERBOSE,
)
_GROUPED = regex.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?")
_DECIMAL_COMMA = regex.compile(r"[+-]?0,\d+")
# May be a number in groups, as in 1.500 for 1,500.
_POINT_OR_GROUP = regex.compile(r"[1-9]\d{0,2}\.\d{3}")
_OTHER_DIGIT = regex.compile(r"(?![0-9])\p{Nd}")
_UNIT_SPELLINGS = {"mcg": "μg", "ug": "μg", "ul": "μl", "umol": "μmol", "um": "μm", "microg": "μg"}


def words(text: str) -> list[str]:
    """The words, numbers and telling signs of a text, each in one spelling.

    A number has its sign and decimals ('-2.5', '1000' for 1,000), an exponent is one word ('^9'), a
    unit another ('5mg' is two words), and so is each character of a script without spaces. '…'
    stands between the ends of a range.
    """
    if "&" in text:
        text = html.unescape(text)
    text = _HTML_SUPERSCRIPT.sub(_raised, text)
    text = _HTML_TAG.sub("", text)
    text = _EMPHASIS.sub(r"\2", text)
    text = _LATEX_COMMAND.sub(_latex_sign, text)
    text = _PLAIN_EXPONENT.sub(r"^\1", text)
    text = _PLAIN_RAISED.sub(r"\1", text)
    text = _SUPERSCRIPT.sub(_raised, text)
    text = _MIXED_FRACTION.sub(" ", text)
    text = _MIDDLE_DOT.sub(".", text)
    text = _THOUSANDS_SPACE.sub("", text)
    text = _SPACES.sub(" ", text)
    text = _MINUS_BEFORE.sub("-", text)
    text = _MINUS_BEHIND.sub("(-)", text)
    text = _PRIME_BEHIND.sub("′", text)
    text = _INCHES_BEHIND.sub("″", text)
    text = _GENOTYPE.sub(_alleles, text)
    text = _DASH_BETWEEN.sub("-", text)
    text = _MEGA.sub("mega", text)
    text = _MOLAR.sub("molar", text)
    text = text.translate(_SIGNS)
    text = unicodedata.normalize("NFKC", text).casefold().translate(_SIGNS)
    for pattern, spelling in _RESPELLED:
        text = pattern.sub(spelling, text)
    text = _DOTTED.sub(lambda letters: letters[0].replace(".", ""), text)
    text = _OTHER_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), text)
    text = _GREEK_LETTER.sub(lambda match: _GREEK.get(match[1], match[0]), text)
    text = _GREEK_NAME.sub(r"\1 ", text)
    return [_spelled(word) for word in _WORD.findall(text)]


def _alleles(genotype: "regex.Match[str]") -> str:
    """The letters of a genotype, each with what its size says."""
    named = ""
    for letter in unicodedata.normalize("NFKC", genotype[0]):
        if not letter.isalpha():
            continue
        if letter.isupper():
            named += f" dominant {letter}"
        else:
            named += f" recessive {letter}"
    return f"{named} "


def _latex_sign(command: "regex.Match[str]") -> str:
    """The sign that a command of LaTeX writes; its name if it is none: alpha."""
    name: str = command[1]
    return _LATEX_SIGNS.get(name, name)


def _raised(match: "regex.Match[str]") -> str:
    """A superscript: an exponent behind a digit, else what is written on the line (m2, Na+)."""
    digit, raised = match[1], unicodedata.normalize("NFKC", match[2])
    is_exponent = digit and raised.strip("+-−")
    if is_exponent:
        return f"{digit}^{raised} "
    return f"{digit}{raised} "


def _spelled(word: str) -> str:
    """A word as numbers and units are written here."""
    if not word[-1].isdecimal() or word[0] == "^" or not _is_number(word):
        return _UNIT_SPELLINGS.get(word, word)
    if _GROUPED.fullmatch(word):
        word = word.replace(",", "")
    elif _DECIMAL_COMMA.fullmatch(word):
        word = word.replace(",", ".")
    sign = ""
    if word[0] in "+-":
        sign = word[0]
    number = word.removeprefix(sign)
    if number.count(".") == 1 and "," not in number and not _POINT_OR_GROUP.fullmatch(number):
        number = number.rstrip("0").rstrip(".")
    if number.startswith(".") or not number:
        return f"{sign}0{number}"
    return sign + number


def _is_number(word: str) -> bool:
    return word.lstrip("+-.")[:1].isdecimal()


def numbers(text: str) -> list[str]:
    """The numbers among the `words` of a text, exponents included."""
    return [word for word in words(text) if word[0] == "^" or _is_number(word)]


def text_key(text: str) -> str:
    """The `words` of a text as one string, the same for texts that say the same."""
    return " ".join(words(text)) or text.strip()


def contains_text(text: str, part: str) -> bool:
    """Whether the `words` of a part, one at least, follow one another in a text."""
    wanted = " ".join(words(part))
    return bool(wanted) and f" {wanted} " in f" {' '.join(words(text))} "


def is_same_text(first: str, second: str) -> bool:
    """Whether two texts have the same `words`; False if they have none."""
    known = words(first)
    return bool(known) and known == words(second)


# ----------------------------------------------------------------------------------------- answers

# No 'A' that names something: hepatitis A, group A streptococci.
_ARTICLE = regex.compile(r"^\W*+A\s+(?=\p{Ll}{2})|\b(?:the|The|THE|an|An|a)\s+(?=\w)")
_QUESTION_MARK = regex.compile("[?？]")
_LEAD_IN = frozenset(
    {"answer", "correct", "final", "is", "it", "this", "that", "are", "would", "be", "option", "choice"}
)
_ALSO_SAID = {
    "≥": (
        *("greater than or equal to", "at least", "no less than", "not less than", "no fewer than", "not fewer than"),
        *("大 于 等 于", "不 少 于", "不 小 于", "不 低 于", "至 少"),
    ),
    "≤": (
        *("less than or equal to", "at most", "no more than", "not more than", "no greater than", "not greater than"),
        *("小 于 等 于", "不 多 于", "不 大 于", "不 高 于", "不 超 过", "至 多"),
    ),
    ">": ("more than", "greater than", "above", "多 于", "大 于", "高 于", "超 过"),
    "<": ("less than", "fewer than", "below", "少 于", "小 于", "低 于"),
    "~": ("approximately", "about"),
    "±": ("plus or minus",),
    "+": ("positive", "阳 性"),
    "-": ("negative", "阴 性"),
    "↑": ("increased", "elevated"),
    "↓": ("decreased",),
    "%": ("percent", "per cent"),
    "μg": ("微 克",),
    "mg": ("毫 克",),
    "ml": ("毫 升",),
    "/": ("per",),
    "qd": ("once daily", "once day", "每 日 1 次", "每 天 1 次", "1 日 1 次", "1 天 1 次"),
    "bid": (
        *("twice daily", "twice day", "2 times daily", "2 times day"),
        *("每 日 2 次", "每 天 2 次", "1 日 2 次", "1 天 2 次"),
    ),
    "tid": ("3 times daily", "3 times day", "每 日 3 次", "每 天 3 次", "1 日 3 次", "1 天 3 次"),
    "qid": ("4 times daily", "4 times day", "每 日 4 次", "每 天 4 次", "1 日 4 次", "1 天 4 次"),
    "daily": ("/ day", "per day", "every day"),
    "po": ("orally", "by mouth"),
    "iv": ("intravenous", "intravenously"),
    "im": ("intramuscular", "intramuscularly"),
    "sc": ("subcutaneous", "subcutaneously"),
    "cn": ("cranial nerve",),
}
_ORDINALS = {"first": "1 st", "second": "2 nd", "third": "3 rd"}
for _number, _name in enumerate(("fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh"), 4):
    _ORDINALS[_name] = f"{_number} th"
_SAID_IN_WORDS: list[tuple[str, str]] = []
for _sign, _phrases in _ALSO_SAID.items():
    _SAID_IN_WORDS += [(phrase, _sign) for phrase in _phrases]
for _number, (_ordinal, _short) in enumerate(_ORDINALS.items(), 1):
    _nerve = f"cn {_number}"
    _SAID_IN_WORDS += [(f"{_ordinal} cranial nerve", _nerve), (f"{_short} cranial nerve", _nerve), (_short, _ordinal)]
_SAID_IN_WORDS.sort(key=lambda said: len(said[0]), reverse=True)  # longer phrases before those that they contain
_NUMERALS = (
    *("zero", "one 一", "two 二 两", "three 三", "four 四", "five 五", "six 六", "seven 七", "eight 八", "nine 九"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
    "twenty",
)
_NUMBER_WORDS: dict[str, str] = {}
for _number, _names in enumerate(_NUMERALS):
    _NUMBER_WORDS |= dict.fromkeys(_names.split(), str(_number))
# What is numbered in Roman and in Arabic numerals alike: stage II, II期, cranial nerve III.
_NUMBERED = frozenset(
    {"angiotensin", "asa", "bethesda", "class", "cn", "degree", "factor", "grade", "harris", "lead", "men", "mobitz"}
    | {"nerve", "nyha", "phase", "rads", "stage", "type"}
)
_NUMBERED_BEHIND = frozenset("期级型度")
_ROMAN_NUMERALS = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii", "xiii")
_ROMAN: dict[str, str] = {}
for _number, _numeral in enumerate(_ROMAN_NUMERALS, 1):
    _ROMAN[_numeral] = str(_number)
    for _part in "abc":
        _ROMAN[f"{_numeral}{_part}"] = f"{_number} {_part}"  # stage IIIA
# What a unit is also called behind a number.
_UNITS = {
    **dict.fromkeys(("gram", "grams", "gm", "gms"), "g"),
    **dict.fromkeys(("milligram", "milligrams", "mgs"), "mg"),
    **dict.fromkeys(("microgram", "micrograms"), "μg"),
    **dict.fromkeys(("kilogram", "kilograms", "kgs"), "kg"),
    **dict.fromkeys(("liter", "liters", "litre", "litres"), "l"),
    **dict.fromkeys(("milliliter", "milliliters", "millilitre", "millilitres", "mls"), "ml"),
    **dict.fromkeys(("hour", "hours", "hr", "hrs"), "h"),
    **dict.fromkeys(("minute", "minutes", "mins"), "min"),
    **dict.fromkeys(("second", "seconds", "sec", "secs"), "s"),
    "cc": "ml",
    "days": "day",
    **dict.fromkeys(("degree", "degrees"), "°"),
    **dict.fromkeys(("weeks", "wk", "wks"), "week"),
    **dict.fromkeys(("months", "mo", "mos"), "month"),
    **dict.fromkeys(("years", "yr", "yrs"), "year"),
}
_NUMBERED_NAME = regex.compile(r"\b(\p{Lu}{2,5}|[Vv]itamin \p{Lu})-?(?=\d{1,3}\b)")  # IL-6, IL6
_POSSESSIVE = regex.compile(r"['’]s\b")  # Crohn's disease
_REWORDED = (
    (regex.compile(r"\bbetween (\d\S*) and (?=\d)"), r"\1 … "),
    (regex.compile(r"(?<=[ …])(\d\S*(?: \S+)?) or (?:more|greater|above|higher|older|>)(?= )"), r"≥ \1"),
    (regex.compile(r"(?<=[ …])(\d\S*(?: \S+)?) or (?:less|fewer|below|lower|younger|<)(?= )"), r"≤ \1"),
    (regex.compile(r"\bq(\d+)h\b"), r"every \1 h"),
    (regex.compile(r"\bminus (?=\d)"), "-"),
    (
        regex.compile(
            r"\b(january|february|march|april|may|june|july|august|september|october|november|december)"
            r" (\d{1,2})(?= \d{4} )"
        ),
        r"\2 \1",
    ),
)
# '不确定' is 'not sure'.
_POLAR = regex.compile(
    r"\W*+(?:(?P<yes>yes|[是有对]的?)|(?P<no>no|否|不是的?|不|没有?|无))(?![\p{L}\p{N}\p{M}])(?!\s*+/|\.?\s*+\d)",
    regex.IGNORECASE,
)
# What only assures: 'Yes, definitely; no doubt'. Whether 'No abnormality' or 'Yes, absent' is a yes
# or a no, the question decides, which is not known here.
_ASSURING = regex.compile(
    r"(?:(?:no|without(?: a)?) doubt|of course|definitely|certainly|absolutely|clearly|indeed"
    r"|(?:it|there|that)(?: is|['’]s| does| has)(?: correct| right)?|[\W_])*+",
    regex.IGNORECASE,
)
_DENYING = regex.compile(
    r"(?:definitely|certainly|absolutely|clearly"
    r"|(?:it|there|that)(?: is| does| has)(?:n['’]t| not| none)|(?:no|without(?: a)?) doubt|[\W_])*+",
    regex.IGNORECASE,
)


def is_same_answer(given: str, true: str) -> bool:
    """Whether a given answer says what the true one says, to be sure of it without a judge.

    Beyond `is_same_text`, an answer may begin with 'the answer is', and write numbers, units and
    comparisons in words. Nothing may be added or missing: neither 'no fracture' nor 'hip fracture'
    is 'fracture'. A true answer yes or no is given by that word and what only assures it.
    'Fracture?' asks.
    """
    if _QUESTION_MARK.search(given) and not _QUESTION_MARK.search(true):
        return False
    if is_same_text(given, true):
        return True
    given_words, true_words = _content(given), _content(true)
    if not given_words or not true_words:
        return False
    if given_words == true_words:
        return True
    polarity = _polarity(true)
    is_polar = polarity is not None and regex.fullmatch(r"\W*\w+\W*", true)
    return bool(is_polar) and polarity == _polarity(given)


def _content(answer: str) -> list[str]:
    """The words of an answer in one wording, without articles and what introduces it."""
    answer = _POSSESSIVE.sub("", _ARTICLE.sub("", answer))
    kept = words(_NUMBERED_NAME.sub(r"\1 ", answer))
    while len(kept) > 1 and kept[0] in _LEAD_IN:
        del kept[0]
    wording = f" {' '.join(_NUMBER_WORDS.get(word, word) for word in kept)} "
    wording = wording.replace("ae", "e").replace("oe", "e")  # anaemia, oedema
    for phrase, sign in _SAID_IN_WORDS:
        wording = wording.replace(f" {phrase} ", f" {sign} ".replace("  ", " "))
    for pattern, spelling in _REWORDED:
        wording = pattern.sub(spelling, wording)
    said = wording.split()
    content: list[str] = []
    for word, following in zip(said, [*said, ""][1:], strict=True):
        before = ""
        if content:
            before = content[-1]
        if before and _is_number(before):
            word = _UNITS.get(word, word)
        elif before in _NUMBERED or following in _NUMBERED_BEHIND:
            word = _ROMAN.get(word, word)
        content += word.split()
    return content


def _polarity(answer: str) -> bool | None:
    """True for an answer that is yes and nothing else, False for no; None for any other."""
    match = _POLAR.match(answer)
    if match is None:
        return None
    is_yes = match["yes"] is not None
    rest = answer[match.end() :]
    if is_yes and _ASSURING.fullmatch(rest):
        return True
    if not is_yes and _DENYING.fullmatch(rest):
        return False
    return None


_LETTER = regex.compile(
    r"^\W*+(?:(?:the\s+)?(?:correct\s+|final\s+|right\s+)?(?:answer|option|choice)(?:\s+is)?|选项?|答案[是为]?)?"
    r"(?:\s*+[:：])?\s*+(?:option\s+)?([\"'*(\[]*+)([A-Za-z])(?![\p{L}\p{N}\p{M}'’])\s*+([)\].:,、\"'*]*+)\s*+(?:[-–—]\s++)?",
    regex.IGNORECASE,
)


# Behind an option's text: 'A. Fluid is wrong'.
_TAKEN_BACK = frozenset({"not", "incorrect", "wrong", "false", "unlikely", "but", "however", "or"})


def chosen_letter(answer: str, options: Mapping[str, str]) -> str:
    """The letter of the option that an answer chooses for certain; '' if that cannot be told.

    An answer is an option's text; or its letter by itself, or before that text ('B. Fluid'). 'A
    fracture' is no letter, nor is the name in 'E. coli'. A letter before the text of another option
    chooses neither.

    Args:
        options: the options' texts by their capital letters.
    """
    by_text = [letter for letter, text in options.items() if is_same_text(answer, text)]
    if len(by_text) > 1:
        by_text = [letter for letter in by_text if options[letter].strip() == answer.strip()]
    match = _LETTER.match(unicodedata.normalize("NFKC", answer))
    letter = ""
    if match:
        letter = match[2].upper()
    if match is None or letter not in options:
        if len(by_text) == 1:
            return by_text[0]
        return ""
    rest = words(unicodedata.normalize("NFKC", answer)[match.end() :])
    if by_text:  # the letter is the text's first word, or the options are letters in another order
        if len(by_text) == 1 and (rest or by_text == [letter]):
            return by_text[0]
        return ""
    if not rest:
        return letter
    begun = [known for known, text in options.items() if rest[: len(words(text))] == words(text)]
    longest = max(begun, key=lambda known: len(words(options[known])), default="")
    if letter != longest or _TAKEN_BACK.intersection(rest[len(words(options[letter])) :]):
        return ""
    return letter
