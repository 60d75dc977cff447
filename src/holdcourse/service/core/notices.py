"""Who is told of alarms, and how: webhooks and e-mail, as a file describes them."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import smtplib
import ssl
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from holdcourse import units
from holdcourse.errors import HoldcourseError, InvalidInput
from holdcourse.mistakes import Place, first_in_words, read_toml

TIMEOUT_S = 10.0
SHORTEST_SECRET = 16  # characters
UNTOLD = "notification"  # kind of the alarm that nobody could be told of the others
KINDS = ("stale", "silent", "clock", "calibration", "sensor", "reading", "broken")  # of alarms that people are told of
Event = Literal["raised", "repeated", "cleared", "test"]


def _seconds(value: Any) -> Any:
    if value is None or value == "never":
        return None
    try:
        return units.seconds(value, "it")
    except HoldcourseError as error:
        raise ValueError(f"{str(error).removeprefix('it')}; write a time as '1 h', or 'never'".strip(" =")) from None


Interval = Annotated[float | None, BeforeValidator(_seconds)]


@dataclass(frozen=True)
class Notice:
    """What is said of an alarm.

    Attributes
    ----------
    id
        The same however often it is sent, so that whoever gets it twice can tell.
    event
        What happened to the alarm: it was raised, is still open, is over; or somebody tries whether this arrives.
    controller, name
        Its id, and what people call it.
    kind, message, at
        The alarm, and when it was raised.
    times
        How often it was said before.
    """

    id: str
    event: Event
    controller: str
    name: str
    kind: str
    message: str
    at: str
    times: int = 0

    @property
    def words(self) -> str:
        """What a person reads first, in one line."""
        what = {"raised": "alarm", "repeated": "alarm still open", "cleared": "alarm over"}.get(self.event)
        about = f"{what} ({self.kind})" if what else self.kind
        return re.sub(r"\s+", " ", f"[holdcourse] {self.name}: {about}")

    @property
    def sentence(self) -> str:
        """What the alarm says, whole; of one that is over, nobody should do any more what it says."""
        said = self.message[:1].upper() + self.message[1:]
        said += "" if said.endswith((".", "?", "!")) else "."
        return f"The alarm was: {said}" if self.event == "cleared" else said


class Target(Protocol):
    """Somebody who is told of alarms."""

    @property
    def controllers(self) -> tuple[str, ...]:
        """Of which controllers; none are named: of all."""
        ...

    @property
    def called(self) -> str:
        """What it is called in metrics and messages."""
        ...

    def wants(self, controller: str, kind: str) -> bool:
        """Whether it is to be told of such an alarm."""
        ...

    @property
    def together(self) -> int:
        """How many it takes at once; those that fail together are tried again together."""
        ...

    def send(self, notices: Sequence[Notice]) -> None:
        """Tell; whatever is raised, it is tried again later."""
        ...


class Section(BaseModel):
    """A section of the file: nothing in it changes, and no key is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class AlarmFilter(Section):
    """Of whom and what somebody is told; without, of everything.

    Attributes
    ----------
    called
        In metrics and messages.
    base
        The folder of the file, in which secrets are looked for.
    """

    name: str = Field(default="", max_length=60)
    controllers: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    base: Path = Field(default=Path(), exclude=True)

    @field_validator("kinds")
    @classmethod
    def _are_kinds(cls, kinds: tuple[str, ...]) -> tuple[str, ...]:
        wrong = next((kind for kind in kinds if kind not in KINDS), None)
        if wrong is not None:  # else nobody would ever be told, and nobody would know
            raise ValueError(f"must be some of {', '.join(KINDS)}, got {wrong!r}")
        return kinds

    def wants(self, controller: str, kind: str) -> bool:
        """Whether it is to be told of such an alarm."""
        return (not self.controllers or controller in self.controllers) and (not self.kinds or kind in self.kinds)


class Webhook(AlarmFilter):
    """An address that takes a POST of JSON, signed."""

    url: str
    secret_file: Path | None = None

    @field_validator("url")
    @classmethod
    def _is_address(cls, url: str) -> str:
        try:
            parts = urlsplit(url)
            is_address = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # no such port
            is_address = False
        if not is_address or not url.isascii() or not url.isprintable() or " " in url:
            raise ValueError(f"must look like https://example.com/alarms, got {url!r}")
        return url

    @property
    def called(self) -> str:
        """What it is called."""
        return self.name or f"webhook {urlsplit(self.url).hostname}"

    @property
    def together(self) -> int:
        """How many alarms go out together: one in each request."""
        return 1

    def check(self) -> None:
        """Read the secret, to find out at the start what is wrong with it."""
        self._secret()

    def _secret(self) -> bytes | None:
        if self.secret_file is None:
            return None
        found = _secret_of(self.base / self.secret_file, "the secret of the webhook")
        if len(found) < SHORTEST_SECRET:
            raise InvalidInput(f"{self.secret_file} has {len(found)} characters, but needs {SHORTEST_SECRET} or more")
        return found.encode()

    def send(self, notices: Sequence[Notice]) -> None:
        """Post each of them; anything but a status of 200 to 299 is a failure."""
        secret = self._secret()
        for notice in notices:
            body = json.dumps({**vars(notice), "text": f"{notice.words}. {notice.sentence}"}, sort_keys=True).encode()
            headers = {"Content-Type": "application/json", "Holdcourse-Delivery": notice.id}
            if secret is not None:
                headers["Holdcourse-Signature"] = signature(secret, body, int(time.time()))
            request = urllib.request.Request(self.url, body, headers, method="POST")
            with _OPENER.open(request, timeout=TIMEOUT_S) as reply:
                reply.read(1024)
                if not 200 <= reply.status < 300:
                    raise OSError(f"status {reply.status}")


