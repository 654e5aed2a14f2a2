/** Small parts that every view uses. */

import { Editor } from "./editor.js";
import { at } from "./patch.js";
import { current, documentOf, setValue } from "./store.js";
import { html, useEffect, useId, useRef, useState } from "./vendor/preact.js";

/** @param {number} count @param {string} one @param {string} [many] */
export const counted = (count, one, many = one + "s") => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;

/**
 * Tabs with the keys that tabs have everywhere: arrows, Home, End.
 * @param {{label: string, tabs: {id: string, label: any, note?: any}[], chosen: string, choose: (id: string) => void, controls?: string}} props
 */
export function Tabs({ label, tabs, chosen, choose, controls }) {
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const index = tabs.findIndex((tab) => tab.id === chosen);
    const places = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 };
    if (!Object.hasOwn(places, event.key)) return;
    event.preventDefault();
    const next = tabs[(places[/** @type {keyof typeof places} */ (event.key)] + tabs.length) % tabs.length];
    choose(next.id);
    /** @type {HTMLElement | null | undefined} */ (list.current?.querySelector(`[data-tab="${next.id}"]`))?.focus();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${move}>
    ${tabs.map(
      (tab) =>
        html`<button
          key=${tab.id}
          type="button"
          role="tab"
          data-tab=${tab.id}
          aria-selected=${tab.id === chosen ? "true" : "false"}
          aria-controls=${controls}
          tabindex=${tab.id === chosen ? 0 : -1}
          onClick=${() => choose(tab.id)}
        >
          ${tab.label}${tab.note !== undefined && tab.note !== "" && html` <small>${tab.note}</small>`}
        </button>`,
    )}
  </div>`;
}

/**
 * A dialog that keeps the focus and gives it back.
 * @param {{title: string, close: () => void, children?: any, footer?: any, wide?: boolean}} props footer stays in sight
 */
export function Dialog({ title, close, children, footer, wide }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null));
  const id = useId();
  useEffect(() => {
    dialog.current?.showModal();
    return () => dialog.current?.close();
  }, []);
  return html`<dialog
    ref=${dialog}
    class=${wide ? "wide" : ""}
    aria-labelledby=${id}
    onCancel=${(/** @type {Event} */ event) => (event.preventDefault(), close())}
  >
    <header>
      <h2 id=${id}>${title}</h2>
      <button type="button" class="quiet" aria-label="Close" onClick=${close}>✕</button>
    </header>
    <div class="dialog-body" tabindex="0">${children}</div>
    ${footer && html`<footer>${footer}</footer>`}
  </dialog>`;
}

/** A label above whatever is edited. @param {{label: string, note?: any, wide?: boolean, children?: any}} props */
export const Labelled = ({ label, note, wide, children }) =>
  html`<label class=${wide ? "field wide" : "field"}
    ><span>${label}${note && html` <small>${note}</small>`}</span>${children}</label
  >`;

/** @typedef {{document: string, pointer: string, label: string, note?: any, wide?: boolean, fallback?: any}} FieldProps */

/** @param {FieldProps} props @returns {any} */
const valueOf = ({ document, pointer, fallback }) => at(documentOf(document)?.data, pointer) ?? fallback;

/** The place that is open, if it is in this field. @param {string} document @param {string} pointer */
function placeIn(document, pointer) {
  const { place } = current();
  return place && place.document === document && place.pointer === pointer ? place : null;
}

/** One line of text in a document. @param {FieldProps & {hint?: string}} props */
export function TextField(props) {
  const input = useRef(/** @type {HTMLInputElement | null} */ (null));
  const place = placeIn(props.document, props.pointer);
  useEffect(() => {
    if (place?.from === undefined || place.from === null) return;
    input.current?.focus();
    input.current?.setSelectionRange(place.from, place.to ?? place.from);
  }, [place?.seen]);
  return html`<${Labelled} ...${props}>
    <input
      type="text"
      ref=${input}
      value=${valueOf({ fallback: "", ...props })}
      placeholder=${props.hint}
      data-pointer=${props.pointer}
      onInput=${(/** @type {any} */ event) => setValue(props.document, props.pointer, event.target.value)}
    />
  <//>`;
}

