/** Two versions side by side, their differences marked. */

import { post } from "../api.js";
import { message, settled, useKept, useStudio } from "../store.js";
import { html, useEffect, useState } from "../vendor/preact.js";
import { Empty, Parts, counted } from "../widgets.js";

/** @typedef {import("../types").Build} Build */
/** @typedef {import("../types").MessageChange} MessageChange */
/** @typedef {{version: string, platform: string | null, instead: Record<string, string>}} Side */
/** @typedef {{left: Build, right: Build, messages: MessageChange[], documents: {document: string, changes: import("../types").Change[]}[]}} Answer */

/** @type {Record<string, {label: string, names: [string, string], left: Partial<Side>, right: Partial<Side>}>} */
const PAIRS = {
  saved: {
    label: "As saved and as edited",
    names: ["As saved", "As edited"],
    left: { version: "saved" },
    right: { version: "edited" },
  },
  platforms: {
    label: "SillyTavern and RisuAI",
    names: ["SillyTavern", "RisuAI"],
    left: { platform: "silly_tavern" },
    right: { platform: "risu_ai" },
  },
};

export function Compare() {
  const { workspace, documents } = useStudio();
  const [wanted, setWanted] = useKept("pair", "saved");
  const [answer, setAnswer] = useState(/** @type {{pair: string, found: Answer} | null} */ (null));
  const [failure, setFailure] = useState("");
  const swaps = [...documents.values()].flatMap((used) =>
    isUsed(workspace.active, used.id)
      ? [...documents.values()]
          .filter((other) => other.kind === used.kind && other.id !== used.id)
          .map((other) => ({ used, other }))
      : [],
  );

  const pair = PAIRS[wanted] || swaps.some(({ used, other }) => wanted === `${used.id} ${other.id}`) ? wanted : "saved";

  useEffect(() => {
    const control = new AbortController();
    const [left, right] = sides(pair);
    settled()
      .then(() => post("/compare", { left, right }, control.signal))
      .then(
        (found) => (setAnswer({ pair, found }), setFailure("")),
        (error) => !control.signal.aborted && (setAnswer(null), setFailure(message(error))),
      );
    return () => control.abort();
  }, [pair, workspace.revision]);

  const found = answer?.pair === pair ? answer.found : null;
  const names = PAIRS[pair]?.names || pair.split(" ").map((id) => documents.get(id)?.name || id);
  return html`<div class="page compare">
    <header class="row">
      <h2>Compare</h2>
      <label class="field">
        <span>What</span>
        <select id="pair" onChange=${(/** @type {any} */ event) => setWanted(event.target.value)}>
          ${Object.entries(PAIRS).map(([id, { label }]) => html`<option value=${id} selected=${id === pair}>${label}</option>`)}
          ${swaps.map(
            ({ used, other }) =>
              html`<option value=${`${used.id} ${other.id}`} selected=${`${used.id} ${other.id}` === pair}>
                ${used.name} and ${other.name} (${used.kind})
              </option>`,
          )}
        </select>
      </label>
    </header>
    ${failure && html`<p class="problem" role="alert">${failure}</p>`}
    ${found ? html`<${Sides} answer=${found} names=${names} />` : !failure && html`<${Empty} text="Comparing…" />`}
  </div>`;
}

/** @param {import("../types").Active} active @param {string} id */
const isUsed = (active, id) => Object.values(active).flat().includes(id);

/** @param {string} pair @returns {[Side, Side]} */
function sides(pair) {
  const plain = { version: "edited", platform: null, instead: {} };
  const known = PAIRS[pair];
  if (known)
    return [
      { ...plain, ...known.left },
      { ...plain, ...known.right },
    ];
  const [used, other] = pair.split(" ");
  return [plain, { ...plain, instead: { [used]: other } }];
}

/** @param {{answer: Answer, names: string[]}} props */
function Sides({ answer, names }) {
  const { documents } = useStudio();
  const { left, right, messages } = answer;
  const different = messages.filter(({ kind }) => kind !== "same").length;
  return html`<p role="status" id="compare-result">
      ${different === 0 ? "Both prompts are the same." : `${counted(different, "message differs", "messages differ")}.`}
      <small> ${left.budget.total.toLocaleString("en")} and ${counted(right.budget.total, "token")}</small>
    </p>
    <div class="scroll" tabindex="0" role="region" aria-label="Both prompts">
      <table class="sides">
        <thead>
          <tr>
            <th scope="col">${names[0]} <small>${left.error?.message || ""}</small></th>
            <th scope="col">${names[1]} <small>${right.error?.message || ""}</small></th>
          </tr>
        </thead>
        <tbody>
          ${messages.map((change) => {
            const before = change.before === null ? null : left.messages[change.before];
            const after = change.index === null ? null : right.messages[change.index];
            const parts = change.parts || [];
            return html`<tr class=${change.kind}>
              <td>
                ${
                  before &&
                  html`<span class="role">${before.role}</span>
                    <p class="text" dir="auto">
                      ${parts.length ? html`<${Parts} parts=${parts.filter(({ kind }) => kind !== "added")} />` : before.content}
                    </p>`
                }
              </td>
              <td>
                ${
                  after &&
                  html`<span class="role">${after.role}</span>
                    <p class="text" dir="auto">
                      ${parts.length ? html`<${Parts} parts=${parts.filter(({ kind }) => kind !== "removed")} />` : after.content}
                    </p>`
                }
              </td>
            </tr>`;
          })}
        </tbody>
      </table>
    </div>
    ${answer.documents
      .filter(({ changes }) => changes.length)
      .map(
        ({ document, changes }) =>
          html`<details class="sub">
            <summary>${documents.get(document)?.name || document}: ${counted(changes.length, "change")}</summary>
            <ul>
              ${changes.map(
                ({ pointer, kind, before, after }) =>
                  html`<li>
                    <code>${pointer}</code> ${kind} ${kind !== "added" && html`<del>${words(before)}</del>`}
                    ${kind !== "removed" && html`<ins>${words(after)}</ins>`}
                  </li>`,
              )}
            </ul>
          </details>`,
      )}`;
}

/** @param {import("../types").Json} value */
const words = (value) => (typeof value === "string" ? value : JSON.stringify(value));
