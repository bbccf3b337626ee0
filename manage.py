#!/usr/bin/env python
"""Django's command line for MHB."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mhb_site.settings")
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except Exception as error:
        from mhb_site.server.startup import explained

        if sentence := explained(error):
            sys.exit(sentence)
        raise


if __name__ == "__main__":
    main()
