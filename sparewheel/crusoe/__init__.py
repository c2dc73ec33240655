"""Crusoe Cloud's public REST API: signing, paging, long operations, errors that say what to do."""
