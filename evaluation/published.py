"""A paper's tables and figures: their layout, and the numbers that they print.

A benchmark's `published_results.json` has them. Reports and leaderboards fill the layout with the
numbers of their own models and show them beside the published ones.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from evaluation.numbers.averages import mean

# What a column shows: a rate; the mean of a score, or the number of answers that have it; the share
# of a model's errors that lie in the column's data set or facet value; of a contrast, the gain and
# the shares of answers fixed and broken; or of the samples of a facet value, whatever the models,
# the share that also has the facet `name`, written FACET=VALUE, or their number, or their share of
# all samples (without a facet: of the task `value`; the number of all, without one); of all drafts
# of the release's batches, the recipe's share `name` of `value`; or what only the paper has.
Measure = Literal[
    "rate", "score", "scored", "errors", "gain", "fixed", "broken", "samples", "count", "share", "drafts", "printed"
]


@dataclass(frozen=True, slots=True)
class PaperColumn:
    """A column: what of a report it shows. `group` is a heading over several columns.

    `name`: of the rate or the score. `dataset`: '' for all together; of a contrast, its first.
    `facet` and `value`: only that part. Numbers are printed times `scale`, with `digits` decimals.
    """

    heading: str
    name: str = ""
    dataset: str = ""
    group: str = ""
    measure: Measure = "rate"
    facet: str = ""
    value: str = ""
    scale: float = 1.0
    digits: int = 2

    @property
    def label(self) -> str:
        """The heading, below that of its group."""
        if self.group:
            return f"{self.group}: {self.heading}"
        return self.heading

    def text(self, value: float | None) -> str:
        """A number as the paper prints it."""
        if value is None:
            return "–"
        return f"{value * self.scale:,.{self.digits}f}"


@dataclass(frozen=True, slots=True)
class PublishedGroup:
    """Models that a paper groups, such as general and medical ones.

    `words`: a model of one's own belongs to the first group of which its name contains a word; to
    the first group without words if there is none.
    """

    label: str
    words: tuple[str, ...] = ()

    def has_word_of(self, model: str) -> bool:
        return any(word in model.casefold() for word in self.words)


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A model's printed numbers, as the paper prints them; None for those it does not print.

    `group`: the label of its group. `mean`: it is the mean of a group or of all models.
    """

    model: str
    values: tuple[float | None, ...]
    group: str = ""
    mean: bool = False


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A table or figure: where it is in the paper, its columns, and its printed rows.

    `means`: whether the table has the mean of each group. `drawn`: how pages draw it, as the paper
    does, if they do; its numbers are shares then. A radar has a spoke for each column of a group
    and a shape for each model. `note`: what a reader has to know to compare; where the
    numbers are not the table's own, where they are from.
    """

    name: str
    title: str
    place: str
    columns: tuple[PaperColumn, ...]
    rows: tuple[PublishedRow, ...] = ()
    groups: tuple[PublishedGroup, ...] = ()
    means: bool = False
    drawn: Literal["", "bars", "radar"] = ""
    note: str = ""

    @property
    def labels(self) -> list[str]:
        """The labels of its columns."""
        return [column.label for column in self.columns]

    def group_of(self, model: str) -> str:
        """The label of the group to which a model of one's own belongs; '' without groups."""
        for group in self.groups:
            if group.has_word_of(model):
                return group.label
        for group in self.groups:
            if not group.words:
                return group.label
        return ""

    def cut_to(self, places: Sequence[int]) -> "PublishedTable":
        """The table with the columns at these places alone, and the rows that print any of them."""
        columns = tuple(self.columns[place] for place in places)
        rows = []
        for row in self.rows:
            values = tuple(row.values[place] for place in places)
            if has_number(values):
                rows.append(replace(row, values=values))
        return replace(self, columns=columns, rows=tuple(rows))


@dataclass(frozen=True, slots=True)
class FilledRow:
    """A row beside the published ones. `published`: the paper's; otherwise one's own.

    `values`: its numbers, unscaled; `cells`: as they are printed.
    """

    model: str
    group: str
    values: tuple[float | None, ...]
    cells: tuple[str, ...]
    published: bool
    mean: bool = False


@dataclass(frozen=True, slots=True)
class FilledTable:
    """A published table with one's own rows."""

    table: PublishedTable
    rows: tuple[FilledRow, ...] = field(default=())


def has_number(values: Sequence[float | None]) -> bool:
    """Whether any of these is a number."""
    return values.count(None) < len(values)


def filled(table: PublishedTable, own: Mapping[str, Sequence[float | None]]) -> FilledTable:
    """The table with rows of one's own: model -> a number for each column, unscaled.

    Rows are in the order of the groups; in each, the paper's come first, then one's own,
    then means.
    """
    rows = [_published(table, row) for row in table.rows]
    members: dict[str, list[Sequence[float | None]]] = defaultdict(list)  # by group
    for model, values in own.items():
        group = table.group_of(model)
        members[group].append(values)
        rows.append(_own(table, model, group, values))
    order = [group.label for group in table.groups]
    if table.means:
        for group in order or [""]:
            if len(members[group]) > 1 or (members[group] and table.groups):
                means = [mean(column) for column in zip(*members[group], strict=True)]
                rows.append(_own(table, "mean", group, means, mean=True))

    def place(row: FilledRow) -> tuple[int, bool, bool]:
        place_of_group = len(order)
        if row.group in order:
            place_of_group = order.index(row.group)
        return place_of_group, row.mean, not row.published

    return FilledTable(table, tuple(sorted(rows, key=place)))


def _published(table: PublishedTable, row: PublishedRow) -> FilledRow:
    cells: list[str] = []
    values: list[float | None] = []
    for column, value in zip(table.columns, row.values, strict=True):
        if value is None:
            cells.append("–")
            values.append(None)
        else:
            cells.append(f"{value:,.{column.digits}f}")
            values.append(value / column.scale)
    return FilledRow(row.model, row.group, tuple(values), tuple(cells), published=True, mean=row.mean)


def _own(
    table: PublishedTable, model: str, group: str, values: Sequence[float | None], *, mean: bool = False
) -> FilledRow:
    cells = tuple(column.text(value) for column, value in zip(table.columns, values, strict=True))
    return FilledRow(model, group, tuple(values), cells, published=False, mean=mean)
