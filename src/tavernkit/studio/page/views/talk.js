/** Talk with the character, and see what the model saw. */

import { get, post, stream } from "../api.js";
import { Editor } from "../editor.js";
import { attempt, merge, message, rebuild, settled, tell, useStudio } from "../store.js";
import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { Dialog, Empty, counted } from "../widgets.js";
import { Blocks } from "./prompt.js";

/** @typedef {import("../types").Talk} Talk */
/** @typedef {import("../types").Line} Line */

export function TalkView() {
  const { workspace } = useStudio();
  const [talk, setTalk] = useState(/** @type {Talk | null} */ (null));
  const [text, setText] = useState("");
  const [coming, setComing] = useState(/** @type {{kind: string, text: string, reasoning: string} | null} */ (null));
  const [tools, setTools] = useState(/** @type {any[]} */ ([]));
  const [failure, setFailure] = useState("");
  const [seen, setSeen] = useState(/** @type {string | null} */ (null));
  const [said, setSaid] = useState("");
  const end = useRef(/** @type {HTMLElement | null} */ (null));
  const control = useRef(/** @type {AbortController | null} */ (null));

  useEffect(() => {
    if (!coming) void attempt(async () => (await settled(), setTalk(await get("/talk"))));
  }, [workspace.revision, workspace.active.chat, workspace.active.card]);
  useEffect(() => end.current?.scrollTo({ top: end.current.scrollHeight }), [talk?.lines.length, coming?.text]);

  /** @param {string} kind @param {string} [words] */
  const ask = async (kind, words = "") => {
    if (coming) return;
    setFailure("");
    setTools([]);
    setComing({ kind, text: "", reasoning: "" });
    control.current = new AbortController();
    try {
      await settled();
      await stream(
        "/talk/turn",
        { kind, text: words },
        (event, data) => {
          if (event === "piece")
            setComing(
              (now) => now && { ...now, text: now.text + data.text, reasoning: now.reasoning + (data.reasoning || "") },
            );
          if (event === "tool") setTools((now) => [...now, data]);
          if (event === "done") {
            if (kind === "impersonate") setText(data.text);
            else setSaid(data.text);
          }
          if (event === "error") setFailure(data.error.message);
          if (data.talk) setTalk(data.talk);
          if (data.edit) merge(data.edit, undefined, true);
        },
        control.current.signal,
      );
      await rebuild();
    } catch (error) {
      setFailure(message(error));
    } finally {
      setComing(null);
    }
  };
  const send = () => {
    const words = text.trim();
    if (!words || coming) return;
    setText("");
    void ask("send", words);
  };
  /** @param {string} op @param {number} [index] @param {string} [words] */
  const alter = (op, index, words) =>
    attempt(async () => {
      await settled();
      const answer = await post("/talk/change", { op, index, text: words });
      setTalk(answer.talk);
      merge(answer.edit, undefined, true);
      await rebuild();
      if (op === "branch") tell("This is a branch now; the chat it came from is kept under Files.");
    });
  const stop = () => attempt(async () => void (await post("/talk/stop")));

  if (!talk) return html`<${Empty} text="Opening the chat…" />`;
  const last = talk.lines.at(-1);
  const swiping = coming && (coming.kind === "swipe" || coming.kind === "regenerate" || coming.kind === "continue");
  return html`<div class="page talk">
    <header class="row">
      <h2>Talk</h2>
      <${ModelChoice} talk=${talk} setTalk=${setTalk} />
      ${talk.greeting && talk.greeting.choices.length > 1 && html`<${GreetingChoice} greeting=${talk.greeting} alter=${alter} />`}
    </header>
    <ol class="messages" aria-label="Chat" ref=${end}>
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
            coming=${swiping && line === last ? coming : null}
            busy=${coming !== null}
            ask=${ask}
            alter=${alter}
            look=${setSeen}
          />`,
      )}
      ${
        coming &&
        !swiping &&
        html`<li class=${`message ${coming.kind === "impersonate" ? "user" : "assistant"} coming`}>
          ${
            coming.reasoning &&
            html`<details>
              <summary>Thinking</summary>
              <p dir="auto">${coming.reasoning}</p>
            </details>`
          }
          <p class="text" dir="auto">${coming.text || "…"}</p>
        </li>`
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
        value=${text}
        onChange=${setText}
        onSubmit=${send}
        label="Your message"
        hint="Your message. Ctrl+Enter sends it."
        size="line"
      />
      <div class="row">
        ${
          coming
            ? html`<button type="button" class="main" id="stop" onClick=${stop}>Stop</button>`
            : html`<button type="button" class="main" id="send" onClick=${send}>Send</button>
                <button type="button" id="impersonate" onClick=${() => ask("impersonate")}>Impersonate</button>
                ${talk.group?.map(
                  ({ name }) =>
                    html`<button type="button" class="speak" onClick=${() => ask("speak", name)}>
                      ${name} speaks
                    </button>`,
                )}
                ${talk.can_undo && html`<button type="button" class="quiet" onClick=${() => alter("undo")}>Take back the last turn</button>`}`
        }
      </div>
    </div>
    ${seen && html`<${Seen} plan=${seen} close=${() => setSeen(null)} />`}
  </div>`;
}

/**
 * @param {{line: Line, last: boolean, coming: any, busy: boolean, ask: (kind: string, words?: string) => void,
 *   alter: (op: string, index?: number, words?: string) => void, look: (plan: string) => void}} props
 */
function TalkLine({ line, last, coming, busy, ask, alter, look }) {
  const [editing, setEditing] = useState(/** @type {string | null} */ (null));
  const text = coming ? (coming.kind === "continue" ? line.text : "") + coming.text || "…" : line.text;
  const reply = line.role === "assistant";
  const keep = () => (alter("edit", line.index, editing ?? ""), setEditing(null));
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
        !busy &&
        html`<span class="swipes" role="group" aria-label="Swipes">
          <button type="button" class="quiet" aria-label="Earlier version" onClick=${() => alter("swipe_left")}>
            ‹
          </button>
          <small>${line.swipe + 1}/${Math.max(1, line.swipes)}</small>
          <button type="button" class="quiet" aria-label="Next version" onClick=${() => ask("swipe")}>›</button>
        </span>`
      }
    </header>
    ${
      line.reasoning &&
      html`<details>
        <summary>Thinking</summary>
        <p dir="auto">${line.reasoning}</p>
      </details>`
    }
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

/** Close a menu when something of it was chosen. @param {MouseEvent} event */
function closeAfter(event) {
  if (event.target instanceof HTMLButtonElement) /** @type {HTMLDetailsElement} */ (event.currentTarget).open = false;
}

/** Which model answers; the scripted one can be told what to say. @param {{talk: Talk, setTalk: (talk: Talk) => void}} props */
function ModelChoice({ talk, setTalk }) {
  const { workspace } = useStudio();
  const [script, setScript] = useState("");
  /** @param {string} model @param {string[] | null} lines */
  const choose = (model, lines) =>
    attempt(async () => {
      setTalk(await post("/talk/model", { model, script: lines }));
      if (lines) tell(`The scripted model says ${counted(lines.length, "reply", "replies")} in turn.`);
    });
  return html`<label class="field">
      <span>Model</span>
      <select id="model" onChange=${(/** @type {any} */ event) => choose(event.target.value, null)}>
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
        <button type="button" onClick=${() => choose("scripted", script.split("\n").filter(Boolean))}>Use it</button>
      </details>`
    }`;
}

const EXCERPT = 60;

/** @param {{greeting: NonNullable<Talk["greeting"]>, alter: (op: string, index?: number) => void}} props */
const GreetingChoice = ({ greeting, alter }) =>
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
