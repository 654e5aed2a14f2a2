/** Talk with the character, and see what the model saw. */

import { get, post } from "../api.js";
import { Editor } from "../editor.js";
import { message, useKept, useStudio } from "../store.js";
import { alter, ask, chooseModel, refresh, send, setDraft, stop, useTalking } from "../talking.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { Dialog, Empty, counted } from "../widgets.js";
import { Blocks } from "./prompt.js";

/** @typedef {import("../types").Talk} Talk */
/** @typedef {import("../types").Line} Line */
/** @typedef {import("../talking.js").Reply} Reply */

const CHANGES_LAST_LINE = ["swipe", "regenerate", "continue"];
// A chat that is scrolled up further than this stays where it is while a reply comes.
const NEAR_THE_END = 60;

export function TalkView() {
  const { workspace } = useStudio();
  const { talk, draft, coming, tools, failure, said } = useTalking();
  const [seen, setSeen] = useState(/** @type {string | null} */ (null));
  const chat = useRef(/** @type {HTMLElement | null} */ (null));
  const following = useRef(true);

  useEffect(() => void refresh(), [workspace.revision, workspace.active.chat, workspace.active.card]);
  useEffect(() => {
    if (coming) following.current = true;
    // The button that asked is gone: its user goes on at the reply.
    else if (document.activeElement === document.body)
      /** @type {HTMLElement | null | undefined} */ (
        chat.current?.querySelector("li:last-child footer button")
      )?.focus();
  }, [coming === null]);
  useLayoutEffect(() => {
    if (following.current) chat.current?.scrollTo({ top: chat.current.scrollHeight });
  }, [talk, coming]);
  const follow = () => {
    const { scrollHeight, scrollTop, clientHeight } = /** @type {HTMLElement} */ (chat.current);
    following.current = scrollHeight - scrollTop - clientHeight < NEAR_THE_END;
  };

  if (!talk) return html`<${Empty} text="Opening the chat…" />`;
  const last = talk.lines.at(-1);
  const replies = coming?.replies.filter(Boolean) || [];
  const swiping = coming !== null && CHANGES_LAST_LINE.includes(coming.kind);
  return html`<div class="page talk">
    <header class="row">
      <h2>Talk</h2>
      <${ModelChoice} talk=${talk} />
      ${talk.greeting && talk.greeting.choices.length > 1 && html`<${GreetingChoice} greeting=${talk.greeting} />`}
    </header>
    <ol class="messages" aria-label="Chat" ref=${chat} onScroll=${follow}>
      ${
        // RisuAI's greeting is not a line of the chat, but stands before them.
        talk.greeting?.text &&
        html`<li class="message assistant greeting">
          <header><small>Greeting</small></header>
          <p class="text" dir="auto">${talk.greeting.text}</p>
        </li>`
      }
      ${talk.lines.map(
        (line) =>
          html`<${TalkLine}
            key=${line.index}
            line=${line}
            last=${line === last}
            coming=${swiping && line === last ? { kind: coming.kind, text: replies.at(-1)?.text || "" } : null}
            busy=${coming !== null}
            look=${setSeen}
          />`,
      )}
      ${
        coming?.kind === "send" &&
        html`<li class="message user">
          <p class="text" dir="auto">${coming.words}</p>
        </li>`
      }
      ${
        coming &&
        !swiping &&
        (replies.length ? replies : [{ text: "", reasoning: "" }]).map(
          (reply) =>
            html`<${ComingLine} reply=${reply} role=${coming.kind === "impersonate" ? "user" : "assistant"} />`,
        )
      }
    </ol>
    ${tools.map(
      (tool) =>
        html`<details class="tool">
          <summary>${tool.failed ? "Failed" : "Used"}: ${tool.name}</summary>
          <pre tabindex="0">${tool.arguments}${"\n"}→ ${tool.result}</pre>
        </details>`,
    )}
    <p class="hidden" role="status" aria-live="polite">${said}</p>
    ${failure && html`<p class="problem" role="alert">${failure}</p>`}
    <div class="composer">
      <${Editor}
        value=${draft}
        onChange=${setDraft}
        onSubmit=${send}
        label="Your message"
        hint="Your message. Ctrl+Enter sends it."
        size="line"
      />
      <div class="row">
        <button type="button" class="main" id=${coming ? "stop" : "send"} onClick=${coming ? stop : send}>
          ${coming ? "Stop" : "Send"}
        </button>
        ${
          !coming &&
          html`<button type="button" id="impersonate" onClick=${() => ask("impersonate")}>Impersonate</button>
            ${talk.group?.map(
              ({ name }) =>
                html`<button type="button" class="speak" onClick=${() => ask("speak", name)}>${name} speaks</button>`,
            )}
            ${talk.can_undo && html`<button type="button" class="quiet" onClick=${() => alter("undo")}>Undo the last turn</button>`}`
        }
      </div>
    </div>
    ${seen && html`<${Seen} plan=${seen} close=${() => setSeen(null)} />`}
  </div>`;
}

