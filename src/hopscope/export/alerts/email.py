"""E-mail: one message per group of alerts, through a mail server (SMTP)."""

from __future__ import annotations

import smtplib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from urllib.parse import urlsplit

from ...base.log import logger
from ...base.version import VERSION
from ...settings.destinations.alerts import EmailSettings
from ..credentials import secret, tls_context
from ..destination import DeliveryError
from .destination import AlertDestination
from .outbox import Message
from .texts import plain

SUBJECT = 200
"""Most characters of a subject."""


class Email(AlertDestination):
    """The receivers at one mail server. Each message has a connection, since servers close idle ones."""

    Settings = EmailSettings
    settings: EmailSettings

    def connect(self) -> None:
        """Check whether the server answers, and accepts user and password."""
        with self._server():
            pass

    def deliver(self, message: Message) -> None:
        """Send a message to all receivers; those that the server rejects are logged."""
        mail = self.mail(message)
        settings = self.settings
        with self._server() as server:
            rejected = server.send_message(mail, settings.sender, settings.to)
        self.context.count("bytes_total", len(mail.as_bytes()))
        for address, (status, _) in rejected.items():
            logger("export").warning(
                "receiver rejected", to=self.context.name, address=address, status=status
            )

    def mail(self, message: Message) -> EmailMessage:
        """The message in the form in which it is sent."""
        settings = self.settings
        mail = EmailMessage(SMTP)
        mail["From"], mail["To"] = settings.sender, ", ".join(settings.to)
        title = plain(self.texts.title(message), SUBJECT)
        mail["Subject"] = title.replace("=?", "= ?")  # the library would decode an encoded word (RFC 2047)
        mail["Date"] = formatdate(usegmt=True)
        host = settings.sender.rpartition("@")[2]
        mail["Message-ID"] = f"<{message.id}@{host}>"
        mail["Auto-Submitted"] = "auto-generated"  # RFC 3834: no answers from holiday programs
        mail["X-Mailer"] = f"hopscope {VERSION}"
        mail.set_content("\n".join(self._lines(message)) + "\n")
        return mail

    def _lines(self, message: Message) -> Iterator[str]:
        for alert in message.alerts:
            yield self.texts.line(alert)
            if page := self.texts.page(alert):
                yield f"    {page}"
        if message.more:
            yield f"… {message.more:,} more"
        yield f"\nSent by Hopscope on {plain(self.context.member)}."

    @contextmanager
    def _server(self) -> Iterator[smtplib.SMTP]:
        """A connection to the server, logged in. Raises DeliveryError."""
        settings = self.settings
        parts = urlsplit(settings.url)
        host, port = parts.hostname or "", parts.port or 25
        try:
            context = tls_context(settings)
            server = (
                smtplib.SMTP_SSL(host, port, timeout=settings.timeout_seconds, context=context)
                if parts.scheme == "smtps"
                else smtplib.SMTP(host, port, timeout=settings.timeout_seconds)
            )
            try:
                if parts.scheme == "smtp" and settings.starttls:
                    server.starttls(context=context)
                if settings.user:
                    server.login(settings.user, secret(settings.password))
                yield server
            finally:
                with suppress(OSError, smtplib.SMTPException):
                    server.quit()
        except DeliveryError:
            raise
        except (OSError, ValueError, smtplib.SMTPException) as error:
            raise DeliveryError(_text(error), _may_pass(error)) from None


def _may_pass(error: Exception) -> bool:
    """Whether a retry may succeed: not if the server rejected the message or all receivers."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return any(status < 500 for status, _ in error.recipients.values())
    if isinstance(error, smtplib.SMTPAuthenticationError):
        return True
    return not (
        isinstance(error, smtplib.SMTPDataError | smtplib.SMTPSenderRefused) and error.smtp_code >= 500
    )


def _text(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return "all receivers rejected"
    if isinstance(error, smtplib.SMTPResponseException):
        reason = error.smtp_error
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        return f"{error.smtp_code} {plain(text, 160)}"
    return f"{type(error).__name__}: {plain(str(error), 160)}"
