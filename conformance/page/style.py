"""How a page looks: light or dark as the reader prefers, and on paper."""

STYLE = """
:root { color-scheme: light dark; --bg: #fdfdfc; --fg: #1d2125; --dim: #5b6570; --line: #d5d9dd;
  --card: #f3f4f2; --bad: #b3261e; --good: #1a7f37; --warn: #8a6100; --odd: #7a3db8;
  --prefill: #9cc3ee; --decode: #c9e4cf; --again: #f0cf94; --wait: #e6e8ea; --cut: #f2b1ab;
  --end: #b8bfc6; --free: #eef0f1; --cached: #e2d9f3; --held: #c9e4cf; --shared: #9cc3ee; }
@media (prefers-color-scheme: dark) { :root { --bg: #16191c; --fg: #e4e7ea; --dim: #9aa4ae;
  --line: #363c42; --card: #1f2428; --bad: #ff8f85; --good: #6fd18a; --warn: #e3b341;
  --odd: #c9a2ee; --prefill: #2b5c92; --decode: #2c5a39; --again: #77571a; --wait: #2b3136;
  --cut: #7c322c; --end: #4b545c; --free: #23292e; --cached: #47386a; --held: #2c5a39;
  --shared: #2b5c92; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--fg);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 72rem; margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.15rem; margin-top: 2rem; }
article + article { border-top: 2px solid var(--line); margin-top: 3rem; }
.verdict { font-weight: 700; } .VIOLATION { color: var(--bad); } .CONFORMS { color: var(--good); }
.INCONCLUSIVE { color: var(--warn); } .MALFORMED { color: var(--odd); }
.dim, figcaption, caption { color: var(--dim); } caption { text-align: left; }
.sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr)); gap: 1rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  padding: .75rem 1rem; overflow-wrap: anywhere; }
.sides + .card { margin-top: 1rem; }
.card h3 { margin: 0 0 .4rem; font-size: .95rem; } .card p { margin: .3rem 0; }
.card.rules { border-left: 4px solid var(--good); }
.card.trace { border-left: 4px solid var(--bad); }
.value { font: 1.05rem ui-monospace, monospace; }
pre { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: .75rem;
  overflow: auto; max-height: 30rem; } pre.copy { user-select: all; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
figure { margin: 0; } .wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; vertical-align: top;
  border-bottom: 1px solid var(--line); overflow-wrap: break-word; }
svg text { fill: var(--fg); font: 10px ui-monospace, monospace; }
svg .n { fill: var(--prefill); } svg .p { fill: var(--prefill); } svg .d { fill: var(--decode); }
svg .r { fill: var(--again); } svg .w { fill: var(--wait); } svg .x { fill: var(--cut); }
svg .f { fill: var(--end); } svg .s { fill: none; stroke: var(--line); }
svg .fault { fill: none; stroke: var(--bad); stroke-width: 2; }
.legend { display: flex; flex-wrap: wrap; gap: .3rem 1rem; padding: 0; list-style: none; }
.pool { display: flex; flex-wrap: wrap; gap: 3px; padding: 0; list-style: none; }
.pool li { font: 11px/1.3 ui-monospace, monospace; padding: 2px 5px; border-radius: 3px;
  border: 1px solid var(--line); background: var(--free); }
.legend.pool { gap: .3rem .6rem; } .legend.pool li { border: 0; padding: 0; background: none; }
.legend.pool span { border: 1px solid var(--line); border-radius: 3px; padding: 2px 5px;
  background: var(--free); }
.pool .cached, .legend.pool .cached { background: var(--cached); }
.pool .held, .legend.pool .held { background: var(--held); }
.pool .shared, .legend.pool .shared { background: var(--shared); }
.pool .about, .legend.pool .about { border: 2px solid var(--bad); padding: 1px 4px; }
@media print { main { max-width: none; padding: 0; } pre { max-height: none;
  white-space: pre-wrap; } .wide { overflow: visible; } svg { max-width: 100%; height: auto; }
  h2 { break-after: avoid; } .card, .pool li, tr { break-inside: avoid; }
  details > * { display: block; } }
"""