/** A reply that is still coming. @param {{reply: Reply, role: string}} props */
const ComingLine = ({ reply, role }) =>
  html`<li class=${`message ${role} coming`}>
    <${Thinking} text=${reply.reasoning} />
    <p class="text" dir="auto">${reply.text || "…"}</p>
  </li>`;

/** @param {{text: string}} props */
const Thinking = ({ text }) =>
  text &&
  html`<details>
    <summary>Thinking</summary>
    <p dir="auto">${text}</p>
  </details>`;

/**
 * @param {{line: Line, last: boolean, coming: {kind: string, text: string} | null, busy: boolean,
 *   look: (plan: string) => void}} props
 */
function TalkLine({ line, last, coming, busy, look }) {
  const [editing, setEditing] = useState(/** @type {string | null} */ (null));
  const text = coming ? (coming.kind === "continue" ? line.text : "") + coming.text || "…" : line.text;
  const reply = line.role === "assistant";
  const keep = async () => void ((await alter("edit", line.index, editing ?? "")) && setEditing(null));
  return html`<li
    class=${`message ${line.role} ${line.hidden ? "off" : ""} ${coming ? "coming" : ""}`}
    data-index=${line.index}
  >
    <header>
      <strong>${line.name}</strong>
      ${line.hidden && html`<small>hidden</small>`}
      ${
        // Both programs swipe the last reply only.
        reply &&
        last &&
        html`<span class="swipes" role="group" aria-label="Swipes">
          <${Swipe}
            label="Previous swipe"
            sign="‹"
            allowed=${!busy && line.swipe > 0}
            act=${() => alter("swipe_left")}
          />
          <small>${line.swipe + 1}/${Math.max(1, line.swipes)}</small>
          <${Swipe} label="Next swipe" sign="›" allowed=${!busy} act=${() => ask("swipe")} />
        </span>`
      }
    </header>
    <${Thinking} text=${line.reasoning} />
    ${
      editing === null
        ? html`<p class="text" dir="auto">${text}</p>`
        : html`<${Editor} value=${editing} onChange=${setEditing} onSubmit=${keep} label=${`Line of ${line.name}`} />
            <div class="row">
              <button type="button" class="main" onClick=${keep}>Keep</button>
              <button type="button" onClick=${() => setEditing(null)}>Cancel</button>
            </div>`
    }
    ${
      editing === null &&
      !busy &&
      html`<footer class="row">
        ${line.plan && html`<button type="button" class="quiet seen" onClick=${() => look(line.plan || "")}>What the model saw</button>`}
        ${
          last &&
          reply &&
          html`<button type="button" class="quiet" onClick=${() => ask("regenerate")}>Regenerate</button>
            <button type="button" class="quiet" onClick=${() => ask("continue")}>Continue</button>`
        }
        <button
          type="button"
          class="quiet"
          aria-label=${`Edit line ${line.index + 1}`}
          onClick=${() => setEditing(line.text)}
        >
          Edit
        </button>
        <details class="more" onClick=${closeAfter}>
          <summary aria-label=${`More for line ${line.index + 1}`}>⋯</summary>
          <button
            type="button"
            class="quiet"
            aria-label=${`Branch at line ${line.index + 1}`}
            onClick=${() => alter("branch", line.index)}
          >
            Branch
          </button>
          <button
            type="button"
            class="quiet"
            aria-label=${`${line.hidden ? "Show" : "Hide"} line ${line.index + 1}`}
            onClick=${() => alter(line.hidden ? "unhide" : "hide", line.index)}
          >
            ${line.hidden ? "Show" : "Hide"}
          </button>
          <button
            type="button"
            class="quiet danger"
            aria-label=${`Delete line ${line.index + 1}`}
            onClick=${() => alter("delete", line.index)}
          >
            Delete
          </button>
          ${
            !last &&
            html`<button
              type="button"
              class="quiet danger"
              aria-label=${`Delete from line ${line.index + 1} to the end`}
              onClick=${() => alter("delete_from", line.index)}
            >
              Delete from here
            </button>`
          }
        </details>
      </footer>`
    }
  </li>`;
}

