"""E-mail: messages sent to a mail server, as the standard library parses them."""

from __future__ import annotations

import email
import email.policy
import ssl
import subprocess
from collections.abc import Callable, Iterator
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from hypothesis import given, settings
from hypothesis import strategies as st

from hopscope.base.names import Names
from hopscope.detect.records import Kind
from hopscope.export.alerts.email import Email
from hopscope.export.alerts.outbox import Message
from hopscope.export.destination import Context, DeliveryError
from hopscope.settings.destinations.alerts import EmailSettings
from support.events.alert_events import event, joined
from support.events.event_make import START_NS
from support.servers.server_process import free_port
from support.waiting import eventually

from .conftest import Rig

Make = Callable[..., Rig]


class MailServer:
    """Keeps mail; TLS is required, and a login; answers for receivers as told."""

    def __init__(self) -> None:
        self.mails: list[tuple[Envelope, EmailMessage]] = []
        self.answers: dict[str, str] = {}
        """By receiver."""

    async def handle_RCPT(  # noqa: N802 - the name that aiosmtpd calls
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.answers:
            return self.answers[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        assert isinstance(envelope.content, bytes)
        found = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(found, EmailMessage)
        self.mails.append((envelope, found))
        return "250 OK"


def authenticate(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    """One user."""
    return AuthResult(success=data == LoginPassword(b"hopscope", b"sesame"), handled=False)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory, tool: Callable[..., str]) -> Path:
    folder = tmp_path_factory.mktemp("mail")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", f"{folder}/key.pem", "-out", f"{folder}/certificate.pem"]
    command = [tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *names, *files]
    subprocess.run(command, check=True, capture_output=True)
    return folder / "certificate.pem"


@pytest.fixture
def server(certificate: Path) -> Iterator[tuple[MailServer, int]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    kept, port = MailServer(), free_port()
    controller = Controller(
        kept,
        hostname="127.0.0.1",
        port=port,
        tls_context=context,
        require_starttls=True,
        auth_required=True,
        authenticator=authenticate,
    )
    controller.start()
    yield kept, port
    controller.stop()


def given_to(port: int, certificate: Path, **more: Any) -> dict[str, Any]:
    """Settings of a destination."""
    login = {"user": "hopscope", "password": "sesame", "ca_file": certificate}
    return {"url": f"smtp://127.0.0.1:{port}", "to": ["noc@example.net"], **login, **more}


def test_a_message_of_a_group(server: tuple[MailServer, int], certificate: Path, rig: Make) -> None:
    """By STARTTLS and with a login; the subject is the title, the text has a line for each alert."""
    kept, port = server
    to = ["noc@example.net", "two@example.net"]
    names = Names(nodes={7: "leaf-ü"})
    one = rig(
        "email", names, **given_to(port, certificate, to=to, listed=2, group_seconds=0, expire_seconds=0)
    )
    one.write(joined(*(event(Kind.RAISED, n, ident=n) for n in range(3))))
    one.start()
    eventually(lambda: kept.mails)
    one.stop()
    ((envelope, mail),) = kept.mails
    assert envelope.rcpt_tos == to
    assert mail["subject"] == (
        "[warning] raised: queue_occupancy 3000 above 2500 at leaf-ü port 2 queue 0 and 2 more"
    )
    assert (mail["to"], mail["auto-submitted"]) == (", ".join(to), "auto-generated")
    assert mail["message-id"] == f"<m1-0-0-{START_NS}-raised@localhost>"
    assert mail.get_content().splitlines() == [
        "2023-11-14T22:13:20.000000000Z warning raised: "
        "queue_occupancy 3000 above 2500 at leaf-ü port 2 queue 0",
        "2023-11-14T22:13:21.000000000Z warning raised: "
        "queue_occupancy 3000 above 2500 at leaf-ü port 2 queue 1",
        "… 1 more",
        "",
        "Sent by Hopscope on m1.",
    ]
    assert (one.count("sent"), one.count("events")) == (1, 3)


TEXT = st.text(st.characters(codec="utf-8"), max_size=60) | st.sampled_from(
    ["a\r\nBcc: x@example.net", "\n\n.\nQUIT\n", "x" * 4096, "=?utf-8?q?=0aBcc:_x?=", "ü→\u2028", "\0"]
)


@settings(max_examples=50, deadline=None)
@given(node=TEXT)
def test_hostile_names_are_text(node: str) -> None:
    """A name adds no header, no receiver and no line."""
    names = Names(nodes={7: node})
    destination = Email(
        EmailSettings(kind="email", to=("noc@example.net",)),
        Context("noc", "m1", names, lambda name, more: None),
    )
    found = list(destination.alarms.take(joined(event(Kind.RAISED))))
    mail = destination.mail(Message("raised", {}, 0, found, 1, "warning"))
    parsed = email.message_from_bytes(mail.as_bytes(), policy=email.policy.default)
    assert isinstance(parsed, EmailMessage)
    assert parsed.keys() == mail.keys()
    assert len(parsed.keys()) == len(set(parsed.keys()))
    assert "bcc" not in parsed
    subject = str(parsed["subject"]).strip()  # a long line may begin with a fold
    assert subject.startswith("[warning] raised: queue_occupancy 3000 above 2500 at")
    assert len(parsed.get_content().splitlines()) == 3


def test_failures(server: tuple[MailServer, int], certificate: Path) -> None:
    """What settings or time may mend is tried again, a rejection for good is not; no password is shown."""
    kept, port = server

    def sent(**more: Any) -> DeliveryError:
        settings = EmailSettings.model_validate({"kind": "email", **given_to(port, certificate, **more)})
        destination = Email(settings, Context("noc", "m1", Names(), lambda name, more: None))
        found = list(destination.alarms.take(joined(event(Kind.LOOP))))
        with pytest.raises(DeliveryError) as error:
            destination.deliver(Message("loop", {}, 0, found, 1))
        return error.value

    for more, reason, again in (
        ({"password": "wrong"}, "535", True),
        ({"starttls": False}, "", True),
        ({"ca_file": None}, "certificate verify failed", True),
        ({"password": "env:NOT_THERE"}, "NOT_THERE", True),
        ({"url": "smtp://127.0.0.1:9"}, "refused", True),
    ):
        error = sent(**more)
        assert reason in str(error)
        assert "sesame" not in str(error)
        assert error.again is again
    kept.answers["noc@example.net"] = "450 later"
    assert sent().again
    kept.answers["noc@example.net"] = "550 no such user"
    assert not sent().again
    assert kept.mails == []
