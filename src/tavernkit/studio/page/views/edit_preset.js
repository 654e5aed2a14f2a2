/** Presets: prompts in their order, and settings. */

import { at, newId } from "../patch.js";
import { documentOf, edit, reveal, tell } from "../store.js";
import { html, useRef, useState } from "../vendor/preact.js";
import { CheckField, ChoiceField, Empty, LongField, NumberField, TextField } from "../widgets.js";

/** @typedef {import("../types").Json} Json */
/** @typedef {import("../types").Place} Place */

// SillyTavern keeps an order per character; this one is for all of them.
const EVERYBODY = 100001;
const ROLES = [
  ["system", "system"],
  ["user", "user"],
  ["assistant", "assistant"],
];
const RISU_ROLES = [
  ["system", "system"],
  ["user", "user"],
  ["bot", "assistant"],
];
// What RisuAI puts into a format of the preset's.
const FRAMED = ["persona", "description", "lorebook", "authornote", "memory"];
const RELATIVE = [
  [0, "in this order"],
  [1, "in the chat, at a depth"],
];

/** RisuAI exports presets as JSON and as packed files. @param {import("../types").Document | undefined} preset */
export const isRisuPreset = (preset) => preset?.format === "risu_ai" || preset?.format === "risup";

/**
 * @typedef {object} Row one prompt of the order
 * @property {string} title
 * @property {string} place of its place in the order
 * @property {string} prompt of the prompt itself
 * @property {boolean} enabled
 * @property {boolean} marker
 * @property {string} type RisuAI's word for what it is
 */

/**
 * The list that is dragged, and its rows.
 * @param {Json} data
 * @param {boolean} risu
 * @returns {{list: string, rows: Row[]}}
 */
function orderIn(data, risu) {
  if (risu) {
    const cards = at(data, "/promptTemplate");
    if (!Array.isArray(cards)) return oldOrderIn(data);
    const rows = cards.map((card, index) => ({
      title: card.name || card.type,
      place: `/promptTemplate/${index}`,
      prompt: `/promptTemplate/${index}`,
      enabled: true,
      marker: card.text === undefined,
      type: String(card.type),
    }));
    return { list: "/promptTemplate", rows };
  }
  const orders = at(data, "/prompt_order");
  const prompts = at(data, "/prompts");
  if (!Array.isArray(orders) || !Array.isArray(prompts)) return { list: "", rows: [] };
  const index = Math.max(
    0,
    orders.findIndex((order) => order?.character_id === EVERYBODY),
  );
  const list = `/prompt_order/${index}/order`;
  const rows = (orders[index]?.order || []).map((/** @type {Json} */ item, /** @type {number} */ place) => {
    const number = prompts.findIndex((prompt) => prompt?.identifier === item?.identifier);
    const prompt = prompts[number];
    return {
      title: prompt?.name || item?.identifier,
      place: `${list}/${place}`,
      prompt: number < 0 ? "" : `/prompts/${number}`,
      enabled: Boolean(item?.enabled),
      marker: Boolean(prompt?.marker),
      type: "",
    };
  });
  return { list, rows };
}

// Presets of RisuAI's without a prompt template list the names of parts, whose texts are among the settings.
export const OLD_ORDER = "/formatingOrder";
/** @type {Record<string, [string, string]>} what a part is called, and where its text is */
const OLD_PARTS = {
  main: ["Main prompt", "/mainPrompt"],
  jailbreak: ["Jailbreak", "/jailbreak"],
  globalNote: ["Global note", "/globalNote"],
  description: ["Description", ""],
  personaPrompt: ["Persona", ""],
  lorebook: ["Lore", ""],
  chats: ["Chat", ""],
  lastChat: ["Last message", ""],
  authorNote: ["Author's note", ""],
};

/** @param {Json} data @returns {{list: string, rows: Row[]}} */
function oldOrderIn(data) {
  const names = at(data, OLD_ORDER);
  const rows = (Array.isArray(names) ? names : []).map((name, index) => {
    const [title, prompt] = OLD_PARTS[name] || [String(name), ""];
    return { title, place: `${OLD_ORDER}/${index}`, prompt, enabled: true, marker: !prompt, type: String(name) };
  });
  return { list: OLD_ORDER, rows };
}

