/** Try macros, CBS and regex scripts. */

import { post } from "../api.js";
import { Editor } from "../editor.js";
import { message, settled, turn, useKept, useStudio } from "../store.js";
import { html, useEffect, useState } from "../vendor/preact.js";
import { Empty, Tabs, counted } from "../widgets.js";

const PAUSE = 80;

export function Playground() {
  const [tab, setTab] = useKept("play", "macros");
  const [engine, setEngine] = useKept("engine", turn().platform || "silly_tavern");
  const tabs = [
    { id: "macros", label: engine === "risu_ai" ? "CBS" : "Macros" },
    { id: "regex", label: "Regex scripts" },
  ];
  return html`<div class="page play">
    <header class="row">
      <h2>Playground</h2>
      <label class="field">
        <span>Platform</span>
        <select id="engine" onChange=${(/** @type {any} */ event) => setEngine(event.target.value)}>
          <option value="silly_tavern" selected=${engine === "silly_tavern"}>SillyTavern</option>
          <option value="risu_ai" selected=${engine === "risu_ai"}>RisuAI</option>
        </select>
      </label>
    </header>
    <${Tabs} label="What to try" tabs=${tabs} chosen=${tab} choose=${setTab} controls="play-panel" />
    <div id="play-panel" role="tabpanel" aria-label=${tabs.find(({ id }) => id === tab)?.label}>
      ${tab === "macros" ? html`<${Macros} engine=${engine} />` : html`<${Regex} key=${engine} engine=${engine} />`}
    </div>
  </div>`;
}

/**
 * The answer to a question that changes while it is typed.
 * @param {string} path
 * @param {any} body
 * @returns {[any, string]} the answer and what failed
 */
function useAnswer(path, body) {
  const { workspace } = useStudio();
  const [answer, setAnswer] = useState(/** @type {any} */ (null));
  const [failure, setFailure] = useState("");
  useEffect(() => {
    const control = new AbortController();
    const timer = setTimeout(async () => {
      try {
        await settled();
        setAnswer(await post(path, body, control.signal));
        setFailure("");
      } catch (error) {
        if (!control.signal.aborted) setFailure(message(error));
      }
    }, PAUSE);
    return () => (clearTimeout(timer), control.abort());
  }, [path, JSON.stringify(body), workspace.revision]);
  return [answer, failure];
}

/** @param {{engine: string}} props */
function Macros({ engine }) {
  const [text, setText] = useKept(
    "macros",
    "{{char}} looks at {{user}}.{{setvar::mood::calm}} The mood is {{getvar::mood}}.",
  );
  const [answer, failure] = useAnswer("/play/macros", { text, engine });
  const scopes = Object.entries(answer?.variables || {});
  const variables = scopes.flatMap(([scope, values]) =>
    Object.entries(values || {}).map(([name, value]) => ({ scope, name, value })),
  );
  return html`<div class="two">
    <section aria-label="Text">
      <div class="field long">
        <span aria-hidden="true">Text</span>
        <${Editor} value=${text} onChange=${setText} label="Text with macros" size="tall" />
      </div>
    </section>
    <section aria-label="Result">
      ${failure && html`<p class="problem" role="alert">${failure}</p>`}
      <h3>Result</h3>
      <p class="output text" id="macro-output" dir="auto" role="status">${answer?.output}</p>
      <${Warnings} warnings=${answer?.warnings} />
      ${
        variables.length > 0 &&
        html`<h3>Variables</h3>
          <dl class="variables">
            ${variables.map(
              ({ scope, name, value }) =>
                html`<dt>${name} <small>${scope}</small></dt>
                  <dd>${typeof value === "string" ? value : JSON.stringify(value)}</dd>`,
            )}
          </dl>`
      }
      <h3>Parse tree</h3>
      ${
        answer?.tree
          ? html`<ul class="tree">
              ${answer.tree.children.map((/** @type {any} */ node) => html`<${Branch} node=${node} />`)}
            </ul>`
          : html`<${Empty} text="Nothing yet." />`
      }
    </section>
  </div>`;
}

/** @param {{node: any}} props */
const Branch = ({ node }) =>
  html`<li>
    <span class=${`node ${node.kind}`}>
      <b>${node.name || node.kind}</b> <code>${node.text}</code>
      ${node.value !== null && node.value !== undefined && node.kind !== "text" && html` → <samp>${node.value}</samp>`}
    </span>
    ${
      node.children?.length > 0 &&
      html`<ul>
        ${node.children.map((/** @type {any} */ child) => html`<${Branch} node=${child} />`)}
      </ul>`
    }
  </li>`;

// RisuAI's patterns have no slashes around them.
const EXAMPLE = "\\*([^*]+)\\*";

/** @param {{engine: string}} props */
function Regex({ engine }) {
  const [find, setFind] = useKept(`find ${engine}`, engine === "risu_ai" ? EXAMPLE : `/${EXAMPLE}/g`);
  const [replacement, setReplacement] = useKept("replacement", "_$1_");
  const [text, setText] = useKept("script text", "*She looks up.* You again.");
  const script = { findRegex: find, replaceString: replacement, trimStrings: [] };
  const [answer, failure] = useAnswer("/play/regex", { script, text, engine });
  const matches = answer?.matches || [];
  return html`<div class="two">
    <section aria-label="Script">
      ${[
        ["Find", find, setFind, "line"],
        ["Replace with", replacement, setReplacement, "line"],
        ["Text", text, setText, "normal"],
      ].map(
        ([label, value, set, size]) =>
          html`<div class="field long">
            <span aria-hidden="true">${label}</span>
            <${Editor} value=${value} onChange=${set} label=${label} size=${size} />
          </div>`,
      )}
    </section>
    <section aria-label="Result">
      ${failure && html`<p class="problem" role="alert">${failure}</p>`}
      <h3>Before <small>${counted(matches.length, "match", "matches")}</small></h3>
      <p class="output text" dir="auto"><${Marked} text=${text} matches=${matches} /></p>
      <h3>After</h3>
      <p class="output text" id="regex-output" dir="auto" role="status">${answer?.output}</p>
      <${Warnings} warnings=${answer?.warnings} />
      ${
        matches.some((/** @type {any} */ match) => match.groups?.length) &&
        html`<h3>Groups</h3>
          <ol class="groups">
            ${matches.map(
              (/** @type {any} */ match) =>
                html`<li>
                  ${match.groups.map(
                    (/** @type {any} */ group, /** @type {number} */ place) =>
                      html`<span>${`$${place + 1}`} <code>${group ?? ""}</code></span>`,
                  )}
                </li>`,
            )}
          </ol>`
      }
    </section>
  </div>`;
}

/** @param {{text: string, matches: {start: number, end: number}[]}} props */
function Marked({ text, matches }) {
  const parts = [];
  let place = 0;
  for (const { start, end } of matches) {
    parts.push(text.slice(place, start), html`<mark>${text.slice(start, end)}</mark>`);
    place = end;
  }
  return html`${parts}${text.slice(place)}`;
}

/** @param {{warnings?: string[]}} props */
const Warnings = ({ warnings }) =>
  warnings &&
  warnings.length > 0 &&
  html`<ul class="problems">
    ${warnings.map((text) => html`<li>${text}</li>`)}
  </ul>`;
