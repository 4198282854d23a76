"""`planner`, and `python -m planner`."""

import sys


def run() -> None:
    """Run the command line; Ctrl-C ends it with the code of an interrupted command even while it still loads."""
    try:
        from planner.cli import main
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    main()


if __name__ == "__main__":
    run()