/** @param {{document: string, place: Place | null}} props */
export function PresetPrompts({ document: id, place }) {
  const document = documentOf(id);
  const risu = isRisuPreset(document);
  const { list, rows } = orderIn(document?.data, risu);
  const [dragged, setDragged] = useState(-1);
  const [over, setOver] = useState(-1);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const here = place?.document === id ? place.pointer : "";
  const old = list === OLD_ORDER;
  const chosen = old
    ? undefined
    : rows.find(({ prompt }) => prompt && (here === prompt || here.startsWith(`${prompt}/`))) || rows[0];

  /** @param {number} from @param {number} to @param {boolean} [keep] keep the focus on what moved */
  const move = (from, to, keep = false) => {
    if (to < 0 || to >= rows.length || from === to) return;
    edit(
      [{ document: id, op: "move", from: `${list}/${from}`, path: `${list}/${to}` }],
      null,
      `${rows[from].title}: moved`,
    );
    tell(`${rows[from].title}: now ${to + 1} of ${rows.length}`);
    if (keep) requestAnimationFrame(() => focusRow(to));
  };
  /** @param {number} index */
  const focusRow = (index) =>
    /** @type {HTMLElement | undefined} */ (box.current?.querySelectorAll(".grip")[index])?.focus();
  /** @param {number} index */
  const press = (index) => (/** @type {KeyboardEvent} */ event) => {
    const way = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!way) return;
    event.preventDefault();
    move(index, index + way, true);
  };
  /** @param {Row} row */
  const toggle = (row) =>
    edit(
      [{ document: id, op: "replace", path: `${row.place}/enabled`, value: !row.enabled }],
      null,
      `${row.title}: ${row.enabled ? "off" : "on"}`,
    );
  const add = () => {
    if (risu) {
      const value = { type: "plain", type2: "normal", role: "system", name: "New prompt", text: "" };
      edit([{ document: id, op: "add", path: `${list}/-`, value }], null, "New prompt");
      reveal({ document: id, pointer: `${list}/${rows.length}` });
      return;
    }
    const identifier = newId();
    const value = { identifier, name: "New prompt", role: "system", content: "", system_prompt: false, marker: false };
    const count = at(document?.data, "/prompts").length;
    edit(
      [
        { document: id, op: "add", path: "/prompts/-", value },
        { document: id, op: "add", path: `${list}/-`, value: { identifier, enabled: true } },
      ],
      null,
      "New prompt",
    );
    reveal({ document: id, pointer: `/prompts/${count}` });
  };

  if (rows.length === 0) return html`<${Empty} text="This preset has no list of prompts." />`;
  return html`<p class="note" id="order-help">
      Drag prompts to change their order, or move them with the arrow keys while ⠿ has the focus.
    </p>
    <ol class="order" ref=${box} aria-label="Prompts in order">
      ${rows.map(
        (row, index) =>
          html`<li
            key=${row.prompt || row.place}
            class=${`${row.enabled ? "" : "off"} ${over === index ? (dragged < index ? "below" : "above") : ""}`}
            draggable="true"
            onDragStart=${(/** @type {DragEvent} */ event) => {
              setDragged(index);
              event.dataTransfer?.setData("text/plain", row.title);
            }}
            onDragOver=${(/** @type {DragEvent} */ event) => (event.preventDefault(), setOver(index))}
            onDragEnd=${() => (setDragged(-1), setOver(-1))}
            onDrop=${(/** @type {DragEvent} */ event) => {
              event.preventDefault();
              setOver(-1);
              if (dragged >= 0) move(dragged, index);
            }}
          >
            <button
              type="button"
              class="grip quiet"
              aria-label=${`Move ${row.title}, ${index + 1} of ${rows.length}`}
              aria-describedby="order-help"
              onKeyDown=${press(index)}
            >
              ⠿
            </button>
            ${
              !risu &&
              html`<input
                type="checkbox"
                role="switch"
                checked=${row.enabled}
                aria-label=${`${row.title} is on`}
                onChange=${() => toggle(row)}
              />`
            }
            <button
              type="button"
              class="name"
              aria-current=${row === chosen ? "true" : undefined}
              onClick=${() => reveal({ document: id, pointer: row.prompt || row.place })}
            >
              ${row.title} ${row.marker && html`<small>filled in</small>`}
            </button>
            <span class="row">
              <button
                type="button"
                class="quiet"
                aria-label=${`Move ${row.title} up`}
                onClick=${() => move(index, index - 1)}
              >
                ↑
              </button>
              <button
                type="button"
                class="quiet"
                aria-label=${`Move ${row.title} down`}
                onClick=${() => move(index, index + 1)}
              >
                ↓
              </button>
            </span>
          </li>`,
      )}
    </ol>
    ${!old && html`<button type="button" onClick=${add}>Add a prompt</button>`}
    ${chosen?.prompt && html`<${Prompt} key=${chosen.prompt} document=${id} row=${chosen} risu=${risu} />`}`;
}

