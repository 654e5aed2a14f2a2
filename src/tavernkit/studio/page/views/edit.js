/** The editor: everything a prompt is made of, one section at a time. */

import { at } from "../patch.js";
import { current, documentOf, reveal, useStudio } from "../store.js";
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { About, CardPrompts, Character, Examples, Greetings } from "./edit_card.js";
import { ChatLines } from "./edit_chat.js";
import { Book, bookIn } from "./edit_lore.js";
import { OLD_ORDER, PresetPrompts, PresetSettings, isRisuPreset } from "./edit_preset.js";
import { AuthorsNote, Missing, Persona, TemplateEditor, Turn } from "./edit_rest.js";
import { RegexScripts, RisuScripts } from "./edit_scripts.js";

/** @typedef {import("../types").State} State */
/** @typedef {import("../types").Place} Place */
/** @typedef {import("../types").Document} Document */

/**
 * @typedef {object} Section
 * @property {string} id
 * @property {string} group
 * @property {string} label
 * @property {string} document
 * @property {string[]} pointers places it edits, the first is where it opens
 * @property {any} view
 * @property {number} [count]
 */

/** @param {State} state @returns {Section[]} */
function sections({ workspace, documents }) {
  const { active } = workspace;
  /** @type {Section[]} */
  const found = [];
  /** @param {string} group @param {string} label @param {string | null} document @param {string[]} pointers @param {any} view @param {number} [count] */
  const add = (group, label, document, pointers, view, count) => {
    if (document && documents.has(document)) {
      found.push({ id: `${document}${pointers[0]}`, group, label, document, pointers, view, count });
    }
  };
  const card = documents.get(active.card || "");
  const home = card?.home ?? "/data";
  const greetings = at(card?.data, `${home}/alternate_greetings`);
  add(
    "Character",
    "Description",
    active.card,
    fields(home, "description", "personality", "scenario", "name"),
    Character,
  );
  add(
    "Character",
    "Greetings",
    active.card,
    fields(home, "first_mes", "alternate_greetings", "group_only_greetings"),
    Greetings,
    1 + (Array.isArray(greetings) ? greetings.length : 0),
  );
  add("Character", "Example dialogue", active.card, fields(home, "mes_example"), Examples);
  add(
    "Character",
    "Card prompts",
    active.card,
    fields(home, "system_prompt", "post_history_instructions", "extensions/depth_prompt"),
    CardPrompts,
  );
  add(
    "Character",
    "About",
    active.card,
    fields(home, "creator_notes", "creator", "tags", "character_version", "nickname"),
    About,
  );
  if (card?.book) add("Lore", `${card.name} (in the card)`, card.id, [card.book], Book, bookIn(card, card.book).length);
  for (const id of active.books) {
    const book = documents.get(id);
    if (book) add("Lore", book.name, id, [""], Book, bookIn(book, "").length);
  }
  const preset = documents.get(active.preset || "");
  const risuPreset = isRisuPreset(preset);
  add(
    "Preset",
    "Prompts",
    active.preset,
    [risuPreset ? "/promptTemplate" : "/prompts", "/prompt_order", OLD_ORDER],
    PresetPrompts,
  );
  add("Preset", "Settings", active.preset, [""], PresetSettings);
  if (!preset) add("Preset", "Default preset", active.turn, ["/preset"], Missing);
  /** @type {[string, "context_template" | "instruct" | "system_prompt"][]} */
  const templates = [
    ["Context template", "context_template"],
    ["Instruct template", "instruct"],
    ["System prompt", "system_prompt"],
  ];
  for (const [label, kind] of templates) {
    add("Templates", label, active[kind], [""], TemplateEditor);
    if (!active[kind] && isText(documents.get(active.turn || "")?.data))
      add("Templates", label, active.turn, [`/${kind}`], Missing);
  }
  for (const id of active.regex) add("Scripts", documents.get(id)?.name || "Regex scripts", id, [""], RegexScripts);
  /** @param {Document | undefined} owner @param {string} where @param {string} pointer @param {any} view */
  const scripts = (owner, where, pointer, view) => {
    const list = at(owner?.data, pointer);
    if (owner && Array.isArray(list) && list.length)
      add("Scripts", `${owner.name} (${where})`, owner.id, [pointer], view, list.length);
  };
  scripts(card, "in the card", `${home}/extensions/regex_scripts`, RegexScripts);
  scripts(card, "in the card, for RisuAI", `${home}/extensions/risuai/customScripts`, RisuScripts);
  if (risuPreset) scripts(preset, "in the preset", "/regex", RisuScripts);
  else scripts(preset, "in the preset", "/extensions/regex_scripts", RegexScripts);
  add("You", "Persona", active.persona, [""], Persona);
  const chat = documents.get(active.chat || "");
  const risu = chat?.format === "risu_chat";
  add("Chat", "Author's note", active.chat, [risu ? "/note" : "/header/chat_metadata"], AuthorsNote);
  const lines = at(chat?.data, risu ? "/message" : "/messages");
  add(
    "Chat",
    "Lines",
    active.chat,
    [risu ? "/message" : "/messages"],
    ChatLines,
    Array.isArray(lines) ? lines.length : 0,
  );
  add("Chat", "Next turn", active.turn, [""], Turn);
  return found;
}

