"""One file per stage of the node track: precondition, act, is_done."""
