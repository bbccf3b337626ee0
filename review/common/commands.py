"""Actions of the command line: each is declared once, as a model of what it takes.

Its docstring is the help of its command, its fields are the arguments, `perform` does it. The file
`commands.py` of an app names its actions.
"""

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType, NoneType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_args, get_origin

import pydantic
from django.core.exceptions import ValidationError
from django.core.management import get_commands
from django.core.management.base import BaseCommand, CommandError
from django.utils.module_loading import import_string
from pydantic import BaseModel, ConfigDict, PrivateAttr
from pydantic.fields import FieldInfo

from review.errors import ShownError, sentences

T = TypeVar("T")
ALTERNATIVES = "alternatives"  # the section of options of which only one may be given
PARSED = (int, float, Path)  # types that read the text of an argument themselves


@dataclass(frozen=True, kw_only=True)
class Shell:
    """How the command line asks for a field of an action. Annotate the field's type with it.

    Attributes:
        positional: its value is given without the name of an option.
        option: its name, if it is not the field's.
        metavar, choices, nargs: argparse's.
        parse: argparse's `type`, where the field's own type does not read a text.
        section: the heading under which the help lists it, or ALTERNATIVES.
    """

    positional: bool = False
    option: str = ""
    metavar: str | tuple[str, ...] | None = None
    choices: Iterable[str] | None = None
    nargs: int | None = None
    parse: Callable[[str], Any] | None = None
    section: str = ""

    def add(self, parser: Any, name: str, field: FieldInfo) -> None:
        """Add the argument of a field to a parser or to a group of one."""
        if self.positional:
            parser.add_argument(name, **self._words(field))
        else:
            option = self.option or option_of(name)
            parser.add_argument(option, dest=name, required=field.is_required(), **self._words(field))

    def value(self, name: str, options: Mapping[str, Any]) -> Any:
        """The value of a field in the parsed options; None if it was not given."""
        return options[name]

    def _words(self, field: FieldInfo) -> dict[str, Any]:
        """What argparse is told of a field, beside its name."""
        kind, has_many = _value_type(field.annotation)
        words: dict[str, Any] = {"help": escaped(field.description)}
        if kind is bool:
            return {**words, "action": "store_true"}
        words |= {"metavar": self.metavar, "choices": self.choices, "type": self.parse, "nargs": self.nargs}
        if get_origin(kind) is Literal:
            words["choices"] = get_args(kind)
        elif kind in PARSED and self.parse is None:
            words["type"] = kind
        if has_many and self.positional:
            words["nargs"] = "*"
        elif has_many and self.nargs is None:
            words["action"] = "append"
            del words["nargs"]
        elif self.positional and not field.is_required():
            words["nargs"] = "?"
        return words


Positional = Annotated[T, Shell(positional=True)]
OPTION = Shell()


def option_of(name: str) -> str:
    """The option of a field."""
    return f"--{name.replace('_', '-')}"


def escaped(help_text: str | None) -> str | None:
    """A text as argparse takes it for help, which would replace a % in it."""
    if help_text is None:
        return None
    return help_text.replace("%", "%%")


def _value_type(annotation: Any) -> tuple[Any, bool]:
    """The type of a field's value, or of each of its values; whether it may have many."""
    kinds = [kind for kind in get_args(annotation) if kind is not NoneType]
    if get_origin(annotation) is Literal or not kinds:
        return annotation, False
    if get_origin(annotation) is Sequence:
        return kinds[0], True
    return _value_type(kinds[0])


class Action(BaseModel):
    """What an action takes; its docstring is the help of its command.

    Attributes:
        has_json: with ``--json``, its command prints one line of JSON and nothing else.
        requires_system_checks: Django's.
    """

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)
    has_json: ClassVar[bool] = True
    requires_system_checks: ClassVar[Sequence[str] | str] = "__all__"
    _command: "ActionCommand" = PrivateAttr()

    def perform(self) -> dict[str, Any] | str:
        """Do it, and return its result. If 'failed' in it is not zero, the exit code is 1."""
        raise NotImplementedError

    def tell(self, line: str) -> None:
        """Write a line to standard error, before the result."""
        self._command.stderr.write(line)

    def show(self, values: Mapping[str, Any]) -> None:
        """Print values before the result, but not with ``--json``."""
        if not self._command.is_json:
            self._command.print_values(values)


