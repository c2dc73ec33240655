"""Pages to look at: one HTML file each, with nothing to fetch and no script. Pure: objects and a time in, text out."""