/**
 * Not `disabled`: a button that is disabled while it has the focus would lose it.
 * @param {{label: string, sign: string, allowed: boolean, act: () => void}} props
 */
const Swipe = ({ label, sign, allowed, act }) =>
  html`<button
    type="button"
    class="quiet"
    aria-label=${label}
    aria-disabled=${allowed ? "false" : "true"}
    onClick=${() => allowed && act()}
  >
    ${sign}
  </button>`;

/** Close a menu when something of it was chosen. @param {MouseEvent} event */
function closeAfter(event) {
  if (event.target instanceof HTMLButtonElement) /** @type {HTMLDetailsElement} */ (event.currentTarget).open = false;
}

/** Which model answers; the scripted one can be told what to say. @param {{talk: Talk}} props */
function ModelChoice({ talk }) {
  const { workspace } = useStudio();
  const [script, setScript] = useKept("script", "");
  return html`<label class="field">
      <span>Model</span>
      <select id="model" onChange=${(/** @type {any} */ event) => chooseModel(event.target.value, null)}>
        ${workspace.models.map(({ id, label }) => html`<option value=${id} selected=${id === talk.model}>${label}</option>`)}
      </select>
    </label>
    ${
      talk.model === "scripted" &&
      html`<details class="script">
        <summary>What it says</summary>
        <label class="field">
          <span>One reply per line</span>
          <textarea
            rows="3"
            value=${script}
            onInput=${(/** @type {any} */ event) => setScript(event.target.value)}
          ></textarea>
        </label>
        <button type="button" onClick=${() => chooseModel("scripted", script.split("\n").filter(Boolean))}>
          Use it
        </button>
      </details>`
    }`;
}

const EXCERPT = 60;

/** @param {{greeting: NonNullable<Talk["greeting"]>}} props */
const GreetingChoice = ({ greeting }) =>
  html`<label class="field">
    <span>Greeting</span>
    <select id="greeting" onChange=${(/** @type {any} */ event) => alter("greeting", event.target.selectedIndex)}>
      ${greeting.choices.map((text, index) => {
        const line = text.replaceAll(/\s+/g, " ").trim();
        const start = line.length > EXCERPT ? `${line.slice(0, EXCERPT)}…` : line;
        return html`<option selected=${index === greeting.chosen}>${`${index + 1}: ${start}`}</option>`;
      })}
    </select>
  </label>`;

/** The prompt of a reply, with where every sentence came from. @param {{plan: string, close: () => void}} props */
function Seen({ plan, close }) {
  const [build, setBuild] = useState(/** @type {import("../types").Build | null} */ (null));
  const [sources, setSources] = useState(/** @type {import("../types").Sources | null} */ (null));
  const [unknown, setUnknown] = useState(false);
  const [failure, setFailure] = useState("");
  useEffect(() => {
    const fail = (/** @type {unknown} */ error) => setFailure(message(error));
    get(`/plans/${encodeURIComponent(plan)}`).then(setBuild, fail);
    post("/sources", { plan }).then(setSources, () => setUnknown(true));
  }, [plan]);
  return html`<${Dialog} title="What the model saw" close=${close} wide>
    ${failure && html`<p class="problem" role="alert">${failure}</p>`}
    ${
      build &&
      html`<p>
          ${counted(build.budget.total, "token")} in ${counted(build.blocks.length, "block")}
          ${unknown && html`<small class="note">Where its sentences came from is not known.</small>`}
        </p>
        <${Blocks} build=${build} sources=${sources} />`
    }
  <//>`;
}
