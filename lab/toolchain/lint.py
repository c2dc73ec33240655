"""Every check of the sources, each run to its end, with one line for each at the end."""

from __future__ import annotations

import subprocess
import sys
import time

from lab.toolchain.paths import REPOSITORY

GITLAB = ["--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci", ".gitlab-ci.yml"]


def main() -> int:
    """Run all checks; 0 only where every one is clean."""
    failed: list[str] = []
    for title, command in checks():
        started = time.monotonic()
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
        good = done.returncode == 0
        print(f"{title:<15} {'clean' if good else 'NOT CLEAN'} ({time.monotonic() - started:.1f} s)", flush=True)
        if not good:
            failed.append(title)
            print(f"{done.stdout}{done.stderr}", flush=True)
    if failed:
        print(f"Not clean: {', '.join(failed)}.")
    return 1 if failed else 0


def checks() -> list[tuple[str, list[str]]]:
    """The checks by title; settings are in pyproject.toml."""
    found = [
        ("ruff", ["ruff", "check", "."]),
        ("ruff format", ["ruff", "format", "--check", "."]),
        ("pyright", ["pyright", "--pythonpath", sys.executable]),
        ("import-linter", ["lint-imports", "--no-cache"]),
        ("deptry", ["deptry", "."]),
        ("actionlint", ["actionlint", "-color=false"]),
        ("GitLab's schema", ["check-jsonschema", *GITLAB]),
        ("policies", [sys.executable, "-m", "policies"]),
    ]
    scripts = shell_scripts()
    return [*found, ("shellcheck", ["shellcheck", *scripts])] if scripts else found


def shell_scripts() -> list[str]:
    """The files of the checkout that a shell runs: by their first line or their ending."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    return [name for name in listed if name and _is_shell(name)]


def _is_shell(name: str) -> bool:
    path = REPOSITORY / name
    if not path.is_file():
        return False
    with path.open("rb") as handle:
        first = handle.readline(64)
    return first.startswith(b"#!") and first.split()[-1].split(b"/")[-1] in (b"sh", b"bash", b"dash")


if __name__ == "__main__":
    sys.exit(main())