/** A number in a document; empty means null where that is allowed. @param {FieldProps & {least?: number, most?: number, nullable?: boolean, hint?: string, step?: number | string}} props */
export function NumberField(props) {
  const value = valueOf(props) ?? null;
  const text = String(value ?? "");
  const [typed, setTyped] = useState({ text, value });
  // While it is typed, "0." must not become "0", and what was emptied must not be filled in again.
  const shown = typed.value === value ? typed.text : text;
  /** @param {any} event */
  const change = (event) => {
    const text = event.target.value;
    const number = text === "" ? null : Number(text);
    const allowed = number === null ? props.nullable : Number.isFinite(number);
    setTyped({ text, value: allowed ? number : value });
    if (allowed) setValue(props.document, props.pointer, number);
  };
  return html`<${Labelled} ...${props}>
    <input
      type="number"
      min=${props.least}
      max=${props.most}
      step=${props.step ?? 1}
      value=${shown}
      placeholder=${props.nullable ? props.hint || "as set globally" : ""}
      data-pointer=${props.pointer}
      onInput=${change}
      onBlur=${() => setTyped({ text, value })}
    />
  <//>`;
}

/** A switch in a document. @param {FieldProps & {inverted?: boolean}} props */
export function CheckField(props) {
  const value = Boolean(valueOf(props)) !== Boolean(props.inverted);
  return html`<label class="check">
    <input
      type="checkbox"
      checked=${value}
      data-pointer=${props.pointer}
      onChange=${(/** @type {any} */ event) =>
        setValue(props.document, props.pointer, event.target.checked !== Boolean(props.inverted), null)}
    />
    <span>${props.label}</span>
  </label>`;
}

/**
 * A choice in a document.
 * @param {FieldProps & {options: [any, string][]}} props
 */
export function ChoiceField(props) {
  const value = valueOf(props);
  const known = props.options.some(([option]) => option === (value ?? null));
  /** @type {[any, string][]} */
  const options = known
    ? props.options
    : [...props.options, [value ?? null, value === undefined ? "not set" : String(value)]];
  return html`<${Labelled} ...${props}>
    <select
      data-pointer=${props.pointer}
      onChange=${(/** @type {any} */ event) =>
        setValue(props.document, props.pointer, options[event.target.selectedIndex][0], null)}
    >
      ${options.map(([option, label]) => html`<option selected=${option === (value ?? null)}>${label}</option>`)}
    </select>
  <//>`;
}

/** A list of words, one comma between two. @param {FieldProps & {hint?: string}} props */
export function WordsField(props) {
  const value = valueOf(props);
  const words = Array.isArray(value) ? value.join(", ") : String(value ?? "");
  const [typed, setTyped] = useState(words);
  // While it is typed, "a, " must not become "a,".
  const shown = same(split(typed), split(words)) ? typed : words;
  /** @param {any} event */
  const change = (event) => {
    setTyped(event.target.value);
    const list = split(event.target.value);
    setValue(props.document, props.pointer, typeof value === "string" ? list.join(", ") : list);
  };
  return html`<${Labelled} ...${props}>
    <input type="text" value=${shown} placeholder=${props.hint} data-pointer=${props.pointer} onInput=${change} />
  <//>`;
}

/** Split at commas, but not inside of /regular expressions/. @param {string} text */
const split = (text) =>
  (text.match(/\s*\/(?:\\.|[^/\\])+\/[a-z]*\s*(?=,|$)|[^,]+/g) || []).map((word) => word.trim()).filter(Boolean);

/** @param {string[]} left @param {string[]} right */
const same = (left, right) => left.length === right.length && left.every((word, index) => word === right[index]);

