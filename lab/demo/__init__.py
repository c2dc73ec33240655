"""The story: a GPU dies, the training goes on. Shown, timed and checked on real parts."""
