/** Regex scripts: in files of their own, in cards and in presets, of both programs. */

import { at, newId } from "../patch.js";
import { documentOf, edit, reveal, setValue } from "../store.js";
import { html } from "../vendor/preact.js";
import { CheckField, ChoiceField, Empty, LongField, NumberField, TextField } from "../widgets.js";

/** @typedef {import("../types").Json} Json */
/** @typedef {{document: string, base: string, place: import("../types").Place | null}} Props */

/** @type {[number, string][]} */
const PLACEMENTS = [
  [1, "what the user says"],
  [2, "what the character says"],
  [3, "slash commands"],
  [5, "lore"],
  [6, "reasoning"],
];
const RISU_TYPES = [
  ["editinput", "what the user says"],
  ["editoutput", "what the character says"],
  ["editprocess", "the prompt"],
  ["editdisplay", "what is shown"],
  ["edittrans", "translations"],
];

/** @param {Props} props */
export const RegexScripts = (props) =>
  html`<${Scripts}
    ...${props}
    title="scriptName"
    form=${Script}
    fresh=${() => ({
      id: newId(),
      scriptName: "New script",
      findRegex: "",
      replaceString: "",
      trimStrings: [],
      placement: [2],
      disabled: false,
      markdownOnly: false,
      promptOnly: true,
      runOnEdit: false,
      substituteRegex: 0,
      minDepth: null,
      maxDepth: null,
    })}
  />`;

/** @param {Props} props */
export const RisuScripts = (props) =>
  html`<${Scripts}
    ...${props}
    title="comment"
    form=${RisuScript}
    fresh=${() => ({ comment: "New script", in: "", out: "", type: "editprocess", flag: "", ableFlag: false })}
  />`;

/**
 * A list of scripts, one of them open. SillyTavern exports single scripts: such a file stays a single script.
 * @param {Props & {title: string, form: any, fresh: () => Json}} props
 */
function Scripts({ document, base, place, title, form, fresh }) {
  const found = at(documentOf(document)?.data, base);
  const single = found !== null && typeof found === "object" && !Array.isArray(found);
  if (single) return html`<${form} document=${document} at=${base} />`;
  const list = Array.isArray(found) ? found : [];
  const inside = place?.document === document && place.pointer.startsWith(`${base}/`);
  const chosen = Math.min(inside ? Number(place.pointer.slice(base.length + 1).split("/")[0]) : 0, list.length - 1);
  const add = () => {
    edit([{ document, op: "add", path: `${base}/-`, value: fresh() }], null, "New script");
    reveal({ document, pointer: `${base}/${list.length}` });
  };
  const remove = () => edit([{ document, op: "remove", path: `${base}/${chosen}` }], null, "Script removed");
  return html`<ul class="choices">
      ${list.map(
        (script, index) =>
          html`<li>
            <button
              type="button"
              class=${script?.disabled ? "entry off" : "entry"}
              aria-current=${index === chosen ? "true" : undefined}
              onClick=${() => reveal({ document, pointer: `${base}/${index}` })}
            >
              <span>${script?.[title] || `Script ${index + 1}`}</span>
            </button>
          </li>`,
      )}
    </ul>
    <button type="button" onClick=${add}>Add a script</button>
    ${
      chosen < 0
        ? html`<${Empty} text="There are no scripts yet." />`
        : html`<${form} key=${chosen} document=${document} at=${`${base}/${chosen}`} remove=${remove} />`
    }`;
}

/** @param {{remove?: () => void}} props */
const Remove = ({ remove }) =>
  remove && html`<button type="button" class="quiet danger" onClick=${remove}>Remove this script</button>`;

/** @param {{document: string, at: string, remove?: () => void}} props */
function Script({ document, at: base, remove }) {
  const value = at(documentOf(document)?.data, `${base}/placement`);
  const placement = Array.isArray(value) ? value : [];
  /** @param {number} place */
  const toggle = (place) => {
    const next = placement.includes(place) ? placement.filter((each) => each !== place) : [...placement, place].sort();
    setValue(document, `${base}/placement`, next, null);
  };
  return html`<section class="sub">
    <${TextField} document=${document} pointer=${`${base}/scriptName`} label="Name" />
    <${LongField} document=${document} pointer=${`${base}/findRegex`} label="Find" size="line" />
    <${LongField} document=${document} pointer=${`${base}/replaceString`} label="Replace with" size="line" />
    <fieldset>
      <legend>Changes</legend>
      <div class="checks">
        ${PLACEMENTS.map(
          ([place, label]) =>
            html`<label class="check">
              <input type="checkbox" checked=${placement.includes(place)} onChange=${() => toggle(place)} /><span
                >${label}</span
              >
            </label>`,
        )}
      </div>
    </fieldset>
    <div class="checks">
      <${CheckField} document=${document} pointer=${`${base}/disabled`} label="On" inverted />
      <${CheckField} document=${document} pointer=${`${base}/promptOnly`} label="Only the prompt" />
      <${CheckField} document=${document} pointer=${`${base}/markdownOnly`} label="Only what is shown" />
    </div>
    <div class="grid">
      <${NumberField} document=${document} pointer=${`${base}/minDepth`} label="From depth" nullable hint="any" />
      <${NumberField} document=${document} pointer=${`${base}/maxDepth`} label="To depth" nullable hint="any" />
    </div>
    <${Remove} remove=${remove} />
  </section>`;
}

/** @param {{document: string, at: string, remove?: () => void}} props */
const RisuScript = ({ document, at: base, remove }) =>
  html`<section class="sub">
    <div class="grid">
      <${TextField} document=${document} pointer=${`${base}/comment`} label="Name" />
      <${ChoiceField}
        document=${document}
        pointer=${`${base}/type`}
        label="Changes"
        options=${RISU_TYPES}
        fallback="editoutput"
      />
    </div>
    <${LongField} document=${document} pointer=${`${base}/in`} label="Find" size="line" />
    <${LongField} document=${document} pointer=${`${base}/out`} label="Replace with" size="line" />
    <div class="grid">
      <${TextField} document=${document} pointer=${`${base}/flag`} label="Flags" hint="g" />
    </div>
    <div class="checks">
      <${CheckField} document=${document} pointer=${`${base}/ableFlag`} label="Use these flags" />
    </div>
    <${Remove} remove=${remove} />
  </section>`;
