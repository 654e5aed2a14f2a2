/** The page's state: a copy of the workspace, the newest build, and what is on its way to the service. */

import { ApiError, get, post, remove, takeToken } from "./api.js";
import { apply, at, setting } from "./patch.js";
import { useEffect, useState } from "./vendor/preact.js";

/** @typedef {import("./types").State} State */
/** @typedef {import("./types").Document} Document */
/** @typedef {import("./types").Edit} Edit */
/** @typedef {import("./types").EditOut} EditOut */
/** @typedef {import("./types").Build} Build */
/** @typedef {import("./types").Place} Place */

// Long enough to send a burst of keys once, short enough not to be felt.
const TYPING_PAUSE = 25;
const SOURCES_PAUSE = 60;
const NOTICE_TIME = 6000;
// Someone who types on after such a pause has looked at the prompt: changes are shown from there on.
const LOOK_TIME = 2500;

/** @type {State} */
let state = {
  phase: "loading",
  failure: "",
  workspace: /** @type {any} */ (null),
  documents: new Map(),
  build: null,
  sources: null,
  waiting: false,
  view: "",
  place: null,
  notices: [],
};
/** @type {Set<() => void>} */
const listeners = new Set();

/** @param {Partial<State>} change */
function set(change) {
  state = { ...state, ...change };
  for (const listener of listeners) listener();
}

/** @returns {State} */
export const current = () => state;

/** The state, and a new rendering whenever it changes. @returns {State} */
export function useStudio() {
  const [, refresh] = useState(0);
  useEffect(() => {
    const listener = () => refresh((count) => count + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return state;
}

/** @type {Map<string, any>} */
const kept = new Map();

/**
 * State of a view that is still there when the view is opened again.
 * @template T
 * @param {string} name
 * @param {T} initial
 * @returns {[T, (value: T) => void]}
 */
export function useKept(name, initial) {
  const [value, change] = useState(/** @type {T} */ (kept.has(name) ? kept.get(name) : initial));
  return [value, (next) => (kept.set(name, next), change(() => next))];
}

/** @param {string | null | undefined} id @returns {Document | undefined} */
export const documentOf = (id) => (id ? state.documents.get(id) : undefined);

/** What is asked of the next build. @returns {any} */
export const turn = () => documentOf(state.workspace.active.turn)?.data ?? {};

/** Open the workspace. */
export async function open() {
  takeToken();
  try {
    install(await get("/workspace"));
    await rebuild();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) set({ phase: "locked", failure: "" });
    // A key that lacks a scope: say so, and let another one be tried.
    else if (error instanceof ApiError && error.status === 403) set({ phase: "locked", failure: error.message });
    else set({ phase: "failed", failure: message(error) });
  }
}

/** @param {import("./types").Workspace} workspace */
function install(workspace) {
  const documents = new Map(workspace.documents.map((document) => [document.id, document]));
  // Edits that were made meanwhile are still on their way.
  for (const each of queue.flatMap(({ edits }) => edits)) {
    const document = documents.get(each.document);
    try {
      if (document) documents.set(document.id, { ...document, data: apply(document.data, each), saved: false });
    } catch {
      // Its place is gone: the service will refuse it.
    }
  }
  set({ phase: "ready", workspace, documents });
}

/** Take over another workspace, as when another character of a folder is opened. @param {() => Promise<any>} call */
export async function replaceWorkspace(call) {
  await attempt(async () => {
    install(await call());
    set({ place: null, build: null, sources: null });
    await rebuild();
  });
}

/** Build the workspace as it is. */
export async function rebuild() {
  set({ waiting: true });
  try {
    accept(await post("/build"));
  } finally {
    set({ waiting: false });
  }
}

// ---------------------------------------------------------------------------------------------------------------------
// Edits: applied here at once, sent in order, one call at a time, one group per call.

/** @type {{edits: Edit[], group: string | null, label: string | null, started: number}[]} */
let queue = [];
let sending = false;
let pause = 0;
/** @type {string | null} the prompt at the last look */
let since = null;
let touched = -Infinity;

function look() {
  const now = performance.now();
  if (now - touched > LOOK_TIME) since = state.build?.plan ?? null;
  touched = now;
}

/**
 * Change documents. The page shows it at once; the prompt follows.
 * @param {Edit[]} edits
 * @param {string | null} [group] edits of one group are undone together
 * @param {string | null} [label]
 */
export function edit(edits, group = null, label = null) {
  look();
  const documents = new Map(state.documents);
  for (const each of edits) {
    const document = /** @type {Document} */ (documents.get(each.document));
    documents.set(each.document, { ...document, data: apply(document.data, each), saved: false });
  }
  const last = queue.at(-1);
  if (last && group && last.group === group && edits.length === 1 && replaces(last.edits.at(-1), edits[0])) {
    last.edits[last.edits.length - 1] = edits[0];
  } else {
    queue.push({ edits, group, label, started: performance.now() });
  }
  set({ documents, waiting: true });
  clearTimeout(pause);
  pause = setTimeout(() => void send(), TYPING_PAUSE);
}

/** @param {Edit | undefined} old @param {Edit} young */
const replaces = (old, young) =>
  old?.op === "replace" && young.op === "replace" && old.document === young.document && old.path === young.path;

/**
 * Set one value of a document.
 * @param {string} document
 * @param {string} pointer
 * @param {any} value
 * @param {string | null} [group] by default the field itself, so that typing is one step to undo
 */
export function setValue(document, pointer, value, group = document + pointer) {
  const data = documentOf(document)?.data;
  if (at(data, pointer) !== value) edit(setting(document, data, pointer, value), group);
}

async function send() {
  if (sending) return;
  sending = true;
  try {
    for (let next = queue.shift(); next; next = queue.shift()) {
      const { edits, group, label, started } = next;
      merge(await post("/edit", { edits, group, label, build: queue.length === 0, since }), started);
    }
  } catch (error) {
    queue = [];
    tell(message(error), true);
    await open();
  } finally {
    sending = false;
    set({ waiting: queue.length > 0 });
    if (queue.length > 0) void send(); // made while the workspace was read again
  }
}

/** Wait until the service has every edit. */
export async function settled() {
  clearTimeout(pause);
  await send();
  while (sending) await new Promise((resolve) => setTimeout(resolve, 5));
}

/**
 * Take over what a call changed.
 * @param {EditOut} out
 * @param {number} [started]
 * @param {boolean} [follow] apply the edits here too: they were not made on this page
 */
export function merge(out, started, follow = false) {
  const documents = new Map(state.documents);
  if (out.documents.some(({ id, data }) => data === undefined && !documents.has(id))) {
    void open(); // what the service changed was added by a call whose answer did not come here
    return;
  }
  if (follow) {
    for (const each of out.applied || []) {
      const document = documents.get(each.document);
      if (document) documents.set(document.id, { ...document, data: apply(document.data, each) });
    }
  }
  for (const changed of out.documents) {
    const known = documents.get(changed.id);
    documents.set(changed.id, { ...changed, data: changed.data === undefined ? known?.data : changed.data });
  }
  for (const id of out.removed || []) documents.delete(id);
  const { revision, can_undo, can_redo, undo, redo, active } = out;
  set({ documents, workspace: { ...state.workspace, revision, can_undo, can_redo, undo, redo, active } });
  if (out.build) accept(out.build, started);
}

/** @param {Build} build @param {number} [started] */
function accept(build, started) {
  if (build.superseded) return;
  // Marks of the old sources would point at the wrong characters; blocks that did not change keep theirs meanwhile.
  set({ build });
  document.documentElement.dataset.plan = build.plan;
  if (started !== undefined) void noteLatency(build.plan, started);
  askForSources(build.plan);
}

/** @type {{last: number | null, tell: (milliseconds: number) => void}} how long the last keystroke took, and who shows it */
export const latency = { last: null, tell: () => {} };

/**
 * Measure until the prompt is on the screen: what a frame draws is there when the task after it runs.
 * @param {string} plan
 * @param {number} started
 */
async function noteLatency(plan, started) {
  await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
  latency.last = performance.now() - started;
  latency.tell(latency.last);
  document.documentElement.dataset.painted = plan;
}

/** @type {AbortController | null} */
let asked = null;
let later = 0;

/** @param {string} plan */
function askForSources(plan) {
  asked?.abort();
  clearTimeout(later);
  later = setTimeout(async () => {
    asked = new AbortController();
    try {
      const sources = await post("/sources", { plan }, asked.signal);
      if (state.build?.plan !== plan) return;
      set({ sources });
      document.documentElement.dataset.sources = plan;
    } catch {
      // Overtaken by a newer build, whose sources follow.
    }
  }, SOURCES_PAUSE);
}

/** @param {"undo" | "redo"} direction */
export async function step(direction) {
  await settled();
  const allowed = direction === "undo" ? state.workspace.can_undo : state.workspace.can_redo;
  if (!allowed) return;
  const label = state.workspace[direction];
  look();
  await attempt(async () => {
    merge(await post(`/${direction}`, { build: true, since }), undefined, true);
    tell(`${direction === "undo" ? "Undone" : "Redone"}: ${label || "the last change"}`);
  });
}

/**
 * A call that answers what it changed.
 * @param {() => Promise<EditOut>} call
 */
export async function change(call) {
  await settled();
  await attempt(async () => {
    const out = await call();
    merge(out, undefined, true);
    if (!out.build) await rebuild();
  });
}

/** @param {string} id */
export const removeDocument = (id) => change(() => remove(`/documents/${id}`));

/**
 * Run something and say it if it fails.
 * @param {() => Promise<void>} work
 * @returns {Promise<boolean>} true if it worked
 */
export async function attempt(work) {
  try {
    await work();
    return true;
  } catch (error) {
    if (!(error instanceof DOMException && error.name === "AbortError")) tell(message(error), true);
    return false;
  }
}

// ---------------------------------------------------------------------------------------------------------------------

/** Open a place in the editor. @param {Place} place */
export function reveal(place) {
  set({ place: { ...place, seen: (state.place?.seen || 0) + 1 } });
  if (state.view !== "write") show("edit");
}

/** @param {string} view */
export function show(view) {
  if (view === state.view) return;
  set({ view });
  if (location.hash !== `#/${view}`) history.pushState(null, "", `#/${view}`);
}

let count = 0;

/** Say something in the corner, and to screen readers. @param {string} text @param {boolean} [bad] */
export function tell(text, bad = false) {
  const id = ++count;
  set({ notices: [...state.notices.slice(-2), { id, text, bad }] });
  setTimeout(() => dismiss(id), NOTICE_TIME);
}

/** @param {number} id */
export const dismiss = (id) => set({ notices: state.notices.filter((notice) => notice.id !== id) });

/** @param {unknown} error */
export const message = (error) => (error instanceof Error ? error.message : String(error));

/** @param {Document} document as the service describes it, without its data */
export function updateDocument(document) {
  const documents = new Map(state.documents);
  documents.set(document.id, { ...document, data: document.data ?? documents.get(document.id)?.data });
  set({ documents });
}