/** Templates make the prompts of SillyTavern's text completion. @param {any} turn */
const isText = (turn) => turn?.platform === "silly_tavern" && turn?.dialect === "text";

/** @param {string} home @param {string[]} names */
const fields = (home, ...names) => names.map((name) => `${home}/${name}`);

/** The section that edits a place: the one with the longest fitting pointer. @param {Section[]} all @param {Place | null} place */
function sectionOf(all, place) {
  if (!place) return undefined;
  let best;
  let length = -1;
  for (const section of all) {
    if (section.document !== place.document) continue;
    for (const pointer of section.pointers) {
      if (pointer.length > length && (place.pointer === pointer || place.pointer.startsWith(`${pointer}/`))) {
        best = section;
        length = pointer.length;
      }
    }
  }
  return best || all.find((section) => section.document === place.document);
}

/** @param {string} id */
const isChanged = (id) => id !== current().workspace.active.turn && !documentOf(id)?.saved;

export function EditView() {
  const state = useStudio();
  const all = sections(state);
  const chosen = sectionOf(all, state.place) || all[0];
  const form = useRef(/** @type {HTMLElement | null} */ (null));
  const [seen, setSeen] = useState(state.place?.seen);

  // A place without characters, from a table or the outline: go to its field.
  useEffect(() => {
    const place = current().place;
    if (!place || place.seen === seen) return;
    setSeen(place.seen);
    if (place.from !== undefined && place.from !== null) return;
    const field = form.current?.querySelector(`[data-pointer="${CSS.escape(place.pointer)}"]`);
    field?.scrollIntoView({ block: "nearest" });
  }, [state.place?.seen]);

  if (!chosen) return html`<p class="note">There is nothing to edit.</p>`;
  const name = documentOf(chosen.document)?.name;
  const groups = [...new Set(all.map(({ group }) => group))];
  const open = (/** @type {Section} */ section) => reveal({ document: section.document, pointer: section.pointers[0] });
  return html`<div class="edit">
    <nav class="outline" aria-label="Parts of the prompt">
      ${groups.map(
        (group) =>
          html`<h3>${group}</h3>
            <ul>
              ${all
                .filter((section) => section.group === group)
                .map(
                  (section) =>
                    html`<li key=${section.id}>
                      <button
                        type="button"
                        aria-current=${section.id === chosen.id ? "true" : undefined}
                        onClick=${() => open(section)}
                      >
                        ${section.label} ${section.count !== undefined && html`<small>${section.count}</small>`}
                        ${
                          section === all.find(({ document }) => document === section.document) &&
                          isChanged(section.document) &&
                          html`<i class="unsaved" title="Changed"></i>`
                        }
                      </button>
                    </li>`,
                )}
            </ul>`,
      )}
    </nav>
    <label class="field outline-choice">
      <span>Part</span>
      <select id="part" onChange=${(/** @type {any} */ event) => open(all[event.target.selectedIndex])}>
        ${all.map(
          (section) => html`<option selected=${section.id === chosen.id}>${section.group}: ${section.label}</option>`,
        )}
      </select>
    </label>
    <div class="form" ref=${form} key=${chosen.id}>
      <h2>${chosen.label} ${name !== chosen.label && html`<small>${name}</small>`}</h2>
      <${chosen.view} document=${chosen.document} base=${chosen.pointers[0]} place=${state.place} />
    </div>
  </div>`;
}
