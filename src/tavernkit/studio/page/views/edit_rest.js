/** Templates, persona, author's note, the next turn. */

import { post } from "../api.js";
import { at } from "../patch.js";
import { change, current, documentOf, reveal, setValue } from "../store.js";
import { html } from "../vendor/preact.js";
import { CheckField, ChoiceField, LongField, NumberField, TextField } from "../widgets.js";
import { ROLES } from "./edit_card.js";

const PERSONA_PLACES = [
  [0, "in the prompt"],
  [2, "above the author's note"],
  [3, "below the author's note"],
  [4, "in the chat, at a depth"],
  [9, "nowhere"],
];
const NOTE_PLACES = [
  [0, "after the main prompt"],
  [2, "before the main prompt"],
  [1, "in the chat, at a depth"],
];

/** @param {{document: string}} props */
export const Persona = ({ document }) =>
  html`<${TextField} document=${document} pointer="/name" label="Name" />
    <${LongField} document=${document} pointer="/description" label="Description" />
    <div class="grid">
      <${ChoiceField}
        document=${document}
        pointer="/position"
        label="Position"
        options=${PERSONA_PLACES}
        fallback=${0}
      />
      <${NumberField} document=${document} pointer="/depth" label="Depth" least=${0} fallback=${2} />
      <${ChoiceField} document=${document} pointer="/role" label="Role" options=${ROLES} fallback=${0} />
    </div>`;

/** @param {{document: string}} props */
export function AuthorsNote({ document }) {
  if (documentOf(document)?.format === "risu_chat") {
    return html`<${LongField} document=${document} pointer="/note" label="Author's note" />`;
  }
  const at = "/header/chat_metadata";
  return html`<${LongField} document=${document} pointer=${`${at}/note_prompt`} label="Author's note" />
    <div class="grid">
      <${ChoiceField}
        document=${document}
        pointer=${`${at}/note_position`}
        label="Position"
        options=${NOTE_PLACES}
        fallback=${1}
      />
      <${NumberField} document=${document} pointer=${`${at}/note_depth`} label="Depth" least=${0} fallback=${4} />
      <${NumberField}
        document=${document}
        pointer=${`${at}/note_interval`}
        label="Every … messages"
        least=${0}
        fallback=${1}
      />
      <${ChoiceField} document=${document} pointer=${`${at}/note_role`} label="Role" options=${ROLES} fallback=${0} />
    </div>`;
}

/** @type {Record<string, [string[], string[], string[]]>} long texts, short texts, switches */
const TEMPLATES = {
  context_template: [
    ["story_string"],
    ["chat_start", "example_separator"],
    ["use_stop_strings", "names_as_stop_strings", "always_force_name2", "trim_sentences", "single_line"],
  ],
  instruct: [
    [],
    [
      "input_sequence",
      "input_suffix",
      "output_sequence",
      "output_suffix",
      "system_sequence",
      "system_suffix",
      "stop_sequence",
      "story_string_prefix",
      "story_string_suffix",
      "first_input_sequence",
      "last_input_sequence",
      "first_output_sequence",
      "last_output_sequence",
      "last_system_sequence",
      "user_alignment_message",
    ],
    ["enabled", "wrap", "macro", "system_same_as_user", "sequences_as_stop_strings", "skip_examples"],
  ],
  system_prompt: [["content", "post_history"], [], []],
};

/** "input_sequence" is the input sequence. @param {string} name */
const words = (name) => name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

/** @param {{document: string}} props */
export function TemplateEditor({ document }) {
  const [long, short, switches] = TEMPLATES[documentOf(document)?.kind || ""] || [[], [], []];
  return html`${long.map((name) => html`<${LongField} document=${document} pointer=${`/${name}`} label=${words(name)} size="tall" />`)}
    ${short.map((name) => html`<${LongField} document=${document} pointer=${`/${name}`} label=${words(name)} size="line" />`)}
    <div class="checks">
      ${switches.map((name) => html`<${CheckField} document=${document} pointer=${`/${name}`} label=${words(name)} />`)}
    </div>`;
}

/** @type {Record<string, [string, string]>} what prompts are built with instead of a document, and what to do about it */
const MISSING = {
  preset: ["The prompt is built with the program's default preset.", "Edit a copy of it"],
  context_template: ["The prompt is built with SillyTavern's default context template.", "Edit a copy of it"],
  instruct: ["No instruct template is used: lines begin with names.", "Add one"],
  system_prompt: ["There is no system prompt.", "Add one"],
};

/** In place of a document that is not there: make one. @param {{base: string}} props */
export function Missing({ base }) {
  const kind = base.slice(1);
  const [text, action] = MISSING[kind];
  const make = async () => {
    await change(() => post("/documents", { kind, name: `New ${kind.replace("_", " ")}` }));
    const made = current().workspace.active[/** @type {"preset"} */ (kind)];
    if (made) reveal({ document: made, pointer: kind === "preset" ? "/prompt_order" : "" });
  };
  return html`<p>${text}</p>
    <button type="button" id="make-document" onClick=${make}>${action}</button>`;
}

const AS_PRESET = "as in the preset";

/** What is asked of the next build. @param {{document: string}} props */
export const Turn = ({ document }) =>
  html`<${LongField} document=${document} pointer="/message" label="Next message" />
    <div class="grid">
      <${NumberField}
        document=${document}
        pointer="/context_length"
        label="Context (tokens)"
        least=${1}
        nullable
        hint=${AS_PRESET}
      />
      <${NumberField}
        document=${document}
        pointer="/response_length"
        label="Reply (tokens)"
        least=${1}
        nullable
        hint=${AS_PRESET}
      />
      <${NumberField} document=${document} pointer="/seed" label="Seed of chance" fallback=${1} />
      <${NumberField} document=${document} pointer="/greeting" label="Greeting" least=${0} fallback=${0} />
    </div>
    <${CheckField}
      document=${document}
      pointer="/allow_scripts"
      label="Run the card's regex scripts"
      fallback=${true}
    />
    <${Members} document=${document} />`;

/** Who takes part: two characters or more make a group. @param {{document: string}} props */
function Members({ document }) {
  const cards = [...current().documents.values()].filter(({ kind }) => kind === "card");
  if (cards.length < 2) return null;
  const value = at(documentOf(document)?.data, "/members");
  const members = Array.isArray(value) ? value : [];
  /** @param {string} id */
  const toggle = (id) =>
    setValue(
      document,
      "/members",
      members.includes(id) ? members.filter((each) => each !== id) : [...members, id],
      null,
    );
  return html`<fieldset>
    <legend>Group: two or more take turns</legend>
    <div class="checks">
      ${cards.map(
        ({ id, name }) =>
          html`<label class="check">
            <input type="checkbox" checked=${members.includes(id)} onChange=${() => toggle(id)} /><span>${name}</span>
          </label>`,
      )}
    </div>
  </fieldset>`;
}
