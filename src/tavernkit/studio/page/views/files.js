/** The documents of the workspace: which are used, and new ones. */

import { download, get, post } from "../api.js";
import { attempt, change, removeDocument, replaceWorkspace, useStudio } from "../store.js";
import { html, useEffect, useState } from "../vendor/preact.js";
import { Dialog } from "../widgets.js";

/** @type {Record<string, string>} */
const KINDS = {
  card: "Character",
  book: "Lore book",
  preset: "Preset",
  context_template: "Context template",
  instruct: "Instruct template",
  system_prompt: "System prompt",
  regex: "Regex scripts",
  persona: "Persona",
  chat: "Chat",
};
const NEW = ["book", "preset", "regex", "context_template", "instruct", "system_prompt"];
const FIXED = ["card", "chat", "persona", "turn"];

/** @param {{close: () => void}} props */
export function Files({ close }) {
  const { documents, workspace } = useStudio();
  const { active } = workspace;
  /** @param {import("../types").Document} document */
  const used = ({ id }) => Object.values(active).flat().includes(id);
  const shown = [...documents.values()].filter(({ kind }) => kind !== "turn");
  return html`<${Dialog} title="Files" close=${close} wide>
    <table class="files">
      <caption class="hidden">
        Documents
      </caption>
      <thead>
        <tr>
          <th scope="col">Used</th>
          <th scope="col">Name</th>
          <th scope="col"><span class="hidden">Actions</span></th>
        </tr>
      </thead>
      <tbody>
        ${shown.map(
          (document) =>
            html`<tr key=${document.id}>
              <td>
                <input
                  type="checkbox"
                  aria-label=${`Use ${document.name}`}
                  checked=${used(document)}
                  onChange=${(/** @type {any} */ event) =>
                    change(() =>
                      post("/activate", { document: document.id, active: event.target.checked, build: true }),
                    )}
                />
              </td>
              <th scope="row">
                ${document.name}${" "}
                <small>${[KINDS[document.kind] || document.kind, document.file].filter(Boolean).join(", ")}</small>
              </th>
              <td>
                <div class="row end">
                  <button
                    type="button"
                    class="quiet"
                    aria-label=${`Download ${document.name}`}
                    onClick=${() => attempt(() => download(`/documents/${document.id}/download`, document.name))}
                  >
                    Download
                  </button>
                  ${
                    !FIXED.includes(document.kind) &&
                    html`<button
                      type="button"
                      class="quiet"
                      aria-label=${`Remove ${document.name}`}
                      onClick=${() => removeDocument(document.id)}
                    >
                      Remove
                    </button>`
                  }
                </div>
              </td>
            </tr>`,
        )}
      </tbody>
    </table>
    <div class="row">
      <label class="file">
        <span>Open a file</span>
        <input type="file" id="open-file" onChange=${(/** @type {any} */ event) => take(event.target)} />
      </label>
      ${NEW.map(
        (kind) =>
          html`<button
            type="button"
            onClick=${() => change(() => post("/documents", { kind, name: `New ${KINDS[kind].toLowerCase()}` }))}
          >
            New ${KINDS[kind].toLowerCase()}
          </button>`,
      )}
    </div>
    ${workspace.folder && html`<${Folder} close=${close} />`}
  <//>`;
}

/** Send a file chosen in the browser. @param {HTMLInputElement} input */
async function take(input) {
  const file = input.files?.[0];
  if (!file) return;
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let start = 0; start < bytes.length; start += 0x8000)
    binary += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  await change(() => post("/documents", { kind: null, name: file.name, content: btoa(binary) }));
  input.value = "";
}

/** Characters of a folder or a library. @param {{close: () => void}} props */
function Folder({ close }) {
  const { documents } = useStudio();
  const [folder, setFolder] = useState(/** @type {any} */ (null));
  const [chosen, setChosen] = useState(/** @type {Record<string, string>} */ ({}));
  useEffect(() => void attempt(async () => setFolder(await get("/folder"))), []);
  if (!folder) return null;
  const unsaved = [...documents.values()].some(({ saved, kind }) => !saved && kind !== "turn");
  /** @param {string} name @param {string} label @param {string} kind @param {string[] | undefined} ids */
  const choice = (name, label, kind, ids) =>
    ids &&
    ids.length > 0 &&
    html`<label class="field">
      <span>${label}</span>
      <select
        data-choice=${name}
        onChange=${(/** @type {any} */ event) => setChosen({ ...chosen, [name]: event.target.value })}
      >
        <option value="">–</option>
        ${ids.map(
          (id) =>
            html`<option value=${id} selected=${id === chosen[name]}>${folder.names?.[kind]?.[id] || id}</option>`,
        )}
      </select>
    </label>`;
  const { character, group, chat, preset, book } = chosen;
  const ready = Boolean(character || group);
  const open = () => {
    const body = { character: character || null, group: group || null, chat: chat || null, preset: preset || null };
    close();
    return replaceWorkspace(() => post("/open", { ...body, books: book ? [book] : [], discard: true }));
  };
  return html`<section class="sub">
    <h3>Open another character</h3>
    <div class="grid">
      ${choice("character", "Character", "characters", folder.characters)}
      ${choice("group", "Group", "groups", folder.groups)}
      ${choice("chat", "Chat", "chats", folder.chats?.[character || group || ""])}
      ${choice("preset", "Preset", "presets", folder.presets)} ${choice("book", "Lore book", "books", folder.books)}
    </div>
    ${ready && unsaved && html`<p class="problem" role="alert">What is not saved will be lost.</p>`}
    <button
      type="button"
      id="open-character"
      aria-disabled=${ready ? "false" : "true"}
      onClick=${() => ready && open()}
    >
      ${unsaved ? "Open without saving" : "Open"}
    </button>
  </section>`;
}
