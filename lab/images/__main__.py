"""`python -m lab.images`: build the images' archives where they are missing or out of date.

(nothing)   ensure; costs nothing when they are there
build       the same, inside the namespaces that ensure makes
smoke       try the images' Slurm on this machine without Kubernetes; with --keep it stays up until Ctrl-C
"""

from __future__ import annotations

import sys

from lab.images.build import build_all
from lab.images.ensure import ensure_images
from lab.images.smoke.run import run_smoke, smoke_inside
from lab.images.store import Store
from lab.paths import paths_from_environment
from lab.toolchain.errors import ToolchainError


def main(argv: list[str]) -> int:
    """Exit code 0 when the images are there; errors are one sentence on standard error."""
    paths = paths_from_environment()
    store = Store.of(paths)
    what = argv[0] if argv else "ensure"
    try:
        if what == "build":
            build_all(store)
        elif what == "ensure":
            ensure_images(paths)
            print(
                f"images: {', '.join(path.name for path in sorted(store.archives.glob('*.tar')))} in {store.archives}"
            )
        elif what == "smoke":
            ensure_images(paths)
            return run_smoke(keep="--keep" in argv)
        elif what == "smoke-inside":
            return smoke_inside(store, keep="--keep" in argv)
        else:
            print(__doc__, file=sys.stderr)
            return 2
    except ToolchainError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; finished layers are kept.", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
