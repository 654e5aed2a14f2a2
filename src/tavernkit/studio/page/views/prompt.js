/** The prompt, live: its blocks in order, and where every sentence came from. */

import { documentOf, latency, reveal, setValue, turn, useKept, useStudio } from "../store.js";
import { at } from "../patch.js";
import { Fragment, html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { Dot, Empty, Tabs, counted, placeName } from "../widgets.js";
import { CacheBar, Changes, Checks, LeftOut, LoreRows, Payload, Tokens } from "./prompt_details.js";

/** @typedef {import("../types").Block} Block */
/** @typedef {import("../types").Build} Build */
/** @typedef {import("../types").Span} Span */
/** @typedef {import("../types").Source} Source */

const KINDS = {
  verbatim: "word for word",
  expanded: "expanded from a macro",
  replaced: "replaced by a script",
  aligned: "changed on its way",
  added: "added by the builder",
};

export function PromptView() {
  const { build, sources, waiting } = useStudio();
  const [tab, setTab] = useKept("prompt", "blocks");
  if (!build) return html`<${Empty} text="Building…" />`;
  const { lore, left_out, changes } = build;
  const changed = changes && !changes.same ? changes.messages.filter(({ kind }) => kind !== "same").length : 0;
  const tabs = [
    { id: "blocks", label: "Prompt" },
    { id: "changes", label: "Changes", note: changed || "" },
    { id: "tokens", label: "Tokens" },
    { id: "lore", label: "Lore", note: `${lore.active}/${lore.total}` },
    { id: "out", label: "Left out", note: left_out.length || "" },
    { id: "payload", label: "Payload" },
    { id: "cache", label: "Cache" },
    { id: "checks", label: "Checks" },
  ];
  return html`<div class="prompt" aria-busy=${waiting ? "true" : "false"}>
    <${Ask} />
    ${build.error && html`<p class="problem" role="alert">${build.error.message}</p>`}
    <${Budget} build=${build} />
    <${Tabs} label="What to see of the prompt" tabs=${tabs} chosen=${tab} choose=${setTab} controls="prompt-panel" />
    <div id="prompt-panel" role="tabpanel" tabindex="0" aria-label=${tabs.find(({ id }) => id === tab)?.label}>
      ${tab === "blocks" && html`<${Blocks} build=${build} sources=${sources} />`}
      ${tab === "changes" && html`<${Changes} build=${build} />`}
      ${tab === "tokens" && html`<${Tokens} build=${build} />`}
      ${tab === "lore" && html`<${LoreRows} rows=${lore.rows} total=${lore.total} />`}
      ${tab === "out" && html`<${LeftOut} build=${build} />`}
      ${tab === "payload" && html`<${Payload} build=${build} />`}
      ${tab === "cache" && html`<${CacheBar} build=${build} />`} ${tab === "checks" && html`<${Checks} />`}
    </div>
  </div>`;
}

/** What is asked for: the next message, the kind of turn, the program. */
function Ask() {
  const { workspace } = useStudio();
  const id = workspace.active.turn;
  const asked = turn();
  /** @param {string} pointer */
  const choose = (pointer) => (/** @type {any} */ event) => setValue(id, pointer, event.target.value, null);
  return html`<form class="ask" onSubmit=${(/** @type {Event} */ event) => event.preventDefault()}>
    <label class="field grow">
      <span>Next message</span>
      <input
        id="next-message"
        type="text"
        data-pointer="/message"
        value=${asked.message || ""}
        placeholder="What the user says next"
        onInput=${(/** @type {any} */ event) => setValue(id, "/message", event.target.value)}
      />
    </label>
    <label class="field">
      <span>Turn</span>
      <select id="generation-type" onChange=${choose("/generation_type")}>
        ${workspace.generation_types.map(
          (name) => html`<option value=${name} selected=${name === asked.generation_type}>${name}</option>`,
        )}
      </select>
    </label>
    <label class="field">
      <span>Platform</span>
      <select id="platform" onChange=${choose("/platform")}>
        <option value="silly_tavern" selected=${asked.platform === "silly_tavern"}>SillyTavern</option>
        <option value="risu_ai" selected=${asked.platform === "risu_ai"}>RisuAI</option>
      </select>
    </label>
    <label class="field">
      <span>API</span>
      <select id="dialect" onChange=${choose("/dialect")}>
        ${workspace.dialects.map((name) => html`<option value=${name} selected=${name === asked.dialect}>${name}</option>`)}
      </select>
    </label>
  </form>`;
}

/** @param {{build: Build}} props */
function Budget({ build }) {
  const { workspace } = useStudio();
  const { total, note } = build.budget;
  const limit = build.budget.limit ?? total;
  const response = build.budget.response ?? 0;
  const free = Math.max(0, limit - total);
  const label = (/** @type {string} */ name) =>
    workspace.families.find((family) => family.name === name)?.label || name;
  return html`<section class="budget" aria-label="Token budget">
    <p>
      <span><strong>${total.toLocaleString("en")}</strong> of ${counted(limit, "token")}</span>
      <small>${response ? `and ${response.toLocaleString("en")} for the reply` : ""}</small>
      <${Latency} />
    </p>
    <div class="bar" role="img" aria-label=${`${total} tokens used, ${free} free. ${note}`} title=${note}>
      ${build.shares.map(({ family, tokens }) => html`<span class=${`f-${family}`} style=${{ flexGrow: tokens }}></span>`)}
      <span class="free" style=${{ flexGrow: free }}></span>
      <span class="kept" style=${{ flexGrow: response }}></span>
    </div>
    <ul class="legend">
      ${build.shares.map(
        ({ family, tokens }) =>
          html`<li><${Dot} family=${family} />${label(family)} <small>${tokens.toLocaleString("en")}</small></li>`,
      )}
    </ul>
  </section>`;
}

/** From a keystroke to its prompt on the screen. Not in the state: showing it must not draw everything again. */
function Latency() {
  const [shown, setShown] = useState(latency.last);
  useEffect(() => {
    latency.tell = setShown;
    return () => void (latency.tell = () => {});
  }, []);
  const rounded = shown === null ? "" : Math.round(shown);
  return html`<small class="speed" id="latency" data-ms=${rounded} title="from a keystroke to its prompt">
    ${shown === null ? "" : `${rounded} ms`}
  </small>`;
}

/**
 * The blocks of a prompt in order, coloured by source; sentences say where they came from once that is known.
 * @param {{build: Build, sources: import("../types").Sources | null}} props
 */
export function Blocks({ build, sources }) {
  const [origin, setOrigin] = useState(/** @type {{block: Block, piece: Piece} | null} */ (null));
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const spans = useMemo(() => new Map((sources?.blocks || []).map((block) => [block.id, block.spans])), [sources]);
  const touched = useMemo(() => touchedBlocks(build), [build]);
  const known = sources && sources.plan === build.plan ? sources.sources : null;

  /** Arrow keys walk from sentence to sentence, so that Tab stays quick. @param {KeyboardEvent} event */
  const walk = (event) => {
    const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const here = /** @type {HTMLElement} */ (event.target);
    if (!way || !here.classList.contains("words")) return;
    const all = /** @type {HTMLElement[]} */ ([...(list.current?.querySelectorAll(".words[role]") || [])]);
    const next = all[all.indexOf(here) + way];
    if (!next) return;
    event.preventDefault();
    next.focus();
  };

  if (build.blocks.length === 0) return html`<${Empty} text="There is no prompt." />`;
  return html`<${Fragment}>
    <${Notes} build=${build} />
    <ol class="blocks" ref=${list} onKeyDown=${walk}>
      ${build.blocks.map(
        (block) =>
          html`<${BlockRow}
            key=${block.id}
            block=${block}
            spans=${known ? spans.get(block.id) : undefined}
            sources=${known}
            touched=${touched.has(block.id)}
            chosen=${origin?.block.id === block.id ? origin.piece : null}
            show=${setOrigin}
          />`,
      )}
    </ol>
    <${Stops} stop=${build.stop} />
    ${origin && known && html`<${Origin} ...${origin} sources=${known} close=${() => setOrigin(null)} />`}
  <//>`;
}

/** Blocks of messages that changed since the last look. @param {Build} build */
function touchedBlocks(build) {
  const changes = build.changes && !build.changes.same ? build.changes.messages : [];
  const found = changes.filter(({ kind, index }) => kind !== "same" && index !== null);
  return new Set(found.flatMap(({ index }) => build.messages[/** @type {number} */ (index)]?.blocks || []));
}

/** @param {{build: Build}} props */
const Notes = ({ build }) =>
  build.warnings.length + build.hints.length > 0 &&
  html`<details class="warnings" open=${build.warnings.length > 0 && build.warnings.length < 4}>
    <summary>
      ${build.warnings.length > 0 ? counted(build.warnings.length, "warning") : counted(build.hints.length, "hint")}
    </summary>
    <ul>
      ${[...build.warnings, ...build.hints].map((text) => html`<li>${text}</li>`)}
    </ul>
  </details>`;

/** @param {{stop: string[]}} props */
const Stops = ({ stop }) =>
  stop.length > 0 &&
  html`<section class="stops" aria-label="Stop strings">
    <h3>Stops at</h3>
    ${stop.map((text) => html`<code>${JSON.stringify(text).slice(1, -1)}</code> `)}
  </section>`;

/** @typedef {{text: string, start: number, span: Span, from: number, to: number}} Piece */

const sentences = new Intl.Segmenter("en", { granularity: "sentence" });

/**
 * Cut spans into sentences; what stands word for word in its source is cut there too.
 * @param {string} content
 * @param {Span[]} spans
 * @returns {Piece[]}
 */
function pieces(content, spans) {
  return spans.flatMap((span) => {
    const text = content.slice(span.start, span.end);
    if (span.kind !== "verbatim" || text.length < 40) {
      return [{ text, start: span.start, span, from: span.from, to: span.to }];
    }
    return [...sentences.segment(text)].map(({ segment, index }) => ({
      text: segment,
      start: span.start + index,
      span,
      from: span.from + index,
      to: span.from + index + segment.length,
    }));
  });
}

/**
 * @param {{block: Block, spans?: Span[], sources: Source[] | null, touched: boolean, chosen: Piece | null, show: (origin: any) => void}} props
 */
function BlockRow({ block, spans, sources, touched, chosen, show }) {
  const cut = useMemo(() => (spans ? pieces(block.content, spans) : null), [spans, block.content]);
  const firstOpen = (cut || []).findIndex(
    ({ text, span }) => text.trim() !== "" && span.source !== null && Boolean(sources?.[span.source]?.document),
  );
  return html`<li class=${`block f-${block.family}`} data-family=${block.family} data-block=${block.id}>
    <header>
      <span class="role">${block.role}${block.name ? ` · ${block.name}` : ""}</span>
      <span class="source">${block.source}</span>
      ${touched && html`<span class="pill">changed</span>`}
      <span class="cost">${counted(block.tokens, "token")}</span>
    </header>
    <p class="text" dir="auto">
      ${
        cut && sources
          ? cut.map(
              (piece, index) =>
                html`<${Words}
                  key=${piece.start}
                  piece=${piece}
                  block=${block}
                  source=${piece.span.source === null ? null : sources[piece.span.source]}
                  first=${index === firstOpen}
                  chosen=${chosen?.start === piece.start}
                  show=${show}
                />`,
            )
          : block.content
      }
    </p>
    ${block.reason && html`<footer>${block.reason}</footer>`}
  </li>`;
}

/** @param {{piece: Piece, block: Block, source: Source | null, first: boolean, chosen: boolean, show: (origin: any) => void}} props */
function Words({ piece, block, source, first, chosen, show }) {
  const look = () => show({ block, piece });
  const can = Boolean(source?.document);
  const go = () => can && source && openAt(source, piece);
  /** @param {PointerEvent} event */
  const click = (event) => {
    look();
    // A finger cannot hover: a tap shows where it came from, and the button there opens it.
    if (event.pointerType === "touch")
      /** @type {HTMLElement} */ (event.currentTarget).scrollIntoView({ block: "center" });
    else if (!getSelection()?.toString()) go();
  };
  /** @param {KeyboardEvent} event */
  const press = (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    go();
  };
  if (piece.text.trim() === "") return piece.text;
  const classes = `words w-${piece.span.kind}${chosen ? " chosen" : ""}`;
  if (!can) return html`<span class=${classes} onMouseEnter=${look} onClick=${look}>${piece.text}</span>`;
  return html`<span
    class=${classes}
    role="button"
    tabindex=${first ? 0 : -1}
    aria-description=${source ? `from ${nameOf(source)}, ${KINDS[piece.span.kind]}` : undefined}
    onMouseEnter=${look}
    onFocus=${look}
    onClick=${click}
    onKeyDown=${press}
    >${piece.text}</span
  >`;
}

/** @param {Source} source */
const nameOf = (source) => `${documentOf(source.document)?.name || ""} ${placeName(source.pointer, source.title)}`;

/** @param {Source} source @param {{from: number, to: number}} piece */
function openAt(source, { from, to }) {
  reveal({ document: source.document || "", pointer: source.pointer || "", from, to });
}

/** Where the words under the pointer came from. @param {{block: Block, piece: Piece, sources: Source[], close: () => void}} props */
function Origin({ block, piece, sources, close }) {
  const source = piece.span.source === null ? null : sources[piece.span.source];
  const owner = documentOf(source?.document);
  const text = owner && source ? at(owner.data, source.pointer || "") : undefined;
  return html`<aside id="origin" class=${`f-${block.family}`} aria-label="Where this came from">
    <header>
      <strong>${owner ? owner.name : source?.label || block.source}</strong>
      ${source && html`<span>${placeName(source.pointer, source.title)}</span>`}
      <small>${KINDS[piece.span.kind]}${piece.span.how ? `: ${piece.span.how}` : ""}</small>
      <button type="button" class="quiet" aria-label="Close" onClick=${close}>✕</button>
    </header>
    ${typeof text === "string" && html`<p class="excerpt" dir="auto"><${Excerpt} text=${text} from=${piece.from} to=${piece.to} /></p>`}
    ${
      owner &&
      source &&
      html`<footer>
        <small>characters ${piece.from}–${piece.to}</small>
        <button type="button" onClick=${() => openAt(source, piece)}>Open in the editor</button>
      </footer>`
    }
  </aside>`;
}

const AROUND = 80;

/** @param {{text: string, from: number, to: number}} props */
const Excerpt = ({ text, from, to }) =>
  html`${from > AROUND ? "…" : ""}${text.slice(Math.max(0, from - AROUND), from)}<mark>${text.slice(from, to)}</mark>${text.slice(
    to,
    to + AROUND,
  )}${text.length > to + AROUND ? "…" : ""}`;
