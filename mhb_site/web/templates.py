"""Templates as Django reads them, prepared for being rendered often: what is constant is put together, values are found faster.

A page of the workbench has a hundred translated texts, twenty static files and thirty addresses that are the same on every
page of its language, and looks up five hundred values. Only what depends on nothing but the language is kept: no value of a
context, so nothing of a reader or of a case. Whatever is not plain is left to Django's own nodes.
"""

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from django.template import Node, NodeList, Template
from django.template.base import FilterExpression, TextNode, Variable, VariableNode, render_value_in_context
from django.template.context import Context
from django.template.defaulttags import ForNode, IfNode, TemplateLiteral, URLNode, WithNode
from django.template.library import InclusionNode, SimpleNode
from django.template.loader_tags import BLOCK_CONTEXT_KEY, BlockContext, BlockNode, ExtendsNode, IncludeNode
from django.template.loaders import cached
from django.template.smartif import TokenBase
from django.templatetags.i18n import BlockTranslateNode, TranslateNode
from django.templatetags.static import StaticNode
from django.urls import NoReverseMatch, reverse
from django.urls.converters import get_converters
from django.utils.functional import SimpleLazyObject, empty
from django.utils.safestring import SafeString
from django.utils.translation import get_language
from django_htmx.templatetags.django_htmx import htmx_script


class Loader(cached.Loader):
    """Django's, which keeps each template for the life of the process."""

    def get_template(self, template_name: str, skip: list[Any] | None = None) -> Template:
        """The template, prepared when it is read for the first time."""
        fresh = self.cache_key(template_name, skip) not in self.get_template_cache
        template: Template = super().get_template(template_name, skip)
        if fresh:
            prepare(template.nodelist)
        return template


class Constant(Node):
    """Neighbouring nodes whose text depends on nothing but the language."""

    child_nodelists = ()

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.texts: dict[str | None, SafeString] = {}  # one a language

    def render(self, context: Context) -> SafeString:
        language = get_language()
        text = self.texts.get(language)
        if text is None:
            text = SafeString("".join([str(node.render_annotated(context)) for node in self.nodes]))
            self.texts[language] = text
        return text


class Named(Node):
    """A constant text that the template keeps under a name: `{% translate "Note" as label %}`."""

    child_nodelists = ()

    def __init__(self, node: TranslateNode) -> None:
        self.node = node
        self.name = str(node.asvar)
        self.texts: dict[str | None, Any] = {}

    def render(self, context: Context) -> str:
        language = get_language()
        if language not in self.texts:
            self.node.render(context)
            self.texts[language] = context[self.name]
        context[self.name] = self.texts[language]
        return ""


_ELSEWHERE = object()  # a value that Django has to find


class Lookup:
    """`a.b.c` of a context, in place of the expression that says so."""

    def __init__(self, expression: FilterExpression | Variable, name: str, *bits: str) -> None:
        self.expression = expression
        self.name, self.bits = name, bits

    def resolve(self, context: Context, ignore_failures: bool = False) -> Any:
        """As Django's: keys of dictionaries and attributes of objects here, all else there."""
        for names in reversed(context.dicts):
            if self.name in names:
                value = names[self.name]
                break
        else:
            if ignore_failures and not hasattr(context, self.name):
                return None
            return self._elsewhere(context, ignore_failures)
        for bit in self.bits:
            if type(value) is SimpleLazyObject:  # the reader
                if value._wrapped is empty:
                    value._setup()
                value = value._wrapped
            if type(value) is dict:
                value = value.get(bit, _ELSEWHERE)
            elif callable(value) or hasattr(type(value), "__getitem__"):
                value = _ELSEWHERE
            else:
                if value is None and ignore_failures:
                    return None
                value = getattr(value, bit, _ELSEWHERE)
            if value is _ELSEWHERE:
                return self._elsewhere(context, ignore_failures)
        return self._elsewhere(context, ignore_failures) if callable(value) else value

    def _elsewhere(self, context: Context, ignore_failures: bool) -> Any:
        if isinstance(self.expression, Variable):
            return self.expression.resolve(context)
        return self.expression.resolve(context, ignore_failures)


class Value(VariableNode):
    """`{{ a.b }}`; numbers are grouped by `grouped` alone, so that whole ones are their digits."""

    def render(self, context: Context) -> Any:
        value = self.filter_expression.resolve(context)
        if context.autoescape:
            if type(value) is SafeString:
                return value
            if type(value) is str:
                return SafeString(escape(value))
            if type(value) is int:
                return str(value)
        return render_value_in_context(value, context)


class Included(IncludeNode):
    """`{% include "name" %}`, which finds its template once."""

    found: Template | None = None

    def render(self, context: Context) -> SafeString:
        if self.found is None:
            self.found = context.template.engine.get_template(self.template.resolve(context))  # type: ignore[union-attr]
        with context.push(**{name: value.resolve(context) for name, value in self.extra_context.items()}):
            return self.found.render(context)


class Address(URLNode):
    """`{% url "name" key %}`, in which what stands around the key is found once."""

    around: tuple[str, Any, str] | None = None  # what is before it, its path converter, what is after it
    looked_for = False

    def render(self, context: Context) -> str:
        key = self.args[0].resolve(context)
        if not self.looked_for:
            self.around, self.looked_for = _around(str(self.view_name.resolve(context))), True
        if self.around is None or type(key) is not int:
            return super().render(context)
        before, written, after = self.around
        return f"{before}{written.to_url(key)}{after}"


