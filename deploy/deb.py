"""Build a Debian package from an environment in which Hopscope is installed: `make deb`.

    python deploy/deb.py ENVIRONMENT FOLDER [--compress none] [--no-bytecode]

/usr/lib/hopscope is a virtual environment of Debian's own Python with the packages of ENVIRONMENT, which has
to be of the same minor version.  Beside it: command, units, man pages, completion, settings, their schema.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Collection
from importlib.metadata import Distribution, distributions
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HOME = Path("usr/lib/hopscope")
LEFT_OUT = ("pip", "setuptools", "wheel")
"""Packages of an environment that only install others."""
GPL_NOT_SHIPPED = ("docutils",)
"""Packages that name the GPL for a part that is not in what is installed: here a mode of Emacs."""
LAUNCHER = """\
#!/usr/lib/hopscope/bin/python3 -I
from hopscope.cli import main

main()
"""
COMPLETION = {
    "bash": "usr/share/bash-completion/completions/hopscope",
    "zsh": "usr/share/zsh/vendor-completions/_hopscope",
    "fish": "usr/share/fish/vendor_completions.d/hopscope.fish",
}
CONTROL = """\
Package: hopscope
Version: {version}
Architecture: {architecture}
Maintainer: Hopscope developers <hopscope@localhost>
Installed-Size: {size}
Depends: python3 (>= {python}), python3 (<< {next}), libc6 (>= 2.28), libgcc-s1, libstdc++6, zlib1g, passwd
Recommends: iproute2, bash-completion
Suggests: nats-server, postgresql, openssl
Section: net
Priority: optional
Description: In-band Network Telemetry (INT) collector
 Receives Telemetry Reports, finds the events that matter, keeps them queryable,
 and shows them; also an INT sink, a DTA translator, and INT-label.
"""


class PackageError(Exception):
    """The package cannot be built; one line for the user."""


def build(environment: Path, folder: Path, *, compress: str = "zstd", bytecode: bool = True) -> Path:
    """Write the package into `folder`, and return its path. Raises PackageError, CalledProcessError."""
    site = next((environment / "lib").glob("python3.*/site-packages"))
    python = site.parent.name.removeprefix("python")
    found = {each.name.lower(): each for each in distributions(path=[str(site)])}
    if "hopscope" not in found:
        raise PackageError(f"{environment}: Hopscope is not installed there")
    for name in LEFT_OUT:
        found.pop(name, None)
    check_licences(found.values())
    stage = folder / "stage"
    shutil.rmtree(stage, ignore_errors=True)
    _program(stage, found.values(), python, bytecode)
    _beside(stage, environment)
    _control(stage, found["hopscope"].version, python)
    (stage / "usr/share/doc/hopscope/copyright").write_text(_copyright(found.values()))
    return _packed(stage, folder, compress)


def check_licences(packages: Collection[Distribution]) -> None:
    """Raise PackageError for a package under the GPL or AGPL: what is linked with it would have to be."""
    for each in packages:
        if each.name in GPL_NOT_SHIPPED:
            continue
        texts = [licence(each), *(each.metadata.get_all("Classifier") or ())]
        if any(re.search(r"\bA?GPL|Affero|GNU General Public", text) for text in texts):
            raise PackageError(f"{each.name} is under {licence(each)}: it may not be in the package")


def licence(package: Distribution) -> str:
    """What a package says about its licence, in a line."""
    meta = package.metadata
    given = meta.get("License-Expression") or (meta.get("License") or "").strip().splitlines()[:1]
    if given:
        return given if isinstance(given, str) else given[0]
    classifiers = meta.get_all("Classifier") or ()
    named = [each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License")]
    return "; ".join(named) or "not named"


def _program(stage: Path, packages: Collection[Distribution], python: str, bytecode: bool) -> None:
    """The environment: links to Debian's Python, packages, the command."""
    home = stage / HOME
    site = home / "lib" / f"python{python}" / "site-packages"
    for each in packages:
        for file in each.files or ():
            source, target = Path(each.locate_file(file)), site / file
            if ".." in file.parts or file.suffix == ".pyc" or not source.is_file():
                continue  # scripts, which name the environment
            target.parent.mkdir(parents=True, exist_ok=True)
            _link(source, target)
    (home / "bin").mkdir()
    (home / "bin/python3").symlink_to(f"/usr/bin/python{python}")
    (home / "bin/hopscope").write_text(LAUNCHER)
    (home / "bin/hopscope").chmod(0o755)
    (home / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    (stage / "usr/bin").mkdir()
    (stage / "usr/bin/hopscope").symlink_to("../lib/hopscope/bin/hopscope")
    if bytecode:  # the services cannot write it
        words = ["-m", "compileall", "-q", "-j0", "--invalidation-mode", "unchecked-hash"]
        subprocess.run([sys.executable, *words, "-s", stage, "-p", "/", site], check=False)


def _link(source: Path, target: Path) -> None:
    """The same file, or a copy if the folder is on another disk."""
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy2(source, target)


def _beside(stage: Path, environment: Path) -> None:
    """Units, settings, schema, man pages, completion."""
    units = stage / "usr/lib/systemd/system"
    units.mkdir(parents=True)
    for unit in (ROOT / "deploy/systemd").glob("*.service"):
        (units / unit.name).write_text(unit.read_text().replace("/opt/hopscope/bin/", "/usr/bin/"))
    share = stage / "usr/share/hopscope"
    share.mkdir(parents=True)
    for drop_in in (ROOT / "deploy/systemd").glob("*.conf"):
        shutil.copy(drop_in, share)
    shutil.copytree(ROOT / "deploy/cluster", share / "cluster")
    settings = stage / "etc/hopscope"
    settings.mkdir(parents=True)
    for file in (ROOT / "deploy/debian").glob("*.toml"):
        shutil.copy(file, settings)
    template = _says(environment, "config", "init", "-")
    (settings / "hopscope.toml").write_text(template.replace("# data = ", "data = ", 1))
    (share / "settings.schema.json").write_text(_says(environment, "config", "schema"))
    for page in (_man_pages(environment, stage.parent / "man")).rglob("*.[15]"):
        target = stage / "usr/share/man" / page.parent.name / f"{page.name}.gz"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(gzip.compress(page.read_bytes(), mtime=0))
    from typer._completion_shared import get_completion_script

    for shell, path in COMPLETION.items():
        script = get_completion_script(prog_name="hopscope", complete_var="_HOPSCOPE_COMPLETE", shell=shell)
        (stage / path).parent.mkdir(parents=True, exist_ok=True)
        (stage / path).write_text(script + "\n")
    doc = stage / "usr/share/doc/hopscope"
    doc.mkdir(parents=True)
    (doc / "changelog.gz").write_bytes(gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), mtime=0))


