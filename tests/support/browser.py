"""A page in headless Chromium: what a person would see of it, measured by the browser itself."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

SECONDS = 90
PROBE = """
<script>
window.addEventListener('load', () => {
  const box = (one) => { const r = one.getBoundingClientRect();
    const kind = one.getAttribute('class');
    return {x: r.x, y: r.y, width: r.width, height: r.height, text: one.textContent, kind}; };
  const all = (what) => [...document.querySelectorAll(what)].map(box);
  const colour = (one) => getComputedStyle(one).color;
  const found = {
    page: document.documentElement.scrollWidth, window: window.innerWidth,
    bars: all('svg .bar'), labels: all('svg .label'), took: all('svg .took'), marks: all('svg .mark'),
    pictures: [...document.querySelectorAll('svg')].map((svg) => ({...box(svg),
      words: [...svg.querySelectorAll('text')].map(box), parts: [...svg.querySelectorAll('text, rect')].map(box)})),
    ink: colour(document.body), back: getComputedStyle(document.body).backgroundColor,
    links: [...document.querySelectorAll('a')].map((a) => a.getAttribute('href')),
    ids: [...document.querySelectorAll('[id]')].map((one) => one.id),
    open: [...document.querySelectorAll('details[open]')].map((one) => one.id),
    scripts: document.scripts.length, text: document.body.innerText,
  };
  const pre = document.createElement('pre');
  pre.id = 'probe'; pre.textContent = JSON.stringify(found); document.body.append(pre);
});
</script>
"""


@dataclass(frozen=True)
class Browser:
    """Each look is a browser of its own; ``folder`` is where its files go."""

    program: str
    folder: Path

    def look(self, page: str, width: int = 1200, height: int = 900, *, night: bool = False) -> dict[str, Any]:
        """What the browser measured. The page's own rule against scripts gives way to the probe alone."""
        file = self.folder / "page.html"
        file.write_text(re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page).replace("</body>", PROBE))
        more = ["--blink-settings=preferredColorScheme=0"] if night else []
        dom = self._run("--dump-dom", f"--window-size={width},{height}", *more, file.as_uri())
        (found,) = re.findall(r'<pre id="probe">(.*?)</pre>', dom, re.DOTALL)
        return json.loads(unescape(found))

    def _run(self, *arguments: str) -> str:
        own = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self.folder / 'profile'}"]
        done = subprocess.run(
            [self.program, *own, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout
