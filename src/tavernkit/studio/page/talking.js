/** The chat, and the reply that streams in: apart from their view, so that they go on while another one is open. */

import { get, post, stream } from "./api.js";
import { attempt, documentOf, merge, message, open, rebuild, settled, tell } from "./store.js";
import { useEffect, useState } from "./vendor/preact.js";
import { counted } from "./widgets.js";

/** @typedef {import("./types").Talk} Talk */
/** @typedef {{text: string, reasoning: string}} Reply */
/** @typedef {{kind: string, words: string, replies: Reply[]}} Coming what was asked, and what has come of each reply */

/**
 * @type {{talk: Talk | null, draft: string, coming: Coming | null, tools: any[], failure: string, said: string}}
 * said is the last whole reply, for screen readers
 */
let state = { talk: null, draft: "", coming: null, tools: [], failure: "", said: "" };
/** @type {Set<() => void>} */
const listeners = new Set();

/** @param {Partial<typeof state>} change */
function set(change) {
  state = { ...state, ...change };
  for (const listener of listeners) listener();
}

/** The chat and its reply, and a new rendering whenever they change. */
export function useTalking() {
  const [, refresh] = useState(0);
  useEffect(() => {
    const listener = () => refresh((count) => count + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return state;
}

/** @param {Talk} talk as the service describes it */
async function take(talk) {
  set({ talk });
  // The chat of one program was copied for the other.
  if (!documentOf(talk.chat)) await open();
}

/** @param {string} draft the message that is being written */
export const setDraft = (draft) => set({ draft });

/** Read the chat again, as after its document was edited; not during a reply, which brings it. */
export const refresh = () =>
  attempt(async () => {
    if (state.coming) return;
    await settled();
    const talk = await get("/talk");
    if (!state.coming) await take(talk);
  });

/** @param {string} event @param {any} data @param {string} kind */
function hear(event, data, kind) {
  if (event === "piece" && state.coming) {
    const replies = [...state.coming.replies];
    const { text, reasoning } = replies[data.reply] || { text: "", reasoning: "" };
    replies[data.reply] = { text: text + data.text, reasoning: reasoning + (data.reasoning || "") };
    set({ coming: { ...state.coming, replies } });
  }
  if (event === "tool") set({ tools: [...state.tools, data] });
  if (event === "done") set(kind === "impersonate" ? { draft: data.text } : { said: data.text });
  if (event === "stopped") set({ said: "Stopped." });
  if (event === "error") set({ failure: data.error.message });
  if (data.talk) set({ talk: data.talk });
  if (data.edit) merge(data.edit, undefined, true);
}

/** Ask for a reply. @param {string} kind @param {string} [words] */
export async function ask(kind, words = "") {
  if (state.coming) return;
  set({ failure: "", tools: [], coming: { kind, words, replies: [] } });
  let arrived = false;
  try {
    await settled();
    await stream("/talk/turn", { kind, text: words }, (event, data) => {
      arrived ||= event !== "error" || Boolean(data.talk);
      hear(event, data, kind);
    });
    await rebuild();
  } catch (error) {
    set({ failure: message(error) });
  } finally {
    set({ coming: null });
    // A message that was refused is not in the chat: it must not be lost.
    if (kind === "send" && !arrived && !state.draft) set({ draft: words });
  }
}

/** Send the message that was written. */
export function send() {
  const words = state.draft.trim();
  if (!words || state.coming) return;
  set({ draft: "" });
  void ask("send", words);
}

/** Keep what has come so far. */
export const stop = () => attempt(async () => void (await post("/talk/stop")));

/** Change the chat without a model, and return true if it worked. @param {string} op @param {number} [index] @param {string} [words] */
export const alter = (op, index, words) =>
  attempt(async () => {
    await settled();
    const answer = await post("/talk/change", { op, index, text: words });
    set({ talk: answer.talk });
    merge(answer.edit, undefined, true);
    await rebuild();
    if (op === "branch") tell("This is a branch now; the chat it came from is kept under Files.");
  });

/** Choose who answers. @param {string} model @param {string[] | null} lines what the scripted model says */
export const chooseModel = (model, lines) =>
  attempt(async () => {
    await take(await post("/talk/model", { model, script: lines }));
    if (lines) tell(`The scripted model says ${counted(lines.length, "reply", "replies")} in turn.`);
  });
