"""demo: run the whole site on this machine, with simulated models and demo accounts."""

import os
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from mhb_site.demo import clinhallu, progress, real
from mhb_site.demo.load import ACCOUNTS, PASSWORD, create_accounts, load, point_endpoints_at
from mhb_site.demo.pictures import LABELS
from mhb_site.server import children
from review.models import User

HOST = "127.0.0.1"
VARY = "0.2"  # so that answers asked again differ now and then, as those of real models do
CODE = ("review", "generation", "evaluation", "mhb_site", "templates", "static")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 < int(text[:6]) < 2**16):
        raise ArgumentTypeError(f"{text!r} is not a port (1 to 65535)")
    return int(text)


def remove_partial_demo(folder: Path) -> bool:
    """Remove the embedded database if loading its demo was interrupted; returns whether it was.

    Otherwise it would always be taken for a complete one.
    """
    if not (folder / progress.FILE).exists():
        return False
    for file in folder.glob("mhb.sqlite3*"):
        file.unlink()
    (folder / progress.FILE).unlink()
    return True


def newest_change() -> float:
    """When a file of the code was last written (seconds since the epoch).

    Compiled files are left out: running the code writes them.
    """
    newest = 0.0
    for folder in CODE:
        for file in (settings.BASE_DIR / folder).rglob("*.*"):
            if file.suffix not in (".pyc", ".mo"):
                newest = max(newest, file.stat().st_mtime)
    return newest


class Command(BaseCommand):
    help = "Run web server, worker, sweeper and simulated models. Stop with Ctrl-C."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=_port, default=os.environ.get("MHB_PORT", "8000"))
        parser.add_argument("--models-port", type=_port, default=os.environ.get("MHB_MODELS_PORT", "8010"))
        parser.add_argument(
            "--real", action="store_true", help="also ask the real models that `make real` has installed"
        )
        parser.add_argument("--reload", action="store_true", help="start again when a file of the code changes")

    def handle(self, *args: Any, **options: Any) -> None:
        port, models_port = options["port"], options["models_port"]
        real_models: list[str] = []
        if options["real"]:
            real_models = real.installed()
            if not real_models:
                raise CommandError("No real model is installed. Install one with: make real")
        real_ports = range(models_port + 1, models_port + 1 + len(real_models))
        model_ports = [models_port, *real_ports]
        if port in model_ports:
            raise CommandError("MHB_PORT and MHB_MODELS_PORT must be different ports.")
        for wanted_port in (port, *model_ports):
            variable = "MHB_MODELS_PORT"
            if wanted_port == port:
                variable = "MHB_PORT"
            if not children.port_is_free(HOST, wanted_port):
                raise CommandError(
                    f"Port {wanted_port} is taken. Choose another: make demo {variable}={wanted_port + 1}"
                )
        # No endpoint may have the web server's address: set the port for child processes and for
        # this one.
        os.environ["MHB_PORT"] = str(port)
        settings.MHB_ENDPOINT_ACCESS = replace(settings.MHB_ENDPOINT_ACCESS, port=port)
        stopping: list[int] = []
        for signal_number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(signal_number, lambda received, _frame: self._stop(stopping, received))
        folder = settings.ENV.data_dir
        if settings.MHB_EMBEDDED and remove_partial_demo(folder):
            self.stdout.write("mhb: the demo was stopped while loading; starting over")
        family = children.Children(cwd=str(settings.BASE_DIR))
        try:
            call_command("migrate", verbosity=0)
            is_new = not User.objects.exists()
            if is_new:
                progress.file().touch()
                create_accounts()
            family.start("web", children.web(HOST, port))
            children.wait_for_port(HOST, port)
            self._welcome(port)
            labels = str(clinhallu.folder() / LABELS)
            wanted = ("--port", str(models_port), "--labels", labels, "--vary", VARY)
            simulator = children.django("simulate_llm", *wanted)
            family.start("simulated models", simulator)
            if not children.wait_for_port(HOST, models_port, seconds=120):  # on a busy machine
                raise CommandError(f"The simulated models did not start on port {models_port}.")
            models_url = f"http://{HOST}:{models_port}/v1"
            if is_new:
                self._load(models_url)
            else:
                point_endpoints_at(models_url)
            if real_models:
                self._start_real_models(family, dict(zip(real_models, real_ports, strict=True)))
            connection.close()
            family.start("worker", children.worker("mhb-lanes"))
            family.start("short-tasks", children.worker("mhb"))
            family.start("sweeper", children.django("sweep", "--forever"))
            started = newest_change()

            def changed() -> bool:
                return options["reload"] and newest_change() > started

            family.watch(lambda line: self.stderr.write(f"mhb: {line}"), until=lambda: bool(stopping) or changed())
        except KeyboardInterrupt:
            pass
        except children.ChildFailed as error:
            raise CommandError(str(error)) from error
        finally:
            self.stdout.write("mhb: stopping")
            family.stop()
        if not stopping:  # a file changed: everything again, with the new code
            os.execv(sys.executable, [sys.executable, *sys.argv])  # noqa: S606

    def _stop(self, stopping: list[int], number: int) -> None:
        if not stopping:
            stopping.append(number)
            raise KeyboardInterrupt  # interrupts the loading of the demo as well

    def _start_real_models(self, family: children.Children, ports: Mapping[str, int]) -> None:
        addresses = {}
        for model, port in ports.items():
            family.start(model, real.server(model, port))
            addresses[model] = f"http://{HOST}:{port}/v1"
        for model, port in ports.items():
            if not children.wait_for_port(HOST, port, seconds=120):
                raise CommandError(f"{model} did not start on port {port}.")
        real.ask(addresses)
        models = ", ".join(ports)
        self.stdout.write(f"mhb: real models answer, and the last of them judges: {models}")

    def _load(self, models_url: str) -> None:
        """Load the demo while the site is open already."""

        def tell(label: str) -> None:
            progress.write(label)
            self.stdout.write(f"mhb: {label}")

        self.stdout.write("mhb: the demo is loading; if you stop it now, it starts over")
        load(models_url, tell=tell)
        progress.file().unlink()
        self.stdout.write("mhb: the demo has loaded")

    def _welcome(self, port: int) -> None:
        people = "\n".join(f"    {account.username:<10} {account.role}" for account in ACCOUNTS)
        self.stdout.write(
            f"\n  MHB is at http://{HOST}:{port}/\n\n"
            f"  Demo accounts, all with the password {PASSWORD}\n{people}\n\n"
            f"  Data: {settings.ENV.data_dir}    Stop: Ctrl-C\n"
        )
        self.stdout.flush()
