/** The lore lab: which entries fire for a text, which fired over a chat, and findings kept as test cases. */

import { offer, post } from "../api.js";
import { Editor } from "../editor.js";
import { attempt, message, reveal, settled, tell, useKept, useStudio } from "../store.js";
import { html, useEffect, useState } from "../vendor/preact.js";
import { Empty, Tabs, counted } from "../widgets.js";
import { LoreRows } from "./prompt_details.js";

/** @typedef {import("../types").LoreRow} LoreRow */

const PAUSE = 80;

export function LoreLab() {
  const [tab, setTab] = useKept("lab", "text");
  const tabs = [
    { id: "text", label: "A text" },
    { id: "chart", label: "The whole chat" },
  ];
  return html`<div class="page lab">
    <h2>Lore lab</h2>
    <${Tabs} label="What to look at" tabs=${tabs} chosen=${tab} choose=${setTab} controls="lab-panel" />
    <div id="lab-panel" role="tabpanel" aria-label=${tabs.find(({ id }) => id === tab)?.label}>
      ${tab === "text" ? html`<${Scan} />` : html`<${Chart} />`}
    </div>
  </div>`;
}

function Scan() {
  const { workspace } = useStudio();
  const [text, setText] = useKept("scan", "");
  const [withChat, setWithChat] = useKept("after the chat", false);
  const [found, setFound] = useState(
    /** @type {{active: number, total: number, tokens: number, budget: number, rows: LoreRow[]} | null} */ (null),
  );
  const [failure, setFailure] = useState("");
  const [only, setOnly] = useState("all");
  useEffect(() => {
    const control = new AbortController();
    const timer = setTimeout(async () => {
      try {
        await settled();
        setFound(await post("/lore/scan", { text, with_chat: withChat }, control.signal));
        setFailure("");
      } catch (error) {
        if (!control.signal.aborted) setFailure(message(error));
      }
    }, PAUSE);
    return () => (clearTimeout(timer), control.abort());
  }, [text, withChat, workspace.revision]);

  const rows = (found?.rows || []).filter((row) => only === "all" || row.active === (only === "in"));
  return html`<div class="two scan">
    <section aria-label="Text">
      <div class="field long">
        <span aria-hidden="true">A text to scan</span>
        <${Editor} value=${text} onChange=${setText} label="A text to scan" hint="Who lit the lamp?" size="normal" />
      </div>
      <label class="check">
        <input
          type="checkbox"
          checked=${withChat}
          onChange=${(/** @type {any} */ event) => setWithChat(event.target.checked)}
        />
        <span>After the chat so far</span>
      </label>
    </section>
    <section aria-label="Entries">
      ${failure && html`<p class="problem" role="alert">${failure}</p>`}
      <p role="status" id="scan-result">
        ${
          found &&
          html`<strong>${found.active}</strong> of ${counted(found.total, "entry", "entries")} fire${" "}
            <small>${counted(found.tokens, "token")} of ${found.budget.toLocaleString("en")}</small>`
        }
      </p>
      <div class="row" role="group" aria-label="Show">
        ${["all", "in", "out"].map(
          (name) =>
            html`<button
              type="button"
              class="chip"
              aria-pressed=${only === name ? "true" : "false"}
              onClick=${() => setOnly(name)}
            >
              ${name === "all" ? "all" : name === "in" ? "fires" : "stays out"}
            </button>`,
        )}
      </div>
      <${LoreRows} rows=${rows} total=${only === "all" ? found?.total || 0 : rows.length} />
    </section>
    ${found && html`<${Keep} text=${text} rows=${found.rows} />`}
  </div>`;
}

