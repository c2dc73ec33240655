"""What can go wrong with Crusoe Cloud. Each message names the object, the cause and the next step, and no secret."""

from __future__ import annotations

from typing import Final

MAX_CHARACTERS: Final = 300
_NEXT_STEP: Final = {
    400: "check the setting that it names",
    401: "check access_key_id, its secret key and this machine's clock",
    403: "the key has no right to it, or it is gone; look at it in the console",
    404: "check its id and the project's",
    409: "another operation runs on it; it is tried again, or try when that ended",
    429: "too many requests; try again in a minute",
}


class CrusoeError(Exception):
    """The call was refused, or its answer makes no sense."""


class NoAnswerError(CrusoeError):
    """The service could not be asked, or had an error of its own. Nothing is known about the object."""


class UnknownOutcomeError(NoAnswerError):
    """The request may or may not have been carried out; look before it is sent again."""


class RefusedError(CrusoeError):
    """A 4xx answer."""

    def __init__(self, what: str, status: int, text: str) -> None:
        super().__init__(f"Crusoe refused {what}: {status} {text}; {_NEXT_STEP.get(status, 'see its message')}")
        self.status = status
        self.text = text


class NotFoundError(RefusedError):
    """404: the API answered that there is none."""


class OperationFailedError(CrusoeError):
    """A long operation ended as FAILED."""


class OperationForgottenError(CrusoeError):
    """The operation can't be read any more (403 or 404): only the object's own state tells how it ended."""


class UnfinishedError(NoAnswerError):
    """It goes on there, and our deadline is over. Running it again looks at what is there first."""


class OutOfStockError(CrusoeError):
    """There is no capacity of this type now."""


def is_out_of_stock(text: str) -> bool:
    return "out of stock" in text.lower().replace("_", " ").replace("-", " ")


def out_of_stock(what: str, text: str) -> OutOfStockError:
    return OutOfStockError(f"{what}: Crusoe is out of stock ({text}); wait for capacity, or use other")


def refused(what: str, status: int, text: str) -> CrusoeError:
    if is_out_of_stock(text):
        return out_of_stock(what, text)
    return (NotFoundError if status == 404 else RefusedError)(what, status, text)


def plain(text: str, secrets: tuple[str, ...]) -> str:
    """One short line of what the service said: the end of a gRPC text, without anything secret."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text.rpartition(" desc = ")[2]).split())
    for secret in secrets:
        line = line.replace(secret, "***") if secret else line
    return line[:MAX_CHARACTERS]
