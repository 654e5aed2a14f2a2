/** What else there is to know of a prompt: changes, tokens, lore, what was left out, the payload, the cache. */

import { get, post } from "../api.js";
import { attempt, reveal, useStudio } from "../store.js";
import { html, useEffect, useState } from "../vendor/preact.js";
import { Empty, Parts, counted, placeName } from "../widgets.js";

/** @typedef {import("../types").Build} Build */
/** @typedef {import("../types").Cost} Cost */

/** What changed since the last look. @param {{build: Build}} props */
export function Changes({ build }) {
  const changes = build.changes;
  if (!changes || changes.since === null) return html`<${Empty} text="You look at this prompt for the first time." />`;
  if (changes.same) return html`<${Empty} text="Nothing changed since you last looked." />`;
  return html`<ol class="changes">
    ${changes.messages
      .filter(({ kind }) => kind !== "same")
      .map((change) => {
        const message = change.index === null ? null : build.messages[change.index];
        const place = change.index ?? change.before ?? 0;
        return html`<li class=${`change ${change.kind}`}>
          <header><span class="pill">${change.kind}</span> message ${place + 1} ${message?.role || ""}</header>
          <p class="text" dir="auto">
            ${change.parts ? html`<${Parts} parts=${change.parts} />` : change.kind === "removed" ? "" : message?.content}
          </p>
        </li>`;
      })}
  </ol>`;
}

/** Tokens of every field and entry. @param {{build: Build}} props */
export function Tokens({ build }) {
  const { sources } = useStudio();
  if (!sources) return html`<${Empty} text="Counting…" />`;
  const rows = [...sources.fields, ...sources.entries].sort((a, b) => b.tokens - a.tokens);
  const most = Math.max(1, ...rows.map((row) => row.tokens));
  return html`<p class="note">${build.budget.note}</p>
    <table class="tokens">
      <caption class="hidden">
        Tokens per field and entry
      </caption>
      <thead>
        <tr>
          <th scope="col">Field or entry</th>
          <th scope="col" class="number">Tokens</th>
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              <th scope="row">
                <${Link} cost=${row} />
                <div class="meter" aria-hidden="true">
                  <span style=${{ width: `${(100 * row.tokens) / most}%` }}></span>
                </div>
              </th>
              <td class="number">${row.tokens.toLocaleString("en")}</td>
            </tr>`,
        )}
      </tbody>
    </table>`;
}

/** @param {{cost: {document: string | null, pointer: string | null, title: string}}} props */
function Link({ cost }) {
  const { documents } = useStudio();
  const { document, pointer, title } = cost;
  const owner = documents.get(document || "");
  const name = placeName(pointer, title);
  if (!owner) return html`<span>${name}</span>`;
  return html`<button
    type="button"
    class="link"
    onClick=${() => reveal({ document: owner.id, pointer: pointer || "" })}
  >
    ${name} <small>${owner.name}</small>
  </button>`;
}

/** @param {{rows: import("../types").LoreRow[], total: number}} props */
export function LoreRows({ rows, total }) {
  if (total === 0) return html`<${Empty} text="There is no lore." />`;
  return html`<ul class="lore-rows">
      ${rows.map(
        (row) =>
          html`<li class=${row.active ? "in" : "out"}>
            <span class="state">${row.active ? "in" : "out"}</span>
            <div>
              <${Link} cost=${{ document: row.document, pointer: row.pointer, title: row.title }} />
              <p>${row.reason}</p>
              ${(row.near || []).map(
                ({ key, word }) =>
                  html`<p class="near">nearly: key <code>${key}</code>, the text has <code>${word}</code></p>`,
              )}
            </div>
          </li>`,
      )}
    </ul>
    ${rows.length < total && html`<p class="note">${counted(total - rows.length, "more entry", "more entries")} stayed out.</p>`}`;
}

/** @param {{build: Build}} props */
export function LeftOut({ build }) {
  if (build.left_out.length === 0) return html`<${Empty} text="Nothing was left out." />`;
  return html`<ul class="left-out">
    ${build.left_out.map(
      ({ what, reason, tokens }) =>
        html`<li>
          <strong>${what}</strong> ${tokens > 0 && html`<small>${counted(tokens, "token")}</small>`}
          <p>${reason}</p>
        </li>`,
    )}
  </ul>`;
}

/** The request as JSON, for each dialect. @param {{build: Build}} props */
export function Payload({ build }) {
  const { workspace } = useStudio();
  const [dialect, setDialect] = useState(workspace.dialects[0]);
  const [answer, setAnswer] = useState(/** @type {{dialect: string, body: any, warnings: string[]} | null} */ (null));
  const [failure, setFailure] = useState("");
  useEffect(() => {
    const control = new AbortController();
    post("/request", { plan: build.plan, dialect }, control.signal).then(
      (found) => (setAnswer(found), setFailure("")),
      (error) => error.name !== "AbortError" && (setAnswer(null), setFailure(error.message)),
    );
    return () => control.abort();
  }, [build.plan, dialect]);
  const text = answer ? JSON.stringify(answer.body, null, 2) : "";
  return html`<div class="row">
      <label class="field">
        <span>Dialect</span>
        <select id="payload-dialect" onChange=${(/** @type {any} */ event) => setDialect(event.target.value)}>
          ${workspace.dialects.map((name) => html`<option selected=${name === dialect}>${name}</option>`)}
        </select>
      </label>
      <button type="button" onClick=${() => attempt(() => navigator.clipboard.writeText(text))}>Copy</button>
    </div>
    ${failure && html`<p class="problem" role="alert">${failure}</p>`}
    ${answer?.warnings.map((warning) => html`<p class="note">${warning}</p>`)}
    <pre
      class="payload"
      id="payload-text"
      data-dialect=${answer?.dialect}
      tabindex="0"
      aria-label=${`Payload for ${dialect}`}
    >