def _says(environment: Path, *words: str) -> str:
    """Output of the environment's own command, for a service: its data is in /var/lib/hopscope."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HOPSCOPE_"))}
    done = subprocess.run(
        [environment / "bin/python", "-I", "-m", "hopscope", *words],
        capture_output=True, text=True, check=True, cwd="/", env={**own, "XDG_DATA_HOME": "/var/lib"},
    )  # fmt: skip
    return done.stdout


def _man_pages(environment: Path, folder: Path) -> Path:
    subprocess.run([environment / "bin/python", "-I", ROOT / "docs/man.py", folder], check=True)
    return folder


def _control(stage: Path, version: str, python: str) -> None:
    """Metadata and scripts of the package; every file in /etc is a user's once it is installed."""
    control = stage / "DEBIAN"
    control.mkdir()
    for script in ("postinst", "prerm", "postrm"):
        shutil.copy(ROOT / "deploy/debian" / script, control)
        (control / script).chmod(0o755)
    files = sorted(f"/{path.relative_to(stage)}" for path in (stage / "etc").rglob("*") if path.is_file())
    (control / "conffiles").write_text("".join(f"{path}\n" for path in files))
    size = sum(path.lstat().st_size for path in stage.rglob("*") if path.is_file()) // 1024
    words = ["dpkg", "--print-architecture"]
    architecture = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    minor = int(python.rpartition(".")[2])
    text = CONTROL.format(
        version=re.sub(r"\.?dev", "~dev", version), architecture=architecture, size=size,
        python=python, next=f"3.{minor + 1}",
    )  # fmt: skip
    (control / "control").write_text(text)


def _copyright(packages: Collection[Distribution]) -> str:
    lines = [f"{each.name} {each.version}: {licence(each)}" for each in packages]
    return (
        "Hopscope is under the Apache License 2.0: /usr/share/common-licenses/Apache-2.0.\n\n"
        "Packages in /usr/lib/hopscope, with their licences, which are in the folder *.dist-info of each:\n\n"
        + "\n".join(sorted(lines))
        + "\n"
    )


def _packed(stage: Path, folder: Path, compress: str) -> Path:
    for path in [stage, *stage.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o111 else 0o644)
    for path in (stage / "etc/hopscope").iterdir():  # may come to hold secrets; postinst sets the group
        path.chmod(0o640)
    words = ["dpkg-deb", "--root-owner-group", f"-Z{compress}", "--build", stage, folder]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return max(folder.glob("hopscope_*.deb"), key=lambda path: path.stat().st_mtime)


def main() -> int:
    """Build it, and print its path."""
    parser = argparse.ArgumentParser(description="Build a Debian package.")
    parser.add_argument("environment", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--compress", default="zstd", help="zstd, xz, gzip or none")
    parser.add_argument("--no-bytecode", action="store_true", help="faster to build, slower to start")
    given = parser.parse_args()
    try:
        path = build(
            given.environment.absolute(),
            given.folder,
            compress=given.compress,
            bytecode=not given.no_bytecode,
        )
    except PackageError as error:
        print(f"deb: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
