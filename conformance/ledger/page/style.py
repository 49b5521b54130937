"""How the ledger looks, beside what all pages have."""

LOOKS = """
:root { --proved: #1a7f37; --exhaustive: #2f6fd0; --tried: #7a6a00; --onword: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --proved: #2f9e4f; --exhaustive: #4a86e0;
  --tried: #a08c10; --onword: #0b0d0f; } }
main { max-width: 84rem; }
h4 { margin: 1rem 0 .3rem; font-size: .95rem; }
.lead { font-size: 1.05rem; max-width: 60rem; }
.banner { border-radius: 6px; padding: .6rem 1rem; border: 1px solid var(--line);
  background: var(--card); }
.banner.good { border-left: 6px solid var(--good); font-weight: 600; }
.banner.bad { border-left: 6px solid var(--bad); }
.word { display: inline-block; border-radius: 4px; padding: .1rem .5rem; text-decoration: none;
  border: 1px solid var(--line); color: var(--fg); }
.word b { font-weight: 600; white-space: nowrap; }
.word small { display: block; white-space: nowrap; opacity: .85; font-size: .78rem; }
.word.proved { background: var(--proved); color: var(--onword); border-color: var(--proved); }
.word.exhaustive { border-color: var(--exhaustive); box-shadow: inset 4px 0 var(--exhaustive);
  padding-left: .7rem; }
.word.confirmed-over-all-paths { border-color: var(--proved); border-style: double;
  border-width: 3px; }
.word.not-refuted { border-style: dashed; border-color: var(--tried); }
.word.open, .word.shows-nothing, .word.refuted, .word.stale { border: 2px solid var(--bad);
  color: var(--bad); background: var(--card); font-weight: 700; }
a.word:hover { outline: 2px solid var(--fg); } a { color: inherit; }
:focus-visible { outline: 3px solid var(--exhaustive); outline-offset: 2px; }
.words > div, .facts > li { display: flex; gap: .8rem; align-items: baseline; }
.words > div { margin: .35rem 0; } .words dt { flex: 0 0 13rem; } dd { margin: 0; }
.engines { display: grid; grid-template-columns: repeat(auto-fit, minmax(18rem, 1fr));
  gap: 1rem; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(12rem, 1fr)); gap: .8rem;
  padding: 0; list-style: none; } .tiles li { background: var(--card); border-radius: 8px;
  padding: .6rem .9rem; font-size: .88rem; color: var(--dim); } .tiles b { display: block;
  font-size: 1.5rem; color: var(--fg); font-variant-numeric: tabular-nums; }
.glance { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem;
  align-items: center; margin: .4rem 0 1rem; } .glance dt { color: var(--dim); }
.glance dd { display: flex; flex-wrap: wrap; gap: 4px; }
.dot { font: 11px/1.2 ui-monospace, monospace; min-width: 2.2rem; text-align: center; }
.scroll { overflow-x: auto; }
.matrix td, .matrix th, .ticks td, .ticks th { vertical-align: middle; }
.matrix td:nth-child(2) { min-width: 18rem; }
.matrix th[scope=row] { min-width: 6.5rem; max-width: 20rem; overflow-wrap: anywhere;
  scroll-margin-top: 4rem; }
.family th { padding-top: 1rem; color: var(--dim); font-weight: 600; }
.none { color: var(--dim); font-size: .8rem; opacity: .7; }
.ticks td { text-align: center; padding: .1rem .3rem; color: var(--dim); }
.ticks td:nth-child(2) { text-align: left; min-width: 20rem; color: inherit; }
.ticks .yes { background: var(--held); font-weight: 700; color: inherit; }
.upright { vertical-align: bottom; } .upright span { writing-mode: vertical-rl;
  transform: rotate(180deg); white-space: nowrap; font-weight: 500; }
.run { user-select: all; background: var(--card); border: 1px solid var(--line);
  border-radius: 4px; padding: .1rem .4rem; overflow-wrap: anywhere; }
.panel { display: none; position: fixed; top: 0; right: 0; bottom: 0; z-index: 2;
  width: min(48rem, 100vw); overflow: auto; padding: 0 1.5rem 3rem; background: var(--bg);
  border-left: 2px solid var(--line); box-shadow: -8px 0 30px rgb(0 0 0 / .25); }
.panel:target { display: block; } .panel:focus { outline: none; }
.close { position: sticky; top: 0; text-align: right; margin: 0; padding: .6rem 0;
  background: var(--bg); } .close a { border: 1px solid var(--line); border-radius: 4px;
  padding: .2rem .7rem; text-decoration: none; background: var(--card); }
.panel pre { white-space: pre-wrap; }
.sentence { font-size: 1.05rem; } .why { color: var(--bad); font-weight: 600; }
.facts { columns: 2 20rem; column-gap: 1.5rem; list-style: none; padding: 0;
  font: 13px/1.5 ui-monospace, monospace; }
.facts > li { break-inside: avoid; border-bottom: 1px solid var(--line); padding: .1rem 0; }
.facts b { color: var(--dim); font-weight: 400; margin-left: auto; text-align: right; }
.facts .bad, .facts .bad b { color: var(--bad); font-weight: 700; }
.ids { font: 11px/1.6 ui-monospace, monospace; overflow-wrap: anywhere; }
.beats { padding-left: 1.6rem; } .beats > li { border-top: 1px solid var(--line);
  padding: .3rem 0 .5rem .3rem; } .beats h4 { display: inline; } .beats ul { margin: .3rem 0; }
.requests { width: auto; margin: .4rem 0; } .requests td, .requests th { border: 0;
  padding: .1rem .9rem .1rem 0; }
.slots { display: inline-block; border: 1px solid var(--line); border-radius: 3px;
  padding: 0 .35rem; margin-right: 3px; font: 12px/1.6 ui-monospace, monospace; }
.slots.held { background: var(--held); } .slots.cached { background: var(--cached); }
.slots.none { border-style: dashed; color: var(--dim); }
@media (min-width: 110rem) { body:has(.panel:target) main { margin-left: 2rem;
  max-width: calc(100vw - 54rem); } }
@media (max-width: 40rem) { .words > div { display: block; } .words dd { margin: .2rem 0 .6rem; }
  .glance { grid-template-columns: 1fr; } .panel { padding: 0 .8rem 2rem; } }
@media print { .panel { display: block; position: static; width: auto; box-shadow: none;
  border: 0; border-top: 2px solid var(--line); break-before: page; } .close { display: none; } }
"""
