"""mhb-check BUNDLE|RELEASE"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# The modules of MHB: in the distribution beside this one, in a checkout of MHB where they are.
ROOT = HERE / "shared" if (HERE / "shared").is_dir() else HERE.parents[1]
USAGE = "mhb-check BUNDLE|RELEASE: check an unpacked bundle of a run, or an unpacked release, of MHB.\n"


def main(arguments: list[str] | None = None) -> int:
    """Check the folder that is named, print what is wrong, and return the exit code."""
    given = arguments
    if arguments is None:
        given = sys.argv[1:]
    if len(given) != 1 or given[0].startswith("-"):
        sys.stderr.write(USAGE)
        if given in (["-h"], ["--help"]):
            return 0
        return 2
    sys.path.insert(0, str(ROOT))
    sys.dont_write_bytecode = True
    folder = Path(given[0])
    if (folder / "run.json").is_file():
        from evaluation.interchange.programs import verify_run

        return verify_run.main([str(folder)], ROOT)
    from generation.releases.programs import verify_release

    return int(verify_release.main([str(folder)]))


if __name__ == "__main__":
    sys.exit(main())