/** @param {{document: string, row: Row, risu: boolean}} props */
function Prompt({ document, row, risu }) {
  const at = row.prompt;
  if (risu) {
    const remove = () => edit([{ document, op: "remove", path: at }], null, `${row.title}: removed`);
    return html`<section class="sub" aria-label=${row.title}>
      <h3>${row.title}</h3>
      <div class="grid">
        <${TextField} document=${document} pointer=${`${at}/name`} label="Name" hint=${row.type} />
        ${
          !row.marker &&
          html`<${ChoiceField}
            document=${document}
            pointer=${`${at}/role`}
            label="Role"
            options=${RISU_ROLES}
            fallback="system"
          />`
        }
      </div>
      ${
        row.marker
          ? html`<p class="note">RisuAI fills this place in.</p>
              ${
                FRAMED.includes(row.type) &&
                html`<${LongField}
                  document=${document}
                  pointer=${`${at}/innerFormat`}
                  label="Format"
                  note="{{slot}} is what RisuAI fills in"
                />`
              }`
          : html`<${LongField} document=${document} pointer=${`${at}/text`} label="Text" />`
      }
      <button type="button" class="quiet danger" onClick=${remove}>Remove this prompt</button>
    </section>`;
  }
  return html`<section class="sub" aria-label=${row.title}>
    <h3>${row.title}</h3>
    ${
      row.marker
        ? html`<p class="note">
            SillyTavern fills this place in: what stands here comes from the card, the lore, the persona or the chat.
          </p>`
        : html`<div class="grid">
              <${TextField} document=${document} pointer=${`${at}/name`} label="Name" />
              <${ChoiceField}
                document=${document}
                pointer=${`${at}/role`}
                label="Role"
                options=${ROLES}
                fallback="system"
              />
              <${ChoiceField}
                document=${document}
                pointer=${`${at}/injection_position`}
                label="Place"
                options=${RELATIVE}
                fallback=${0}
              />
              <${NumberField}
                document=${document}
                pointer=${`${at}/injection_depth`}
                label="Depth"
                least=${0}
                fallback=${4}
              />
            </div>
            <${LongField} document=${document} pointer=${`${at}/content`} label="Content" />
            <${CheckField} document=${document} pointer=${`${at}/forbid_overrides`} label="Cards may not replace it" />`
    }
  </section>`;
}

const NAMES = [
  [-1, "never"],
  [0, "in groups"],
  [1, "as completion names"],
  [2, "in the text"],
];
/** @type {Record<string, string>} */
const TEXTS = {
  new_chat_prompt: "New chat",
  new_example_chat_prompt: "New example",
  new_group_chat_prompt: "New group chat",
  impersonation_prompt: "Impersonation",
  continue_nudge_prompt: "Continue nudge",
  group_nudge_prompt: "Group nudge",
  assistant_prefill: "Prefill of the reply",
  wi_format: "World Info format",
  scenario_format: "Scenario format",
  personality_format: "Personality format",
};
/** @type {Record<string, string>} */
const RISU_TEXTS = { mainPrompt: "Main prompt", jailbreak: "Jailbreak", globalNote: "Global note" };

/** @param {{document: string}} props */
export function PresetSettings({ document }) {
  const risu = isRisuPreset(documentOf(document));
  const [context, reply] = risu ? ["/maxContext", "/maxResponse"] : ["/openai_max_context", "/openai_max_tokens"];
  return html`<div class="grid">
      <${NumberField} document=${document} pointer=${context} label="Context (tokens)" least=${1} />
      <${NumberField} document=${document} pointer=${reply} label="Reply (tokens)" least=${1} />
      <${NumberField} document=${document} pointer="/temperature" label="Temperature" step="any" />
      ${!risu && html`<${NumberField} document=${document} pointer="/top_p" label="Top P" step="any" />`}
      ${!risu && html`<${ChoiceField} document=${document} pointer="/names_behavior" label="Names" options=${NAMES} fallback=${0} />`}
    </div>
    ${!risu && html`<${CheckField} document=${document} pointer="/squash_system_messages" label="Squash system messages" />`}
    ${Object.entries(risu ? RISU_TEXTS : TEXTS).map(
      ([name, label]) => html`<${LongField} document=${document} pointer=${`/${name}`} label=${label} size="line" />`,
    )}`;
}