class ActionCommand(BaseCommand):
    """The command of an action: JSON or readable output, and exit codes.

    An error of ours is one sentence on standard error and exit code 1.
    """

    def __init__(self, action: type[Action]) -> None:
        self.requires_system_checks = action.requires_system_checks  # type: ignore[assignment]
        super().__init__()
        self.action = action
        self.help = " ".join((action.__doc__ or "").split())
        self.is_json = False
        self.arguments = [(name, field, _shell_of(field)) for name, field in action.model_fields.items()]

    def add_arguments(self, parser: ArgumentParser) -> None:
        if self.action.has_json:
            parser.add_argument("--json", action="store_true", help="print one JSON object")
        places: dict[str, Any] = {"": parser}
        for name, field, shell in self.arguments:
            if shell.section == ALTERNATIVES and ALTERNATIVES not in places:
                places[ALTERNATIVES] = parser.add_mutually_exclusive_group()
            elif shell.section not in places:
                places[shell.section] = parser.add_argument_group(shell.section)
            shell.add(places[shell.section], name, field)

    def handle(self, *args: Any, **options: Any) -> None:
        self.is_json = options.get("json", False)
        values = {}
        for name, _field, shell in self.arguments:
            value = shell.value(name, options)
            if value is not None:
                values[name] = value
        try:
            action = self.action(**values)
            action._command = self
            result = action.perform()
        except ShownError as error:
            raise CommandError(str(error)) from error
        except ValidationError as error:
            raise CommandError("; ".join(sentences(error))) from error
        except pydantic.ValidationError as error:  # a program called it with other types
            raise CommandError(str(error)) from error
        except OSError as error:
            if not _is_given(error.filename, values.values()):
                raise
            raise CommandError(f"{error.filename}: {error.strerror}.") from error
        if isinstance(result, str):
            self.stdout.write(result)
            return
        if self.is_json:
            self.stdout.write(json.dumps(result, ensure_ascii=False, default=str))
        else:
            self.print_values(result)
        if result.get("failed"):
            sys.exit(1)

    def print_values(self, values: Mapping[str, Any]) -> None:
        """Print values, one a line."""
        for key, value in values.items():
            self.stdout.write(f"{key}: {_readable(value)}")


def _shell_of(field: FieldInfo) -> Shell:
    for mark in field.metadata:
        if isinstance(mark, Shell):
            return mark
    return OPTION


def _is_given(filename: object, values: Iterable[Any]) -> bool:
    """Whether a file is one that the command was given, or in or above one."""
    if not isinstance(filename, str | Path):
        return False
    file = Path(os.path.realpath(filename))
    given = [Path(os.path.realpath(value)) for value in values if isinstance(value, Path)]
    return any(file.is_relative_to(path) or path.is_relative_to(file) for path in given)


def _readable(value: Any) -> str:
    """Format a value for people."""
    if isinstance(value, list):
        return "".join(f"\n  {_readable(entry)}" for entry in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_readable(entry)}" for key, entry in value.items())
    return str(value)


def register(app: str, actions: Mapping[str, str]) -> None:
    """Make actions known to Django as commands of an app, without importing them.

    actions: the name of each command, and the dotted path of its action.
    """
    commands = get_commands()
    for name, path in actions.items():
        # Django imports the module of this name and calls its `Command`. (A command object in
        # place of the app's name would do for all but `manage.py help`, which lists by apps.)
        module: Any = ModuleType(f"{app}.management.commands.{name}")
        module.Command = partial(_command_of, path)
        sys.modules[module.__name__] = module
        commands[name] = app


def _command_of(path: str) -> ActionCommand:
    return ActionCommand(import_string(path))
