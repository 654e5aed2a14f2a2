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
    ["names_as_stop_strings", "always_force_name2", "use_stop_strings", "single_line", "trim_sentences"],
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
    ["wrap", "macro", "system_same_as_user", "sequences_as_stop_strings", "skip_examples"],
  ],
  system_prompt: [["content", "post_history"], [], []],
};

/** @type {Record<string, string>} */
const SWITCHES = {
  names_as_stop_strings: "Stop at names",
  always_force_name2: "End the prompt with the character's name",
  use_stop_strings: "Stop at the separator and the chat start",
  single_line: "Stop at the first line break",
  trim_sentences: "Trim incomplete sentences",
  wrap: "Line breaks around sequences",
  macro: "Replace macros in sequences",
  system_same_as_user: "System messages like the user's",
  sequences_as_stop_strings: "Stop at sequences",
  skip_examples: "Leave example dialogue unformatted",
};
// What counts where a template says nothing.
const ON = ["names_as_stop_strings", "always_force_name2", "wrap", "macro", "sequences_as_stop_strings"];
const INSTRUCT_NAMES = [
  ["none", "never"],
  ["force", "in groups and for other names"],
  ["always", "always"],
];
const STORY_PLACES = [
  [0, "before the chat"],
  [1, "in the chat, at a depth"],
];

/** "input_sequence" is the input sequence. @param {string} name */
const words = (name) => name[0].toUpperCase() + name.slice(1).replaceAll("_", " ");

/** @param {{document: string}} props */
export function TemplateEditor({ document }) {
  const kind = documentOf(document)?.kind || "";
  const [long, short, switches] = TEMPLATES[kind] || [[], [], []];
  return html`${long.map((name) => html`<${LongField} document=${document} pointer=${`/${name}`} label=${words(name)} size="tall" />`)}
    ${short.map((name) => html`<${LongField} document=${document} pointer=${`/${name}`} label=${words(name)} size="line" />`)}
    ${
      kind === "context_template" &&
      html`<div class="grid">
        <${ChoiceField}
          document=${document}
          pointer="/story_string_position"
          label="Position"
          options=${STORY_PLACES}
          fallback=${0}
        />
        <${NumberField} document=${document} pointer="/story_string_depth" label="Depth" least=${0} fallback=${1} />
        <${ChoiceField} document=${document} pointer="/story_string_role" label="Role" options=${ROLES} fallback=${0} />
      </div>`
    }
    ${
      kind === "instruct" &&
      html`<div class="grid">
        <${ChoiceField}
          document=${document}
          pointer="/names_behavior"
          label="Names"
          options=${INSTRUCT_NAMES}
          fallback="force"
        />
      </div>`
    }
    <div class="checks">
      ${switches.map((name) => html`<${CheckField} document=${document} pointer=${`/${name}`} label=${SWITCHES[name]} fallback=${ON.includes(name)} />`)}
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
      <${TextField} document=${document} pointer="/model" label="Model" hint=${AS_PRESET} />
      <${NumberField} document=${document} pointer="/seed" label="Seed" fallback=${1} />
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