/** Keep a finding as a test case. @param {{text: string, rows: LoreRow[]}} props */
function Keep({ text, rows }) {
  const [name, setName] = useState("");
  const [made, setMade] = useState(
    /** @type {{yaml: string, file: string | null, written: boolean, unsaved?: string[]} | null} */ (null),
  );
  const fires = rows.filter((row) => row.active).map((row) => row.title);
  const near = rows.filter((row) => !row.active && row.near?.length).map((row) => row.title);
  /** @param {boolean} write */
  const make = (write) =>
    attempt(async () => {
      const body = { name: name || text.slice(0, 40) || "finding", text, fires, stays_out: near, write };
      const answer = await post("/lore/case", body);
      setMade(answer);
      if (answer.written) tell(`Kept in ${answer.file}. tavernkit test runs it.`);
    });
  return html`<section class="sub keep" aria-label="Save as a test">
    <h3>Save as a test</h3>
    <p class="note">
      ${counted(fires.length, "entry", "entries")} must fire for this text. <code>tavernkit test</code> runs it.
    </p>
    <div class="row">
      <input
        type="text"
        aria-label="Name of the test"
        placeholder="Name of the test"
        value=${name}
        onInput=${(/** @type {any} */ event) => setName(event.target.value)}
      />
      <button type="button" id="make-case" onClick=${() => make(false)}>Show it</button>
    </div>
    ${
      made &&
      html`<pre class="payload" tabindex="0" aria-label="Test case">${made.yaml}</pre>
        ${
          made.unsaved &&
          made.unsaved.length > 0 &&
          html`<p class="note">The test reads files: save ${made.unsaved.join(", ")} first.</p>`
        }
        <div class="row">
          ${made.file && !made.written && html`<button type="button" onClick=${() => make(true)}>Write to ${made.file}</button>`}
          <button
            type="button"
            onClick=${() => offer(new Blob([made.yaml], { type: "text/yaml" }), made.file || "studio.lore.yaml")}
          >
            Download
          </button>
        </div>`
    }
  </section>`;
}

/** Which entries fired over the whole chat. */
function Chart() {
  const { workspace } = useStudio();
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [failure, setFailure] = useState("");
  useEffect(() => {
    const control = new AbortController();
    settled()
      .then(() => post("/lore/chart", {}, control.signal))
      .then(
        (answer) => (setFound(answer), setFailure("")),
        (error) => !control.signal.aborted && setFailure(message(error)),
      );
    return () => control.abort();
  }, [workspace.revision]);
  if (failure) return html`<p class="problem" role="alert">${failure}</p>`;
  if (!found) return html`<${Empty} text="Going through the chat…" />`;
  if (found.turns.length === 0) return html`<${Empty} text="The chat has no lines yet." />`;
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Entries over the chat">
      <table class="chart">
        <caption class="hidden">
          Entries that fired, by message
        </caption>
        <thead>
          <tr>
            <th scope="col">Entry</th>
            ${found.turns.map(
              (/** @type {any} */ turn, /** @type {number} */ place) =>
                html`<th scope="col" title=${turn.text}>${place + 1}</th>`,
            )}
          </tr>
        </thead>
        <tbody>
          ${found.entries.map(
            (/** @type {any} */ entry) =>
              html`<tr>
                <th scope="row">
                  ${
                    entry.document
                      ? html`<button
                          type="button"
                          class="link"
                          onClick=${() => reveal({ document: entry.document, pointer: entry.pointer })}
                        >
                          ${entry.title} <small>${entry.verdict}</small>
                        </button>`
                      : entry.title
                  }
                </th>
                ${found.turns.map((/** @type {any} */ turn, /** @type {number} */ place) => {
                  const kind = entry.over_budget.includes(place)
                    ? "over"
                    : entry.by_recursion.includes(place)
                      ? "recursion"
                      : entry.fired.includes(place)
                        ? "fired"
                        : "";
                  const words = { over: "over budget", recursion: "by another entry", fired: "fired", "": "" }[kind];
                  return html`<td class=${kind} title=${words && `${words}: ${turn.text}`}>
                    <span class="hidden">${words}</span>
                  </td>`;
                })}
              </tr>`,
          )}
        </tbody>
      </table>
    </div>
    <ul class="legend">
      <li><i class="dot chart-fired"></i>fired</li>
      <li><i class="dot chart-recursion"></i>called by another entry</li>
      <li><i class="dot chart-over"></i>did not fit the budget</li>
    </ul>
    <details class="turns">
      <summary>One column per message of the user</summary>
      <ol>
        ${found.turns.map((/** @type {any} */ turn) => html`<li dir="auto">${turn.text || "…"}</li>`)}
      </ol>
    </details>`;
}