/** A long text in a document. @param {FieldProps & {hint?: string, size?: string, language?: string}} props */
export function LongField(props) {
  const { document, pointer, label, note, hint, size, language } = props;
  const tokens = tokensAt(document, pointer);
  return html`<div class="field wide long" data-pointer=${pointer}>
    <span aria-hidden="true"
      >${label} <small>${note}${tokens !== null && html` ${counted(tokens, "token")}`}</small></span
    >
    <${Editor}
      key=${document + pointer}
      value=${String(valueOf({ fallback: "", ...props }))}
      onChange=${(/** @type {string} */ text) => setValue(document, pointer, text)}
      label=${label}
      hint=${hint}
      size=${size}
      language=${language}
      place=${placeIn(document, pointer)}
      bound
    />
  </div>`;
}

/** What a field costs in the prompt shown, if that is known. @param {string} document @param {string} pointer */
export function tokensAt(document, pointer) {
  const { sources } = current();
  const found = [...(sources?.fields || []), ...(sources?.entries || [])].find(
    (cost) => cost.document === document && cost.pointer === pointer,
  );
  return found ? found.tokens : null;
}

/** @type {Record<string, string>} words for fields whose names in files are none */
const FIELD_NAMES = {
  first_mes: "first message",
  mes_example: "example dialogue",
  alternate_greetings: "greeting",
  depth_prompt: "character's note",
  note_prompt: "author's note",
  note: "author's note",
  message: "next message",
};

/**
 * What people call a place: "line 3, Aria", "example dialogue", the title of an entry.
 * @param {string | null} pointer
 * @param {string} [title] of the entry, the prompt or the line's speaker
 */
export function placeName(pointer, title = "") {
  const [, line] = /\/messages?\/(\d+)\//.exec(pointer || "") || [];
  if (line) return `line ${Number(line) + 1}${title ? `, ${title}` : ""}`;
  if (title) return title;
  const [owner, field] = ["", "", ...(pointer || "").split("/")].slice(-2);
  if (/^\d+$/.test(field)) return `${FIELD_NAMES[owner] || owner} ${Number(field) + 2}`;
  return FIELD_NAMES[field] || FIELD_NAMES[owner] || field.replaceAll("_", " ");
}

/** A text with what was added and removed. @param {{parts: import("./types").Part[]}} props */
export const Parts = ({ parts }) =>
  html`<span class="parts"
    >${parts.map(({ kind, text }) =>
      kind === "added" ? html`<ins>${text}</ins>` : kind === "removed" ? html`<del>${text}</del>` : text,
    )}</span
  >`;

/** @param {{text: any, children?: any}} props */
export const Empty = ({ text, children }) =>
  html`<div class="empty">
    <p>${text}</p>
    ${children}
  </div>`;

/** @param {{family: string}} props */
export const Dot = ({ family }) => html`<i class=${`dot f-${family}`} aria-hidden="true"></i>`;

/**
 * A list whose rows are made only while they can be seen.
 * @param {{items: any[], height: number, label: string, row: (item: any, index: number) => any, chosen?: number}} props
 */
export function LongList({ items, height, label, row, chosen }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [top, setTop] = useState(0);
  const [size, setSize] = useState(600);
  useEffect(() => {
    const element = /** @type {HTMLElement} */ (box.current);
    const observer = new ResizeObserver(() => setSize(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    const element = box.current;
    if (!element || chosen === undefined || chosen < 0) return;
    const start = chosen * height;
    if (start < element.scrollTop || start + height > element.scrollTop + element.clientHeight)
      element.scrollTop = start - height;
  }, [chosen]);
  const first = Math.max(0, Math.floor(top / height) - 5);
  const shown = items.slice(first, Math.ceil((top + size) / height) + 5);
  return html`<div
    class="long-list"
    ref=${box}
    role="list"
    aria-label=${label}
    tabindex="0"
    onScroll=${(/** @type {any} */ event) => setTop(event.target.scrollTop)}
  >
    <div role="presentation" style=${{ height: `${first * height}px` }}></div>
    ${shown.map((item, index) => row(item, first + index))}
    <div
      role="presentation"
      style=${{ height: `${Math.max(0, items.length - first - shown.length) * height}px` }}
    ></div>
  </div>`;
}
