/** The studio's frame: its bar, its views, its theme. */

import { keepToken } from "./api.js";
import { current, dismiss, open, show, step, useStudio } from "./store.js";
import { html, render, useEffect, useErrorBoundary, useState } from "./vendor/preact.js";
import { Compare } from "./views/compare.js";
import { EditView } from "./views/edit.js";
import { Files } from "./views/files.js";
import { LoreLab } from "./views/lore_lab.js";
import { Playground } from "./views/playground.js";
import { PromptView } from "./views/prompt.js";
import { SaveDialog } from "./views/save.js";
import { TalkView } from "./views/talk.js";

const WIDE = matchMedia("(min-width: 1100px)");
const THEMES = ["system", "light", "dark"];
const KEPT_THEME = "tavernkit-studio-theme";

/** @type {{id: string, label: string, view: any}[]} */
const VIEWS = [
  { id: "prompt", label: "Prompt", view: PromptView },
  { id: "edit", label: "Edit", view: EditView },
  { id: "write", label: "Write", view: Write },
  { id: "lore", label: "Lore lab", view: LoreLab },
  { id: "talk", label: "Talk", view: TalkView },
  { id: "compare", label: "Compare", view: Compare },
  { id: "play", label: "Playground", view: Playground },
];

/** On wide screens the editor and the prompt stand side by side. */
function Write() {
  return html`<div class="write">
    <section class="pane" aria-label="Edit"><${EditView} /></section>
    <section class="pane" aria-label="Prompt"><${PromptView} /></section>
  </div>`;
}

/** @param {string} view @param {boolean} wide */
const fitting = (view, wide) => {
  if (wide && (view === "prompt" || view === "edit" || !view)) return "write";
  if (!wide && (view === "write" || !view)) return "prompt";
  return VIEWS.some(({ id }) => id === view) ? view : wide ? "write" : "prompt";
};

function Studio() {
  const { phase, failure, workspace, documents, view, notices, build } = useStudio();
  const [wide, setWide] = useState(WIDE.matches);
  const [dialog, setDialog] = useState("");
  const [failed, recover] = useErrorBoundary();

  useEffect(() => {
    const follow = () => show(fitting(location.hash.slice(2), WIDE.matches));
    const resize = () => (setWide(WIDE.matches), follow());
    follow();
    WIDE.addEventListener("change", resize);
    addEventListener("popstate", follow);
    return () => (WIDE.removeEventListener("change", resize), removeEventListener("popstate", follow));
  }, []);

  useEffect(() => {
    /** @param {KeyboardEvent} event */
    const press = (event) => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey || current().phase !== "ready") return;
      const key = event.key.toLowerCase();
      if (key === "s") setDialog("save");
      else if (hasOwnUndo(event)) return;
      else if (key === "z") void step(event.shiftKey ? "redo" : "undo");
      else if (key === "y") void step("redo");
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", press, true);
    return () => removeEventListener("keydown", press, true);
  }, []);

  const name = documents.get(workspace?.active.card || "")?.name;
  useEffect(() => {
    document.title = name ? `${name} · TavernKit Studio` : "TavernKit Studio";
  }, [name]);
  useEffect(() => {
    document.documentElement.dataset.ready = String(phase === "ready" && build !== null);
  }, [phase, build !== null]);

  if (failed) {
    return html`<main class="lonely">
      <h1>Something in the page failed</h1>
      <p>${String(failed.message || failed)}</p>
      <button type="button" onClick=${recover}>Go on</button>
    </main>`;
  }
  if (phase === "locked") return html`<${Key} failure=${failure} />`;
  if (phase === "failed") {
    return html`<main class="lonely">
      <h1>The studio does not answer</h1>
      <p role="alert">${failure}</p>
      <button type="button" onClick=${open}>Try again</button>
    </main>`;
  }
  if (phase === "loading") return html`<p class="loading" role="status">Opening…</p>`;

  const unsaved = [...documents.values()].filter((each) => !each.saved && each.kind !== "turn").length;
  const views = VIEWS.filter(({ id }) => fitting(id, wide) === id);
  const shown = views.find(({ id }) => id === fitting(view, wide));
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to the content</a>
    <header class="top">
      <h1><span class="brand">TavernKit Studio</span> <span class="who">${name || ""}</span></h1>
      <nav aria-label="Views">
        ${views.map(
          ({ id, label }) =>
            html`<a key=${id} href=${`#/${id}`} aria-current=${id === shown?.id ? "page" : undefined} onClick=${go(id)}
              >${label}</a
            >`,
        )}
      </nav>
      <div class="tools">
        <${Step} direction="undo" sign="↶" allowed=${workspace.can_undo} what=${workspace.undo} />
        <${Step} direction="redo" sign="↷" allowed=${workspace.can_redo} what=${workspace.redo} />
        <${Theme} />
        <button type="button" class="quiet" id="files" onClick=${() => setDialog("files")}>Files</button>
        <button type="button" class="main" id="save" onClick=${() => setDialog("save")} aria-keyshortcuts="Control+S">
          Save${unsaved > 0 && html`<span class="count" aria-label=${`${unsaved} changed`}>${unsaved}</span>`}
        </button>
      </div>
    </header>
    <main id="main" tabindex="-1" class=${`view-${shown?.id}`}>${shown && html`<${shown.view} />`}</main>
    ${dialog === "save" && html`<${SaveDialog} close=${() => setDialog("")} />`}
    ${dialog === "files" && html`<${Files} close=${() => setDialog("")} />`}
    <div class="notices" role="status" aria-live="polite">
      ${notices.map(
        ({ id, text, bad }) =>
          html`<p key=${id} class=${bad ? "bad" : ""}>
            ${text} <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => dismiss(id)}>✕</button>
          </p>`,
      )}
    </div>
  `;
}

