"""`hopscope users`: who may log in to the console with a name and a password."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..base.errors import HopscopeError
from .options.declare import Commands, argument, option
from .options.settings import CollectorOptions
from .options.standard_input import standard_input
from .output.printer import Format, FormatOption, print_rows

if TYPE_CHECKING:
    from ..operators.audit import Author
    from ..operators.users import Users

app = Commands(help="Users of the console: viewers see everything, operators also make changes.")
NameArgument = Annotated[str, argument("NAME", "Name of the user.")]
RoleName = Literal["viewer", "operator"]
PasswordOption = Annotated[
    Path | None, option("--password-file FILE", "Take the password from the first line of FILE; - is stdin.")
]


@app.command()
def add(
    settings: CollectorOptions,
    name: NameArgument,
    role: RoleName = option("--role", "What the user may do.", "viewer"),
    password_file: PasswordOption = None,
) -> None:
    """Add a user, and ask for the password. A running collector knows the user at once."""
    users, author = _opened(settings, make=True)
    users.add(name, role, _password(password_file), author)
    print(f"added {name.lower()}, {role}", file=sys.stderr)


@app.command()
def list(settings: CollectorOptions, form: FormatOption = Format.TABLE) -> None:
    """List all users."""
    from ..present.events import when

    users, _ = _opened(settings)
    rows = [
        {
            "name": each.name,
            "role": each.role,
            "created": when(each.created_ns),
            "password_set": when(each.changed_ns),
        }
        for each in users.all()
    ]
    if not print_rows(form, ("name", "role", "created", "password_set"), rows):
        print("hopscope: no users: `hopscope users add NAME` adds one", file=sys.stderr)


@app.command()
def remove(settings: CollectorOptions, name: NameArgument) -> None:
    """Remove a user, whose sessions end within seconds."""
    users, author = _opened(settings)
    users.remove(name, author)


@app.command()
def password(settings: CollectorOptions, name: NameArgument, password_file: PasswordOption = None) -> None:
    """Set a user's password; the user's sessions end within seconds."""
    users, author = _opened(settings)
    users.set_password(name, _password(password_file), author)


@app.command()
def role(
    settings: CollectorOptions,
    name: NameArgument,
    role: Annotated[RoleName, argument("ROLE", "viewer or operator.")],
) -> None:
    """Give a user another role, also in open sessions."""
    users, author = _opened(settings)
    users.set_role(name, role, author)


def _opened(settings: CollectorOptions, *, make: bool = False) -> tuple[Users, Author]:
    """The users of the data folder, and who changes them; `make`: create a missing folder."""
    from ..memory.data_folder import check_is_folder, make_folder
    from ..operators.audit import Author
    from ..operators.database import Database
    from ..operators.users import Users
    from .output.local_user import local_user

    folder = settings.load().data
    (make_folder if make else check_is_folder)(folder)
    return Users(Database(folder)), Author(local_user())


def _password(file: Path | None) -> str:
    """The password from a file, or typed twice on the terminal. Raises HopscopeError without a terminal."""
    if file is not None:
        lines = (
            standard_input().read() if str(file) == "-" else file.read_text(encoding="utf-8")
        ).splitlines()
        return lines[0] if lines else ""
    if sys.stdin is None or not sys.stdin.isatty():
        raise HopscopeError("there is no terminal to ask for the password: use --password-file")
    return typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
