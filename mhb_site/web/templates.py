"""Optimises Django's templates after parsing: merges constant parts, speeds up value lookups.

A page of the workbench has a hundred translated texts, twenty static files and thirty URLs that are
the same on every page in its language, and looks up five hundred values. Only text that depends on
nothing but the language is cached: no context values, so nothing about a reader or a case.
Everything unusual is left to Django's own nodes.
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
    """Django's cached loader, which also prepares each template."""

    def get_template(self, template_name: str, skip: list[Any] | None = None) -> Template:
        """The template; it is prepared when it is read for the first time."""
        is_new = self.cache_key(template_name, skip) not in self.get_template_cache
        template: Template = super().get_template(template_name, skip)
        if is_new:
            prepare(template.nodelist)
        return template


class Constant(Node):
    """Neighbouring nodes whose text depends only on the language."""

    child_nodelists = ()

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = nodes
        self.texts: dict[str | None, SafeString] = {}  # by language

    def render(self, context: Context) -> SafeString:
        language = get_language()
        text = self.texts.get(language)
        if text is None:
            text = SafeString("".join([str(node.render_annotated(context)) for node in self.nodes]))
            self.texts[language] = text
        return text


class ConstantVariable(Node):
    """A constant text that the template assigns to a name: `{% translate "Note" as label %}`."""

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


_UNRESOLVED = object()  # a value that Django has to look up


class Lookup:
    """Fast replacement for an expression that looks up `a.b.c` in a context."""

    def __init__(self, expression: FilterExpression | Variable, name: str, *bits: str) -> None:
        self.expression = expression
        self.name, self.bits = name, bits

    def resolve(self, context: Context, ignore_failures: bool = False) -> Any:
        """Like Django's; resolves only dictionary keys and attributes itself."""
        for names in reversed(context.dicts):
            if self.name in names:
                value = names[self.name]
                break
        else:
            if ignore_failures and not hasattr(context, self.name):
                return None
            return self._resolve_by_django(context, ignore_failures)
        for bit in self.bits:
            if type(value) is SimpleLazyObject:  # request.user
                if value._wrapped is empty:
                    value._setup()
                value = value._wrapped
            if type(value) is dict:
                value = value.get(bit, _UNRESOLVED)
            elif callable(value) or hasattr(type(value), "__getitem__"):
                value = _UNRESOLVED
            else:
                if value is None and ignore_failures:
                    return None
                value = getattr(value, bit, _UNRESOLVED)
            if value is _UNRESOLVED:
                return self._resolve_by_django(context, ignore_failures)
        return self._resolve_by_django(context, ignore_failures) if callable(value) else value

    def _resolve_by_django(self, context: Context, ignore_failures: bool) -> Any:
        if isinstance(self.expression, Variable):
            return self.expression.resolve(context)
        return self.expression.resolve(context, ignore_failures)


class FastVariable(VariableNode):
    """`{{ a.b }}`; only `grouped` groups digits, so whole numbers are rendered as their digits."""

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


class FastInclude(IncludeNode):
    """`{% include "name" %}` that looks up its template only once."""

    included: Template | None = None

    def render(self, context: Context) -> SafeString:
        if self.included is None:
            self.included = context.template.engine.get_template(self.template.resolve(context))  # type: ignore[union-attr]
        with context.push(**{name: value.resolve(context) for name, value in self.extra_context.items()}):
            return self.included.render(context)


class FastURL(URLNode):
    """`{% url "name" key %}` that resolves the URL pattern around the key only once."""

    pattern: tuple[str, Any, str] | None = None  # (text before the key, path converter, text after)
    is_resolved = False

    def render(self, context: Context) -> str:
        key = self.args[0].resolve(context)
        if not self.is_resolved:
            self.pattern, self.is_resolved = _url_pattern(str(self.view_name.resolve(context))), True
        if self.pattern is None or type(key) is not int:
            return super().render(context)
        before, converter, after = self.pattern
        return f"{before}{converter.to_url(key)}{after}"


def _url_pattern(name: str) -> tuple[str, Any, str] | None:
    """(text before the key, path converter, text after it); None if the URL is not of this form."""
    keys = 1_234_567_890, 1_234_567_891
    try:
        addresses = [reverse(name, args=[key]) for key in keys]
    except NoReverseMatch:
        return None
    for converter in get_converters().values():
        before, *after = addresses[0].split(str(converter.to_url(keys[0])))
        if len(after) == 1 and addresses[1] == f"{before}{converter.to_url(keys[1])}{after[0]}":
            return before, converter, after[0]
    return None


class FastExtends(ExtendsNode):
    """`{% extends "name" %}` that looks up the parent template and its blocks only once."""

    parent: Any = None  # a Template
    parent_blocks: dict[str, Any]  # empty if the parent itself extends another template

    def render(self, context: Context) -> SafeString:
        if self.parent is None:
            parent: Any = context.template.engine.get_template(self.parent_name.resolve(context))  # type: ignore[union-attr]
            extends = any(isinstance(node, ExtendsNode) for node in parent.nodelist)
            blocks: Any = [] if extends else parent.nodelist.get_nodes_by_type(BlockNode)
            self.parent_blocks = {block.name: block for block in blocks}
            self.parent = parent
        render_context: Any = context.render_context
        render_context.setdefault(BLOCK_CONTEXT_KEY, BlockContext())
        render_context[BLOCK_CONTEXT_KEY].add_blocks(self.blocks)
        render_context[BLOCK_CONTEXT_KEY].add_blocks(self.parent_blocks)
        with render_context.push_state(self.parent, isolated_context=False):
            text: SafeString = self.parent._render(context)
            return text


