/** The lines of a chat. */

import { at } from "../patch.js";
import { current, documentOf, edit, reveal } from "../store.js";
import { html } from "../vendor/preact.js";
import { CheckField, LongField, TextField } from "../widgets.js";

/** @typedef {import("../types").Json} Json */

/** @param {{document: string, base: string, place: import("../types").Place | null}} props */
export function ChatLines({ document, base, place }) {
  const owner = documentOf(document);
  const risu = owner?.format === "risu_chat";
  const found = at(owner?.data, base);
  const lines = Array.isArray(found) ? found : [];
  const text = risu ? "data" : "mes";
  const here =
    place?.document === document && place.pointer.startsWith(`${base}/`) ? place.pointer.split("/")[2] : null;
  const chosen = here === null ? -1 : Number(here);
  const label = owner?.name || "Chat";

  /** @param {boolean} user */
  const add = (user) => {
    const persona = documentOf(current().workspace.active.persona)?.data?.name || "User";
    const other = lines.findLast((line) => !line?.is_user)?.name || "Character";
    const value = risu
      ? { role: user ? "user" : "char", data: "" }
      : { name: user ? persona : other, is_user: user, is_system: false, mes: "", extra: {} };
    edit([{ document, op: "add", path: `${base}/-`, value }], null, `${label}: new line`);
    reveal({ document, pointer: `${base}/${lines.length}`, from: null });
  };
  /** @param {number} index @param {number} to */
  const move = (index, to) => {
    if (to < 0 || to >= lines.length) return;
    edit([{ document, op: "move", from: `${base}/${index}`, path: `${base}/${to}` }], null, `${label}: line moved`);
    reveal({ document, pointer: `${base}/${to}`, from: null });
  };

  return html`<ol class="lines">
      ${lines.map((line, index) => {
        const user = risu ? line?.role === "user" : Boolean(line?.is_user);
        const name = line?.name || (user ? "User" : "Character");
        if (index !== chosen) {
          return html`<li key=${index} class=${`line ${user ? "user" : ""} ${line?.is_system ? "off" : ""}`}>
            <button
              type="button"
              class="line-button"
              onClick=${() => reveal({ document, pointer: `${base}/${index}` })}
            >
              <strong>${name}</strong> <span dir="auto">${line?.[text] || ""}</span>
            </button>
          </li>`;
        }
        const pointer = `${base}/${index}`;
        return html`<li key=${index} class="line open">
          <${LongField} document=${document} pointer=${`${pointer}/${text}`} label=${`Line ${index + 1}, ${name}`} />
          ${
            !risu &&
            html`<div class="grid"><${TextField} document=${document} pointer=${`${pointer}/name`} label="Name" /></div>
              <div class="checks">
                <${CheckField} document=${document} pointer=${`${pointer}/is_user`} label="The user says it" />
                <${CheckField} document=${document} pointer=${`${pointer}/is_system`} label="Hidden from the prompt" />
              </div>`
          }
          <div class="row">
            <button type="button" class="quiet" onClick=${() => move(index, index - 1)}>Up</button>
            <button type="button" class="quiet" onClick=${() => move(index, index + 1)}>Down</button>
            <button
              type="button"
              class="quiet danger"
              onClick=${() => edit([{ document, op: "remove", path: pointer }], null, `${label}: line removed`)}
            >
              Remove
            </button>
          </div>
        </li>`;
      })}
    </ol>
    <div class="row">
      <button type="button" onClick=${() => add(true)}>Add a line of the user</button>
      <button type="button" onClick=${() => add(false)}>Add a line of the character</button>
    </div>`;
}
