"""How fast the real operator acts, in seconds. Every wait of the stand-in comes from here, so its figures count.

Sources: SO = the operator's sources (main, August 2026); M = measured by hand under the real operator on one machine.
"""

from __future__ import annotations

from typing import Final

STATUS_RESYNC_SECONDS: Final = 10.0
"""A NodeSet is looked at again this long after each look (SO nodeset status sync; M: it notices after 10-30 s)."""

DRAIN_RECHECK_SECONDS: Final = 30.0
"""A pod that must go but is still busy is asked again after this (SO processCondemned)."""

NO_RESTAPI_RECHECK_SECONDS: Final = 10.0
"""A Controller without a RestApi is looked at again after this (SO slurmclient sync)."""

CONTROLLER_RESYNC_SECONDS: Final = 10.0
"""A Controller is pinged again after this, while it has a RestApi."""

CLIENT_TOKEN_LIFETIME_SECONDS: Final = 15 * 60
"""Life of the operator's own Slurm token (SO slurmclient sync)."""

TOKEN_RENEWAL_SHARE: Final = 0.8
"""A token is renewed at this share of its life (SO token and slurmclient sync)."""

TOKEN_DEFAULT_LIFETIME_SECONDS: Final = 60 * 60
"""Life of a Token object's JWT when its spec says none (SO since 1.1)."""

RECONFIGURE_POLL_SECONDS: Final = 5
"""The reconfigure side container compares the config files this often (SO reconfigure script)."""

ERROR_BACKOFF_FIRST_SECONDS: Final = 0.5
ERROR_BACKOFF_MOST_SECONDS: Final = 30.0
"""A failed look is repeated after the first, doubled up to the most."""

EVENT_REPEAT_SECONDS: Final = 600.0
"""The same Event on the same object is written again only after this."""

REQUEST_TIMEOUT_SECONDS: Final = 10.0
"""Longest wait for one answer from the API server or slurmrestd."""

WATCH_TIMEOUT_SECONDS: Final = 290
"""The API server ends a watch after this; it is then started again."""