/**
 * True in a field for text that belongs to no document, such as a search: what was typed there is undone there.
 * @param {KeyboardEvent} event
 */
function hasOwnUndo(event) {
  const path = event.composedPath().filter((node) => node instanceof HTMLElement);
  const [field] = path;
  if (field?.isContentEditable) return !path.some((node) => node.dataset.pointer !== undefined);
  return !!field?.matches("textarea, input:not([type=checkbox], [type=file])") && field.dataset.pointer === undefined;
}

/** @param {Event} event */
function skip(event) {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** @param {string} id */
const go = (id) => (/** @type {Event} */ event) => {
  event.preventDefault();
  show(id);
};

/** @param {{direction: "undo" | "redo", sign: string, allowed: boolean, what: string | null}} props */
function Step({ direction, sign, allowed, what }) {
  const word = direction === "undo" ? "Undo" : "Redo";
  const label = what ? `${word} ${what}` : word;
  // Not `disabled`: a button that is disabled while it has the focus would lose it.
  return html`<button
    type="button"
    class="quiet"
    id=${direction}
    aria-label=${label}
    title=${label}
    aria-disabled=${allowed ? "false" : "true"}
    onClick=${() => allowed && step(direction)}
  >
    ${sign}
  </button>`;
}

function Theme() {
  const [theme, setTheme] = useState(localStorage.getItem(KEPT_THEME) || "system");
  useEffect(() => {
    localStorage.setItem(KEPT_THEME, theme);
    document.documentElement.dataset.theme = theme;
  }, [theme]);
  const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length];
  const signs = { system: "◐", light: "☀", dark: "☾" };
  return html`<button
    type="button"
    class="quiet"
    id="theme"
    aria-label=${`Theme: ${theme}. Change to ${next}`}
    title=${`Theme: ${theme}`}
    onClick=${() => setTheme(next)}
  >
    ${signs[/** @type {keyof typeof signs} */ (theme)] || "◐"}
  </button>`;
}

/** @param {{failure: string}} props */
function Key({ failure }) {
  const [key, setKey] = useState("");
  /** @param {Event} event */
  const enter = (event) => {
    event.preventDefault();
    keepToken(key.trim());
    void open();
  };
  return html`<main class="lonely">
    <h1>TavernKit Studio</h1>
    ${failure && html`<p class="problem" role="alert">${failure}</p>`}
    <form onSubmit=${enter}>
      <label class="field">
        <span>Key</span>
        <input
          type="password"
          autocomplete="off"
          value=${key}
          onInput=${(/** @type {any} */ event) => setKey(event.target.value)}
        />
      </label>
      <p class="note">The address that was printed at the start has it; a service's operator hands out keys.</p>
      <button class="main">Open</button>
    </form>
  </main>`;
}

const root = /** @type {HTMLElement} */ (document.getElementById("studio"));
root.replaceChildren();
render(html`<${Studio} />`, root);
void open();