${text}</pre>`;
}

/** @param {{profile: string, minimum: number, common: number}} found */
const tooShort = ({ profile, minimum, common }) =>
  `${profile} caches nothing shorter than ${counted(minimum, "token")}; the last turn began with the same ${counted(common, "token")}.`;

/** What a provider's cache keeps of this prompt. @param {{build: Build}} props */
export function CacheBar({ build }) {
  const { workspace } = useStudio();
  const [profile, setProfile] = useState(workspace.cache_profiles[0]);
  const [found, setFound] = useState(/** @type {any} */ (null));
  const [failure, setFailure] = useState("");
  useEffect(() => {
    const control = new AbortController();
    post("/cache", { plan: build.plan, profile }, control.signal).then(
      (answer) => (setFound(answer), setFailure("")),
      (error) => error.name !== "AbortError" && (setFound(null), setFailure(error.message)),
    );
    return () => control.abort();
  }, [build.plan, profile]);
  return html`<div class="row">
      <label class="field">
        <span>Provider</span>
        <select id="cache-profile" onChange=${(/** @type {any} */ event) => setProfile(event.target.value)}>
          ${workspace.cache_profiles.map((name) => html`<option selected=${name === profile}>${name}</option>`)}
        </select>
      </label>
    </div>
    ${failure && html`<p class="problem" role="alert">${failure}</p>`}
    ${
      found &&
      html`<section class="cache" aria-label="Prompt cache">
        <p>
          <strong>${Math.round(100 * found.share)}%</strong>
          <span> reused: ${found.cached.toLocaleString("en")} of ${counted(found.tokens, "token")}</span>
          ${found.before && html`<br /><small class="plain">after the turn “${found.before}”</small>`}
        </p>
        ${found.common < found.minimum && html`<p class="note">${tooShort(found)}</p>`}
        <div class="bar" role="img" aria-label=${`${found.cached} of ${found.tokens} tokens come from the cache`}>
          ${found.parts.map(
            (/** @type {any} */ part) =>
              html`<span
                class=${part.reused ? "reused" : "fresh"}
                style=${{ flexGrow: part.tokens }}
                title=${part.label}
              ></span>`,
          )}
        </div>
        ${
          found.broken &&
          html`<p class="broken">
            <strong>Broken by ${found.broken.source}</strong>: ${found.broken.reason}
            <small> ${counted(found.broken.lost_tokens, "token")} lost</small>
          </p>`
        }
        <ul class="cache-parts">
          ${found.parts.map(
            (/** @type {any} */ part) =>
              html`<li class=${part.reused ? "reused" : "fresh"}>
                <span class="pill">${part.reused ? "reused" : "new"}</span> ${part.label}
                <small>${counted(part.tokens, "token")}</small>
              </li>`,
          )}
        </ul>
        ${found.advice.length > 0 && html`<h3>Advice</h3>`}
        <ul>
          ${found.advice.map((/** @type {string} */ text) => html`<li>${text}</li>`)}
        </ul>
      </section>`
    }`;
}

/** What will surprise in the files. */
export function Checks() {
  const { workspace } = useStudio();
  const [findings, setFindings] = useState(/** @type {any[] | null} */ (null));
  const [failure, setFailure] = useState("");
  useEffect(() => {
    const control = new AbortController();
    get("/lint", control.signal).then(
      (answer) => (setFindings(answer.findings), setFailure("")),
      (error) => error.name !== "AbortError" && setFailure(error.message),
    );
    return () => control.abort();
  }, [workspace.revision]);
  if (failure) return html`<p class="problem" role="alert">${failure}</p>`;
  if (!findings) return html`<${Empty} text="Checking…" />`;
  if (findings.length === 0) return html`<${Empty} text="No problems found." />`;
  return html`<ul class="lore-rows findings">
    ${findings.map(
      ({ document, pointer, severity, code, message, hint }) =>
        html`<li class=${severity}>
          <span class="state">${severity}</span>
          <div>
            <${Link} cost=${{ document, pointer, title: pointer ? "" : code }} />
            <p>${message}</p>
            ${hint && html`<p>${hint}</p>`}
          </div>
        </li>`,
    )}
  </ul>`;
}
