"""What goes wrong in a dynamic resource, as the engine shows it: one sentence, without the traceback around it.

The SDK answers the engine with the traceback of whatever a provider raises. A sentence that says what failed and what
to do next needs none; a fault of ours keeps its own.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


class NotDone(Exception):  # noqa: N818 - people read the name where the sentence can't stand alone
    """The resource is not as declared; the message names the object, the cause and the next step."""


@contextmanager
def plainly() -> Generator[None, None, None]:
    """Errors with a sentence of their own are shown as that alone."""
    from sparewheel.capacity.port import CapacityError
    from sparewheel.crusoe.errors import CrusoeError
    from sparewheel.kube.access import AccessError
    from sparewheel.kube.port import KubeError

    try:
        yield
    except (NotDone, CapacityError, CrusoeError, AccessError, KubeError) as error:
        _answer_with(str(error))
        raise NotDone(str(error)) from None


def _answer_with(sentence: str) -> None:
    """The SDK gives a provider no way to answer, but holds the call's context further up on this very stack."""
    frame = sys._getframe()  # noqa: SLF001 - as the module inspect does it
    while frame is not None:
        context: Any = frame.f_locals.get("context")
        if callable(getattr(context, "abort", None)):
            context.abort = _only(sentence, context.abort)
            return
        frame = frame.f_back


def _only(sentence: str, abort: Callable[..., Any]) -> Callable[..., Any]:
    def answer(code: object, _traceback: str) -> object:
        return abort(code, sentence)

    return answer
