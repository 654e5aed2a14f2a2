/** Save: what differs is shown first. */

import { ApiError, download, get, post } from "../api.js";
import { attempt, change, message, settled, tell, updateDocument, useStudio } from "../store.js";
import { html, useEffect, useState } from "../vendor/preact.js";
import { Dialog, counted } from "../widgets.js";

/** @typedef {import("../types").Document} Document */
/** @typedef {import("../types").Difference} Difference */

/** @param {{close: () => void}} props */
export function SaveDialog({ close }) {
  const { documents } = useStudio();
  const [changed] = useState(() =>
    [...documents.values()].filter((each) => !each.saved && each.kind !== "turn").map(({ id }) => id),
  );
  const waiting = changed.map((id) => documents.get(id)).filter((each) => each && !each.saved && each.writable);
  const saveAll = async () => {
    for (const each of waiting) await save(/** @type {Document} */ (each), false);
    close();
  };
  const files = changed.some((id) => documents.get(id)?.file); // the library of a service keeps no copies
  const footer = html`${files && html`<p class="note">A copy of what was there is kept.</p>`}
    <button type="button" onClick=${close}>${waiting.length ? "Not now" : "Close"}</button>
    ${
      waiting.length > 0 &&
      html`<button type="button" class="main" id="save-all" onClick=${() => attempt(saveAll)}>
        Save ${waiting.length === 1 ? waiting[0]?.file || waiting[0]?.name : counted(waiting.length, "file")}
      </button>`
    }`;
  return html`<${Dialog} title="Save" close=${close} footer=${footer} wide>
    ${changed.length === 0 && html`<p>Everything is as it was opened. There is nothing to save.</p>`}
    ${changed.map((id) => html`<${Row} key=${id} id=${id} />`)}
  <//>`;
}

/** @param {Document} document @param {boolean} overwrite */
async function save(document, overwrite) {
  await settled();
  const done = await post(`/documents/${document.id}/save`, { overwrite });
  updateDocument(done.document);
  const name = done.file || document.name;
  tell(done.backup ? `Saved ${name}. What was there is in ${done.backup}.` : `Saved ${name}.`);
}

/** @param {{id: string}} props */
function Row({ id }) {
  const { documents } = useStudio();
  const document = documents.get(id);
  const [difference, setDifference] = useState(/** @type {Difference | null} */ (null));
  const [failure, setFailure] = useState("");
  const [conflict, setConflict] = useState(false);
  useEffect(() => {
    settled()
      .then(() => get(`/documents/${id}/difference`))
      .then(
        (found) => (setDifference(found), setConflict(found.conflict)),
        (error) => setFailure(message(error)),
      );
  }, [id, document?.saved]);
  if (!document) return null;
  /** @param {boolean} overwrite */
  const write = (overwrite) =>
    save(document, overwrite).then(
      () => (setConflict(false), setFailure("")),
      (error) => {
        setConflict(error instanceof ApiError && error.code === "changed_on_disk");
        setFailure(message(error));
      },
    );
  return html`<section class="difference" aria-label=${document.name}>
    <header>
      <h3>${document.name} <small>${document.file || (document.writable ? "" : "not a file yet")}</small></h3>
      ${
        document.saved
          ? html`<span class="pill">saved</span>`
          : document.writable
            ? html`<button type="button" onClick=${() => write(false)}>Save ${document.file || document.name}</button>`
            : html`<button
                type="button"
                onClick=${() => attempt(() => download(`/documents/${id}/download`, document.name))}
              >
                Download
              </button>`
      }
    </header>
    ${failure && html`<p class="problem" role="alert">${failure}</p>`}
    ${
      conflict &&
      html`<p class="problem">
        ${document.file ? "The file changed on disk" : "It changed in the library"} since it was opened.
        <button type="button" onClick=${() => write(true)}>Overwrite it</button>
        <button type="button" onClick=${() => change(() => post(`/documents/${id}/reload`))}>
          Take what is ${document.file ? "on disk" : "there"}
        </button>
      </p>`
    }
    ${difference && !document.saved && html`<${Unified} lines=${difference.unified} />`}
  </section>`;
}

/** @param {{lines: string[]}} props */
const Unified = ({ lines }) =>
  html`<pre class="unified" tabindex="0" aria-label="Difference">
${lines.map((line) => {
      const kind = line.startsWith("@@") ? "head" : line[0] === "+" ? "added" : line[0] === "-" ? "removed" : "";
      return html`<span class=${kind}>${line}${"\n"}</span>`;
    })}</pre>`;