def signature(secret: bytes, body: bytes, at: int) -> str:
    """Return what proves who sent a body, and when: the HMAC-SHA256 of the time, a dot and the body."""
    return f"t={at},v1={hmac.new(secret, b'%d.' % at + body, hashlib.sha256).hexdigest()}"


class _Stays(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become a GET without its body, and still look delivered."""

    def redirect_request(self, *given: Any, **named: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_Stays)


class Email(AlarmFilter):
    """A mail server, and to whom."""

    host: str = Field(min_length=1)
    port: int = Field(default=587, ge=1, le=65535)
    tls: Literal["starttls", "tls", "none"] = "starttls"
    user: str | None = None
    password_file: Path | None = None
    sender: str = Field(alias="from", min_length=3)
    to: tuple[str, ...] = Field(min_length=1)

    @field_validator("to", "sender")
    @classmethod
    def _are_addresses(cls, given: Any) -> Any:
        for each in [given] if isinstance(given, str) else given:
            if re.fullmatch(r"[^@\s<>,]+@[^@\s<>,]+", each) is None:
                raise ValueError(f"must be addresses like control@example.com, got {each!r}")
        return given

    @model_validator(mode="after")
    def _keeps_its_password(self) -> Email:
        if self.user is not None and self.tls == "none":
            raise ValueError("a password is not sent unencrypted; use tls = 'starttls' or 'tls'")
        if (self.user is None) != (self.password_file is None):
            raise ValueError("user and password_file belong together; give both, or neither")
        return self

    @property
    def called(self) -> str:
        """What it is called."""
        return self.name or f"e-mail to {self.to[0]}"

    @property
    def together(self) -> int:
        """How many alarms go out together: as many as a person can read."""
        return 50

    def check(self) -> None:
        """Read the password, to find out at the start what is wrong with it."""
        self._password()

    def _password(self) -> str:
        if self.password_file is None:
            return ""
        return _secret_of(self.base / self.password_file, "the password of the mail server")

    def send(self, notices: Sequence[Notice]) -> None:
        """Send one mail about all of them."""
        mail = EmailMessage()
        more = f" and {len(notices) - 1} more" if len(notices) > 1 else ""
        mail["Subject"] = f"{notices[0].words}{more}"[:200]
        mail["From"], mail["To"] = self.sender, ", ".join(self.to)
        mail["Message-ID"] = f"<{notices[0].id}@holdcourse>"
        mail["Auto-Submitted"] = "auto-generated"
        said = (f"{each.words}\n{each.sentence}\nRaised at {each.at}." for each in notices)
        mail.set_content("\n\n".join(said) + "\n")
        context = ssl.create_default_context()
        if self.tls == "tls":
            server: smtplib.SMTP = smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_S, context=context)
        else:
            server = smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_S)
        with server:
            if self.tls == "starttls":
                server.starttls(context=context)
            if self.user is not None:
                server.login(self.user, self._password())
            refused = server.send_message(mail)
        if refused:
            raise OSError(f"refused for {', '.join(refused)}")


def _secret_of(path: Path, what: str) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidInput(f"cannot read {path}: {reason}; it must contain {what}") from None


class NotifyFile(Section):
    """A file of who is told.

    Attributes
    ----------
    repeat
        An open alarm that nobody acknowledged is said again after so long; None: never.
    say_cleared
        Whether it is said when an alarm is over.
    """

    repeat: Interval = 3600.0
    say_cleared: bool = True
    webhook: tuple[Webhook, ...] = ()
    email: tuple[Email, ...] = ()

    @model_validator(mode="after")
    def _has_targets(self) -> NotifyFile:
        names = [target.called for target in self.targets]
        twice = next((name for name in names if names.count(name) > 1), None)
        if not names:
            raise ValueError("nobody would receive alarms: give a section [[webhook]] or [[email]]")
        if twice is not None:
            raise ValueError(f"two targets are called {twice!r}; give each its own name")
        return self

    @property
    def targets(self) -> tuple[Webhook | Email, ...]:
        """All who are told of alarms, webhooks first."""
        return (*self.webhook, *self.email)


def load_notify(path: Path) -> NotifyFile:
    """Read such a file, and the secrets that it names; one line says what is wrong."""
    _, data = read_toml(path)
    try:
        file = NotifyFile.model_validate(data)
    except ValidationError as error:
        _, line = first_in_words(error, _known_keys)
        raise InvalidInput(f"{path}: {line}") from None
    base = {"base": path.resolve().parent}
    file = file.model_copy(
        update={
            "webhook": tuple(each.model_copy(update=base) for each in file.webhook),
            "email": tuple(each.model_copy(update=base) for each in file.email),
        }
    )
    for target in file.targets:
        target.check()
    return file


def _known_keys(place: Place) -> list[str]:
    """Return the keys of the section at a place."""
    sections: dict[str, type[BaseModel]] = {"webhook": Webhook, "email": Email}
    model = sections.get(str(place[0]) if place else "", NotifyFile)
    return [field.alias or name for name, field in model.model_fields.items() if name != "base"]
