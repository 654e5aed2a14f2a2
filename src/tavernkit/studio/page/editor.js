/** A text editor: CodeMirror in a shadow root, whose style sheets need no exception in the Content-Security-Policy. */

import {
  Annotation,
  Decoration,
  EditorState,
  EditorView,
  HighlightStyle,
  MatchDecorator,
  Transaction,
  ViewPlugin,
  defaultKeymap,
  drawSelection,
  history,
  historyKeymap,
  json,
  keymap,
  placeholder,
  search,
  searchKeymap,
  syntaxHighlighting,
  tags,
} from "./vendor/codemirror.js";
import { html, useEffect, useLayoutEffect, useRef } from "./vendor/preact.js";

const fromOutside = Annotation.define();

const macros = new MatchDecorator({ regexp: /\{\{[^{}]*\}\}/g, decoration: Decoration.mark({ class: "cm-macro" }) });
const macroMarks = ViewPlugin.define(
  (view) => ({
    marks: macros.createDeco(view),
    update(update) {
      this.marks = macros.updateDeco(update, this.marks);
    },
  }),
  { decorations: (plugin) => plugin.marks },
);

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: "var(--ink-card)" },
  { tag: tags.string, color: "var(--ink)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--ink-preset)" },
]);

const look = EditorView.theme({
  "&": { color: "var(--ink)", background: "var(--field)", borderRadius: "var(--round)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-1px" },
  ".cm-scroller": {
    font: "var(--text-font)",
    lineHeight: "1.6",
    maxHeight: "var(--editor-height, 60vh)",
    overflow: "auto",
  },
  ".cm-content": { padding: "0.7rem 0", caretColor: "var(--ink)", minHeight: "var(--editor-least, 1.6em)" },
  ".cm-line": { padding: "0 0.8rem" },
  ".cm-placeholder": { color: "var(--soft)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": {
    background: "var(--mark) !important",
  },
  ".cm-macro": { color: "var(--ink-preset)", fontFamily: "var(--mono)", fontSize: "0.92em" },
  ".cm-panels": { background: "var(--paper)", color: "var(--ink)", borderColor: "var(--line)" },
  ".cm-panel input, .cm-panel button": { font: "inherit", color: "inherit", background: "var(--field)" },
});

/**
 * @param {object} props
 * @param {string} props.value
 * @param {(text: string) => void} [props.onChange]
 * @param {string} props.label for screen readers
 * @param {string} [props.hint] shown while empty
 * @param {"text" | "json"} [props.language]
 * @param {boolean} [props.readOnly]
 * @param {import("./types").Place | null} [props.place] characters to select
 * @param {"line" | "normal" | "tall"} [props.size]
 * @param {() => void} [props.onSubmit] for Ctrl+Enter
 * @param {boolean} [props.bound] the text is one of a document
 */
export function Editor({ value, onChange, label, hint, language, readOnly, place, size, onSubmit, bound }) {
  const host = useRef(/** @type {HTMLDivElement | null} */ (null));
  const view = useRef(/** @type {EditorView | null} */ (null));
  const hear = useRef({ onChange, onSubmit });
  hear.current = { onChange, onSubmit };

  useLayoutEffect(() => {
    const element = /** @type {HTMLDivElement} */ (host.current);
    const root = element.shadowRoot || element.attachShadow({ mode: "open" });
    const made = new EditorView({
      root,
      parent: /** @type {any} */ (root),
      state: EditorState.create({
        doc: value,
        extensions: [
          // Documents have one history together, which is the workspace's; other texts have their own.
          bound ? [] : [history(), keymap.of(historyKeymap)],
          keymap.of([
            { key: "Mod-Enter", run: () => (hear.current.onSubmit ? (hear.current.onSubmit(), true) : false) },
            ...searchKeymap,
            ...defaultKeymap.filter((binding) => binding.key !== "Mod-Enter"),
          ]),
          search({ top: true }),
          drawSelection(),
          EditorView.lineWrapping,
          // Carriage returns stay as they are: offsets and files must not change by being looked at.
          EditorState.lineSeparator.of("\n"),
          EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "true", "aria-multiline": "true" }),
          EditorState.readOnly.of(Boolean(readOnly)),
          language === "json" ? json() : macroMarks,
          syntaxHighlighting(colours),
          hint ? placeholder(hint) : [],
          look,
          EditorView.updateListener.of((update) => {
            const outside = update.transactions.some((transaction) => transaction.annotation(fromOutside));
            if (update.docChanged && !outside) hear.current.onChange?.(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    return () => made.destroy();
  }, [label, language, readOnly, hint, bound]);

  // Right after rendering: later, the text could have grown by what was typed meanwhile.
  useLayoutEffect(() => {
    const shown = view.current?.state.doc.toString();
    if (view.current && shown !== undefined && shown !== value) {
      view.current.dispatch({
        changes: difference(shown, value),
        annotations: [fromOutside.of(true), Transaction.addToHistory.of(false)],
      });
    }
  }, [value]);

  useEffect(() => {
    if (!place || place.from === undefined || place.from === null || !view.current) return;
    const length = view.current.state.doc.length;
    const anchor = Math.min(place.from, length);
    const head = Math.min(place.to ?? anchor, length);
    view.current.dispatch({ selection: { anchor, head }, effects: EditorView.scrollIntoView(anchor, { y: "center" }) });
    view.current.focus();
    host.current?.scrollIntoView({ block: "nearest" });
  }, [place?.seen]);

  return html`<div class=${`editor ${size || "normal"}`} ref=${host}></div>`;
}

/**
 * The smallest change between two texts, so that the cursor stays where it is.
 * @param {string} old
 * @param {string} young
 */
function difference(old, young) {
  let from = 0;
  while (from < old.length && from < young.length && old[from] === young[from]) from++;
  let tail = 0;
  const most = Math.min(old.length, young.length) - from;
  while (tail < most && old[old.length - 1 - tail] === young[young.length - 1 - tail]) tail++;
  return { from, to: old.length - tail, insert: young.slice(from, young.length - tail) };
}