def prepare(nodes: NodeList) -> None:
    """Optimise a list of nodes and all nested lists, in place."""
    prepared: list[Node] = []
    run: list[Node] = []
    for node in nodes:
        if isinstance(node, TextNode) or _is_constant(node):
            run.append(node)
            continue
        prepared += _merged(run)
        run = []
        prepared.append(_prepared(node))
    nodes[:] = [*prepared, *_merged(run)]


def _prepared(node: Node) -> Node:
    if isinstance(node, TranslateNode):
        return ConstantVariable(node) if node.asvar and _is_constant_message(node) else node
    if type(node) in _RESOLVING_NODES:
        for name, held in vars(node).items():
            setattr(node, name, _with_fast_lookups(held))
    if isinstance(node, IfNode):
        node.conditions_nodelists = [
            (_with_fast_lookups(condition), below) for condition, below in node.conditions_nodelists
        ]
    for below in _nested_lists(node):
        prepare(below)
    if type(node) is VariableNode:
        node.__class__ = FastVariable
    elif type(node) is IncludeNode and not node.isolated_context and _is_template_name(node.template):
        node.__class__ = FastInclude
    elif (
        type(node) is URLNode
        and len(node.args) == 1
        and not (node.asvar or node.kwargs)
        and _is_literal(node.view_name)
    ):
        node.__class__ = FastURL
    elif type(node) is ExtendsNode and _extends_other_name(node):
        node.__class__ = FastExtends
    return node


def _with_fast_lookups(value: Any) -> Any:
    """Replace lookups in an expression, or in a container of expressions, by `Lookup`."""
    if isinstance(value, FilterExpression):
        if isinstance(value.var, Variable) and value.var.lookups and not value.var.translate:
            if not value.filters:
                return Lookup(value, *value.var.lookups)
            value.var = Lookup(value.var, *value.var.lookups)  # `is_var` does not change
    elif type(value) is list:
        return [_with_fast_lookups(item) for item in value]
    elif type(value) is dict:
        return {name: _with_fast_lookups(item) for name, item in value.items()}
    elif isinstance(value, TemplateLiteral):
        value.value = _with_fast_lookups(value.value)
    elif isinstance(value, TokenBase):
        value.first, value.second = _with_fast_lookups(value.first), _with_fast_lookups(value.second)
    return value


def _merged(run: Sequence[Node]) -> Iterable[Node]:
    if all(isinstance(node, TextNode) for node in run):
        return [TextNode("".join(node.s for node in run if isinstance(node, TextNode)))] if run else []
    return [Constant(run)]


def _nested_lists(node: Node) -> list[NodeList]:
    if isinstance(node, IfNode):
        return [nested for _condition, nested in node.conditions_nodelists]
    return [nested for name in node.child_nodelists if isinstance(nested := getattr(node, name, None), NodeList)]


def _is_constant(node: Node) -> bool:
    return (test := _CONSTANT_TESTS.get(type(node))) is not None and test(node)


def _is_constant_message(node: TranslateNode) -> bool:
    return _is_literal(node.filter_expression) and (node.message_context is None or _is_literal(node.message_context))


def _is_literal(expression: FilterExpression) -> bool:
    variable = expression.var
    return not expression.filters and (not isinstance(variable, Variable) or variable.lookups is None)


def _is_template_name(expression: FilterExpression | Lookup) -> bool:
    """Whether it is a constant, absolute name; a relative one depends on the current template."""
    return isinstance(expression, FilterExpression) and _is_literal(expression) and "./" not in str(expression.var)


def _extends_other_name(node: ExtendsNode) -> bool:
    """Whether a template extends one of another name: the same name means the next folder's."""
    name: Any = node.parent_name
    return _is_template_name(name) and name.var != node.origin.template_name


def _has_no_variables(node: BlockTranslateNode) -> bool:
    is_simple = node.plural is None and node.message_context is None and not node.extra_context and not node.asvar
    return is_simple and not node.render_token_list(node.singular)[1]


# Nodes that only resolve their expressions; other nodes may inspect them (allauth's do).
_RESOLVING_NODES = {
    BlockTranslateNode,
    ForNode,
    IfNode,
    InclusionNode,
    IncludeNode,
    SimpleNode,
    URLNode,
    VariableNode,
    WithNode,
}
_CONSTANT_TESTS: dict[type[Node], Callable[[Any], bool]] = {
    TranslateNode: lambda node: not node.asvar and _is_constant_message(node),
    BlockTranslateNode: _has_no_variables,
    StaticNode: lambda node: not node.varname and _is_literal(node.path),
    # No context here has a nonce.
    SimpleNode: lambda node: node.func is htmx_script and not node.target_var,
    URLNode: lambda node: not node.asvar and not node.args and not node.kwargs and _is_literal(node.view_name),
}
