"""How the pages look, on a screen by day and night and on paper."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1c2430; --soft: #5b6675; --line: #d5dbe3; --back: #ffffff; --panel: #f4f6f9;
  --node: #2f6db3; --job: #23804c; --told: #a86a00; --bad: #b3261e; --good: #23804c; --wait: #8a5a00; --mark: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e9f0; --soft: #9aa7b8; --line: #364152; --back: #12171f;
  --panel: #1b222d; --node: #6ea8e8; --job: #5fc48b; --told: #e0a84a; --bad: #ff8a80; --good: #5fc48b; --wait: #e0a84a;
  --mark: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--ink); font: 16px/1.5 system-ui, "DejaVu Sans", sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 24px 16px 64px; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 32px 0 8px; }
h3 { font-size: 1rem; margin: 16px 0 4px; overflow-wrap: anywhere; }
p { margin: 4px 0 12px; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
a { color: var(--node); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
th, td { text-align: left; vertical-align: top; padding: 6px 12px 6px 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); white-space: nowrap; }
td { overflow-wrap: break-word; }
.badge { display: inline-block; padding: 0 8px; border: 1px solid currentColor; border-radius: 10px; font-size: 0.85rem;
  white-space: nowrap; }
.badge.good { color: var(--good); } .badge.bad { color: var(--bad); } .badge.wait { color: var(--wait); }
.badge.plain { color: var(--soft); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 12px; margin: 16px 0; }
.card { background: var(--panel); border-radius: 8px; padding: 12px; }
.card .name, .card .note { color: var(--soft); font-size: 0.85rem; }
.card .value { font-size: 1.6rem; font-weight: 600; line-height: 1.3; }
.attention { border-left: 4px solid var(--bad); background: var(--panel); padding: 8px 16px; border-radius: 4px; }
.attention.none { border-color: var(--good); }
.attention ul { margin: 4px 0; padding-left: 20px; } .attention li { overflow-wrap: anywhere; }
details { border: 1px solid var(--line); border-radius: 8px; padding: 8px 16px; margin: 8px 0; }
summary { cursor: pointer; font-weight: 600; overflow-wrap: anywhere; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: 0.9em; overflow-wrap: anywhere; }
svg { display: block; width: 100%; min-width: 900px; height: auto; font: 13px system-ui, "DejaVu Sans", sans-serif; }
svg text { fill: var(--ink); } svg .soft { fill: var(--soft); } svg .grid { stroke: var(--line); }
svg .fault { stroke: var(--mark); stroke-dasharray: 4 3; }
svg .node { fill: var(--node); } svg .job { fill: var(--job); } svg .notified { fill: var(--told); }
svg .good { fill: var(--good); } svg .bad { fill: var(--bad); } svg .wait { fill: var(--wait); }
svg .plain { fill: var(--soft); } svg .open { fill-opacity: 0.45; stroke: var(--ink); stroke-dasharray: 3 2; }
@media print { details { break-inside: avoid; } body { font-size: 12px; }
  svg { min-width: 0; } .wide { overflow: visible; } }
"""