def _around(name: str) -> tuple[str, Any, str] | None:
    """None: the address is not a key between two parts that are always the same."""
    keys = 1_234_567_890, 1_234_567_891
    try:
        addresses = [reverse(name, args=[key]) for key in keys]
    except NoReverseMatch:
        return None
    for written in get_converters().values():
        before, *after = addresses[0].split(str(written.to_url(keys[0])))
        if len(after) == 1 and addresses[1] == f"{before}{written.to_url(keys[1])}{after[0]}":
            return before, written, after[0]
    return None


class Extending(ExtendsNode):
    """`{% extends "name" %}`, which finds its template and the blocks of it once."""

    found: Any = None  # a Template
    theirs: dict[str, Any]  # its blocks, where it extends no other

    def render(self, context: Context) -> SafeString:
        if self.found is None:
            found: Any = context.template.engine.get_template(self.parent_name.resolve(context))  # type: ignore[union-attr]
            extends = any(isinstance(node, ExtendsNode) for node in found.nodelist)
            blocks: Any = [] if extends else found.nodelist.get_nodes_by_type(BlockNode)
            self.theirs = {block.name: block for block in blocks}
            self.found = found
        kept: Any = context.render_context
        kept.setdefault(BLOCK_CONTEXT_KEY, BlockContext())
        kept[BLOCK_CONTEXT_KEY].add_blocks(self.blocks)
        kept[BLOCK_CONTEXT_KEY].add_blocks(self.theirs)
        with kept.push_state(self.found, isolated_context=False):
            text: SafeString = self.found._render(context)
            return text


def prepare(nodes: NodeList) -> None:
    """Prepare a list of nodes and all lists below it, in place."""
    prepared: list[Node] = []
    run: list[Node] = []
    for node in nodes:
        if isinstance(node, TextNode) or _is_constant(node):
            run.append(node)
            continue
        prepared += _together(run)
        run = []
        prepared.append(_prepared(node))
    nodes[:] = [*prepared, *_together(run)]


def _prepared(node: Node) -> Node:
    if isinstance(node, TranslateNode):
        return Named(node) if node.asvar and _says_one_thing(node) else node
    if type(node) in _PLAIN:
        for name, held in vars(node).items():
            setattr(node, name, _quick(held))
    if isinstance(node, IfNode):
        node.conditions_nodelists = [(_quick(condition), below) for condition, below in node.conditions_nodelists]
    for below in _lists(node):
        prepare(below)
    if type(node) is VariableNode:
        node.__class__ = Value
    elif type(node) is IncludeNode and not node.isolated_context and _is_name(node.template):
        node.__class__ = Included
    elif (
        type(node) is URLNode
        and len(node.args) == 1
        and not (node.asvar or node.kwargs)
        and _is_literal(node.view_name)
    ):
        node.__class__ = Address
    elif type(node) is ExtendsNode and _is_another(node):
        node.__class__ = Extending
    return node


def _quick(held: Any) -> Any:
    """An expression that finds plain values by itself, and what holds such expressions."""
    if isinstance(held, FilterExpression):
        if isinstance(held.var, Variable) and held.var.lookups and not held.var.translate:
            if not held.filters:
                return Lookup(held, *held.var.lookups)
            held.var = Lookup(held.var, *held.var.lookups)  # `is_var` is as it was
    elif type(held) is list:
        return [_quick(one) for one in held]
    elif type(held) is dict:
        return {name: _quick(one) for name, one in held.items()}
    elif isinstance(held, TemplateLiteral):
        held.value = _quick(held.value)
    elif isinstance(held, TokenBase):
        held.first, held.second = _quick(held.first), _quick(held.second)
    return held


def _together(run: Sequence[Node]) -> Iterable[Node]:
    if all(isinstance(node, TextNode) for node in run):
        return [TextNode("".join(node.s for node in run if isinstance(node, TextNode)))] if run else []
    return [Constant(run)]


def _lists(node: Node) -> list[NodeList]:
    if isinstance(node, IfNode):
        return [below for _condition, below in node.conditions_nodelists]
    return [below for name in node.child_nodelists if isinstance(below := getattr(node, name, None), NodeList)]


def _is_constant(node: Node) -> bool:
    return (judge := _JUDGES.get(type(node))) is not None and judge(node)


def _says_one_thing(node: TranslateNode) -> bool:
    return _is_literal(node.filter_expression) and (node.message_context is None or _is_literal(node.message_context))


def _is_literal(expression: FilterExpression) -> bool:
    variable = expression.var
    return not expression.filters and (not isinstance(variable, Variable) or variable.lookups is None)


def _is_name(expression: FilterExpression | Lookup) -> bool:
    """Of a template; one that begins with a dot depends on where it is named."""
    return isinstance(expression, FilterExpression) and _is_literal(expression) and "./" not in str(expression.var)


def _is_another(node: ExtendsNode) -> bool:
    """Whether it extends a template of another name: one of the same name is found in the next folder."""
    name: Any = node.parent_name
    return _is_name(name) and name.var != node.origin.template_name


def _names_nothing(node: BlockTranslateNode) -> bool:
    fixed = node.plural is None and node.message_context is None and not node.extra_context and not node.asvar
    return fixed and not node.render_token_list(node.singular)[1]


# Nodes that only resolve their expressions; others may read them (allauth's do).
_PLAIN = {BlockTranslateNode, ForNode, IfNode, InclusionNode, IncludeNode, SimpleNode, URLNode, VariableNode, WithNode}
_JUDGES: dict[type[Node], Callable[[Any], bool]] = {
    TranslateNode: lambda node: not node.asvar and _says_one_thing(node),
    BlockTranslateNode: _names_nothing,
    StaticNode: lambda node: not node.varname and _is_literal(node.path),
    SimpleNode: lambda node: node.func is htmx_script and not node.target_var,  # no context here has a nonce for it
    URLNode: lambda node: not node.asvar and not node.args and not node.kwargs and _is_literal(node.view_name),
}
