"""Lets torchrun work on a PyTorch that was built without libuv, as Debian's is.

torchrun's rendezvous and its workers ask TCPStore for libuv in places that don't look at the environment. Started by
the `.pth` file beside it, this says no for them when torch.distributed is first imported; it costs nothing otherwise.
"""

import functools
import os
from typing import Any

from wrapt import when_imported


@when_imported("torch.distributed")
def _default_to_plain_sockets(module: Any) -> None:
    os.environ.setdefault("USE_LIBUV", "0")
    store = getattr(module, "TCPStore", None)
    if store is None:
        return
    original = store.__init__

    @functools.wraps(original)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if len(args) < 9:  # the ninth positional argument is use_libuv itself
            kwargs["use_libuv"] = False
        original(self, *args, **kwargs)

    store.__init__ = init
