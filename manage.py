#!/usr/bin/env python
"""Django's command line for MHB."""

import os
import select
import signal
import sys


def _is_unread(output: int) -> bool:
    """Whether the reader of a pipe is gone."""
    look = select.poll()
    look.register(output, 0)  # errors are told without being asked for
    return bool(look.poll(0))


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
    try:
        try:
            from django.core.management import execute_from_command_line

            execute_from_command_line(sys.argv)
        finally:
            sys.stdout.flush()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
    except BrokenPipeError:
        if not _is_unread(sys.stdout.fileno()):
            raise  # of another connection
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, sys.stdout.fileno())  # what is left in its buffer is written at the exit
        sys.exit(128 + signal.SIGPIPE)
    except Exception as error:
        from mhb_site.server.startup import explained

        if sentence := explained(error):
            sys.exit(sentence)
        raise


if __name__ == "__main__":
    main()
