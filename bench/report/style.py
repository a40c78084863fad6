"""The page's style: light and dark, and narrow screens. Its colours are told apart by most colour-blind eyes."""

from typing import Final

STYLE: Final = """
:root { --back: #fdfdfc; --text: #1d2329; --dim: #5c6670; --rule: #d9dde1; --soft: #f1f3f4;
  --c0: #0072b2; --c1: #e69f00; --c2: #009e73; --c3: #cc79a7; --c4: #56b4e9; --c5: #d55e00;
  --met: #1a7f37; --missed: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --back: #14181c; --text: #e3e7ea; --dim: #98a3ad; --rule: #333b43;
  --soft: #1e242a; --c0: #4aa3df; --c1: #f0b429; --c2: #2fbf8f; --c3: #dd94bd; --c4: #8fd0f5; --c5: #f07f3c;
  --met: #57c26e; --missed: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; -webkit-text-size-adjust: 100%; }
main { max-width: 68rem; margin: 0 auto; padding: 1rem 1rem 4rem; }
h1 { font-size: 1.7rem; margin: 1rem 0 .3rem; }
h2 { font-size: 1.3rem; margin: 2.4rem 0 .4rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
p { margin: .4rem 0; }
a { color: var(--c0); }
section { border-top: 1px solid var(--rule); margin-top: 2.4rem; }
section > h2 { margin-top: 1.2rem; }
.dim { color: var(--dim); font-size: .875rem; }
.notice { background: var(--soft); border-left: 3px solid var(--c1); padding: .5rem .8rem; }
pre { background: var(--soft); padding: .6rem .8rem; white-space: pre-wrap;
  overflow-wrap: anywhere; border-radius: 4px; margin: .6rem 0; }
pre span { display: inline-block; }
code { font: .875rem/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.wide { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .7rem .25rem 0; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top; }
th { color: var(--dim); font-weight: 600; }
.n { text-align: right; white-space: nowrap; }
td:first-child:not(.n) { min-width: 7rem; }
.met { color: var(--met); }
.missed { color: var(--missed); font-weight: 600; }
details { margin: 1rem 0; }
summary { font-weight: 600; cursor: pointer; }
.notes { padding-left: 1.2rem; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 26rem), 1fr)); gap: 1.2rem 2rem; }
figure { margin: .8rem 0 0; min-width: 0; }
figcaption { font-size: .9rem; line-height: 1.35; }
svg { display: block; width: 100%; max-width: 34rem; height: auto; margin-top: .4rem; }
svg text { fill: var(--text); font: 11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
svg .figure { fill: var(--dim); font-variant-numeric: tabular-nums; }
svg .end { text-anchor: end; }
svg .middle { text-anchor: middle; }
svg .mark { stroke: var(--text); stroke-width: 1.5; fill: none; }
svg .grid { stroke: var(--rule); fill: none; }
.c0 { fill: var(--c0); } .c1 { fill: var(--c1); } .c2 { fill: var(--c2); }
.c3 { fill: var(--c3); } .c4 { fill: var(--c4); } .c5 { fill: var(--c5); }
[class^="l"] { fill: none; stroke-width: 2; }
.l0 { stroke: var(--c0); } .l1 { stroke: var(--c1); } .l2 { stroke: var(--c2); }
.l3 { stroke: var(--c3); } .l4 { stroke: var(--c4); } .l5 { stroke: var(--c5); }
@media (max-width: 40rem) {
  .targets thead { display: none; }
  .targets, .targets tbody, .targets tr { display: block; }
  .targets tr { border-bottom: 1px solid var(--rule); padding: .35rem 0; }
  .targets td { display: inline-block; border: 0; min-width: 0; padding: 0 .7rem 0 0; }
  .targets .of { display: block; }
}
@media print { details > * { display: block; } section { break-inside: avoid-page; } }
"""
