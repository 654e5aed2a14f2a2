/** The card's own fields. */

import { at } from "../patch.js";
import { documentOf, edit } from "../store.js";
import { html } from "../vendor/preact.js";
import { ChoiceField, LongField, NumberField, TextField, WordsField } from "../widgets.js";

/** @typedef {{document: string}} Props */

export const ROLES = /** @type {[any, string][]} */ ([
  [0, "system"],
  [1, "user"],
  [2, "assistant"],
]);
const ROLE_NAMES = /** @type {[any, string][]} */ ([
  ["system", "system"],
  ["user", "user"],
  ["assistant", "assistant"],
]);

/** @param {string} document */
const home = (document) => documentOf(document)?.home ?? "/data";

/** @param {Props} props */
export function Character({ document }) {
  const at = home(document);
  return html`<${TextField} document=${document} pointer=${`${at}/name`} label="Name" />
    <${LongField}
      document=${document}
      pointer=${`${at}/description`}
      label="Description"
      size="tall"
      hint="Who they are, how they look, what they want"
    />
    <${LongField} document=${document} pointer=${`${at}/personality`} label="Personality" hint="A few words" />
    <${LongField} document=${document} pointer=${`${at}/scenario`} label="Scenario" hint="Where and when" />`;
}

/** @param {Props} props */
export function Greetings({ document }) {
  const pointer = `${home(document)}/alternate_greetings`;
  const found = at(documentOf(document)?.data, pointer);
  const others = Array.isArray(found) ? found : [];
  const name = documentOf(document)?.name;
  const add = () =>
    edit(
      Array.isArray(found)
        ? [{ document, op: "add", path: `${pointer}/-`, value: "" }]
        : [{ document, op: "add", path: pointer, value: [""] }],
      null,
      `${name}: new greeting`,
    );
  return html`<${LongField}
      document=${document}
      pointer=${`${home(document)}/first_mes`}
      label="First message"
      size="tall"
    />
    ${others.map(
      (_, index) =>
        html`<div class="with-tools">
          <${LongField} document=${document} pointer=${`${pointer}/${index}`} label=${`Greeting ${index + 2}`} />
          <div class="row">
            <button
              type="button"
              class="quiet"
              onClick=${() => edit([{ document, op: "remove", path: `${pointer}/${index}` }], null, `${name}: greeting removed`)}
            >
              Remove greeting ${index + 2}
            </button>
          </div>
        </div>`,
    )}
    <button type="button" id="add-greeting" onClick=${add}>Add a greeting</button>`;
}

/** @param {Props} props */
export const Examples = ({ document }) =>
  html`<${LongField}
    document=${document}
    pointer=${`${home(document)}/mes_example`}
    label="Example dialogue"
    size="tall"
    note="Each example starts with <START>"
  />`;

/** @param {Props} props */
export function CardPrompts({ document }) {
  const at = home(document);
  const depth = `${at}/extensions/depth_prompt`;
  return html`<${LongField}
      document=${document}
      pointer=${`${at}/system_prompt`}
      label="System prompt"
      hint="Takes the place of the preset's; {{original}} puts it in"
    />
    <${LongField} document=${document} pointer=${`${at}/post_history_instructions`} label="Post-history instructions" />
    <${LongField} document=${document} pointer=${`${depth}/prompt`} label="Character's note" />
    <div class="grid">
      <${NumberField} document=${document} pointer=${`${depth}/depth`} label="Depth" least=${0} fallback=${4} />
      <${ChoiceField}
        document=${document}
        pointer=${`${depth}/role`}
        label="Role"
        options=${ROLE_NAMES}
        fallback="system"
      />
    </div>`;
}

/** @param {Props} props */
export function About({ document }) {
  const at = home(document);
  return html`<div class="grid">
      <${TextField} document=${document} pointer=${`${at}/nickname`} label="Nickname" />
      <${TextField} document=${document} pointer=${`${at}/creator`} label="Creator" />
      <${TextField} document=${document} pointer=${`${at}/character_version`} label="Version" />
      <${WordsField} document=${document} pointer=${`${at}/tags`} label="Tags" fallback=${[]} />
    </div>
    <${LongField} document=${document} pointer=${`${at}/creator_notes`} label="Creator's notes" note="Never sent" />`;
}
