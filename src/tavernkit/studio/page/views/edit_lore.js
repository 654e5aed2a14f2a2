/** Lore entries, in each of the three formats that books have. */

import { at, escape } from "../patch.js";
import { documentOf, edit, reveal, useStudio } from "../store.js";
import { html, useMemo, useState } from "../vendor/preact.js";
import {
  CheckField,
  ChoiceField,
  Empty,
  LongField,
  LongList,
  NumberField,
  TextField,
  WordsField,
  tokensAt,
} from "../widgets.js";
import { ROLES } from "./edit_card.js";

/** @typedef {import("../types").Document} Document */
/** @typedef {import("../types").Json} Json */

const LOGIC = [
  [0, "any secondary key"],
  [3, "all secondary keys"],
  [1, "not all secondary keys"],
  [2, "no secondary key"],
];
const POSITIONS = [
  [0, "before the character"],
  [1, "after the character"],
  [5, "before the examples"],
  [6, "after the examples"],
  [2, "above the author's note"],
  [3, "below the author's note"],
  [4, "in the chat, at a depth"],
  [7, "outlet"],
];
const MAYBE = [
  [null, "as set globally"],
  [true, "yes"],
  [false, "no"],
];

/** Where each format keeps what. */
const WORLD_INFO = {
  list: "/entries",
  title: "comment",
  keys: "key",
  second: "keysecondary",
  logic: "selectiveLogic",
  off: "disable",
  constant: "constant",
  selective: "selective",
  order: "order",
  position: "position",
  depth: "depth",
  role: "role",
  outlet: "outletName",
  probability: "probability",
  rolled: "useProbability",
  sticky: "sticky",
  cooldown: "cooldown",
  delay: "delay",
  group: "group",
  weight: "groupWeight",
  wins: "groupOverride",
  scoring: "useGroupScoring",
  scan: "scanDepth",
  casing: "caseSensitive",
  whole: "matchWholeWords",
  notByOthers: "excludeRecursion",
  callsNone: "preventRecursion",
  onlyByOthers: "delayUntilRecursion",
};
const CARD_BOOK = {
  list: "/entries",
  title: "comment",
  keys: "keys",
  second: "secondary_keys",
  logic: "extensions/selectiveLogic",
  on: "enabled",
  constant: "constant",
  selective: "selective",
  order: "insertion_order",
  position: "extensions/position",
  depth: "extensions/depth",
  role: "extensions/role",
  outlet: "extensions/outlet_name",
  probability: "extensions/probability",
  rolled: "extensions/useProbability",
  sticky: "extensions/sticky",
  cooldown: "extensions/cooldown",
  delay: "extensions/delay",
  group: "extensions/group",
  weight: "extensions/group_weight",
  wins: "extensions/group_override",
  scoring: "extensions/use_group_scoring",
  scan: "extensions/scan_depth",
  casing: "extensions/case_sensitive",
  whole: "extensions/match_whole_words",
  notByOthers: "extensions/exclude_recursion",
  callsNone: "extensions/prevent_recursion",
  onlyByOthers: "extensions/delay_until_recursion",
};
const RISU_BOOK = {
  list: "/data",
  title: "comment",
  keys: "key",
  second: "secondkey",
  constant: "alwaysActive",
  selective: "selective",
  regex: "useRegex",
  order: "insertorder",
};

/** @typedef {Record<string, string>} Names */

/** @param {Document} document @param {string} base @returns {Names} */
function namesOf(document, base) {
  if (base !== "") return CARD_BOOK;
  if (document.format === "lorebook") return RISU_BOOK;
  return Array.isArray(at(document.data, "/entries")) ? CARD_BOOK : WORLD_INFO;
}

/**
 * The entries of a book: in a document of its own, or in a card.
 * @param {Document} document
 * @param {string} base
 * @returns {{pointer: string, entry: Json}[]}
 */
export function bookIn(document, base) {
  const list = base + namesOf(document, base).list;
  const entries = at(document.data, list);
  if (entries === null || typeof entries !== "object") return [];
  return Object.keys(entries).map((key) => ({ pointer: `${list}/${escape(key)}`, entry: entries[key] }));
}

/** @param {Json} entry @param {Names} names */
const titleOf = (entry, names) => {
  const keys = at(entry, `/${names.keys}`);
  return (
    at(entry, `/${names.title}`) ||
    entry?.name ||
    (Array.isArray(keys) ? keys.join(", ") : keys) ||
    "Entry without a name"
  );
};

/** @param {Json} entry @param {Names} names */
const isOff = (entry, names) =>
  names.off ? Boolean(at(entry, `/${names.off}`)) : names.on ? at(entry, `/${names.on}`) === false : false;

/** @param {{document: string, base: string, place: import("../types").Place | null}} props */
export function Book({ document: id, base, place }) {
  const { build } = useStudio();
  const document = /** @type {Document} */ (documentOf(id));
  const names = namesOf(document, base);
  const entries = useMemo(() => bookIn(document, base), [document.data, base]);
  const [search, setSearch] = useState("");
  const found = useMemo(() => {
    const word = search.trim().toLowerCase();
    if (!word) return entries;
    return entries.filter(({ entry }) =>
      `${titleOf(entry, names)} ${at(entry, `/${names.keys}`)} ${entry?.content}`.toLowerCase().includes(word),
    );
  }, [entries, search]);
  const here = place?.document === id ? place.pointer : "";
  const chosen = found.find(({ pointer }) => here === pointer || here.startsWith(`${pointer}/`)) || found[0];
  const fired = new Set(
    (build?.lore.rows || []).filter((row) => row.active && row.document === id).map((row) => row.pointer),
  );
  const add = () => {
    const { edits, pointer } = addition(document, base, names, entries);
    edit(edits, null, `${document.name}: new entry`);
    setSearch("");
    reveal({ document: id, pointer });
  };

  return html`<div class="book">
    <div class="entries">
      <div class="row">
        <input
          type="search"
          aria-label="Search entries"
          placeholder="Search entries"
          value=${search}
          onInput=${(/** @type {any} */ event) => setSearch(event.target.value)}
        />
        <button type="button" id="add-entry" onClick=${add}>Add</button>
      </div>
      <${LongList}
        items=${found}
        height=${36}
        label="Entries"
        chosen=${chosen ? found.indexOf(chosen) : -1}
        row=${(/** @type {{pointer: string, entry: Json}} */ { pointer, entry }, /** @type {number} */ index) =>
          html`<div role="listitem" key=${pointer} aria-setsize=${found.length} aria-posinset=${index + 1}>
            <button
              type="button"
              class=${isOff(entry, names) ? "entry off" : "entry"}
              aria-current=${pointer === chosen?.pointer ? "true" : undefined}
              onClick=${() => reveal({ document: id, pointer })}
            >
              <span>${titleOf(entry, names)}</span>
              ${fired.has(pointer) && html`<small class="fired">in the prompt</small>`}
              ${isOff(entry, names) && html`<small>off</small>`}
            </button>
          </div>`}
      />
    </div>
    ${
      chosen
        ? html`<${Entry}
            key=${chosen.pointer}
            document=${id}
            pointer=${chosen.pointer}
            names=${names}
            entry=${chosen.entry}
          />`
        : html`<${Empty} text=${search ? "No entry has these words." : "There are no entries yet."} />`
    }
  </div>`;
}

/** @param {{document: string, pointer: string, names: Names, entry: Json}} props */
function Entry({ document, pointer, names, entry }) {
  const { build } = useStudio();
  const row = build?.lore.rows.find((each) => each.document === document && each.pointer === pointer);
  const tokens = tokensAt(document, pointer);
  /** @param {string} name */
  const to = (name) => ({ document, pointer: `${pointer}/${names[name]}` });
  const placed = at(entry, `/${names.position || "position"}`);
  const position = placed ?? (entry?.position === "before_char" ? 0 : 1);
  const name = titleOf(entry, names);
  return html`<div class="entry-form">
    ${row && html`<p class=${row.active ? "verdict in" : "verdict out"}><span class="state">${row.active ? "in" : "out"}</span> ${row.reason}${tokens !== null && ` · ${tokens} tokens`}</p>`}
    <${TextField} ...${to("title")} label="Title" />
    <${WordsField} ...${to("keys")} label="Keys" note="separated by commas" fallback=${[]} />
    <div class="grid">
      <${WordsField} ...${to("second")} label="Secondary keys" fallback=${[]} />
      ${names.logic && html`<${ChoiceField} ...${to("logic")} label="Needs" options=${LOGIC} fallback=${0} />`}
    </div>
    <${LongField} document=${document} pointer=${`${pointer}/content`} label="Content" />
    <div class="checks">
      ${names.off && html`<${CheckField} ...${to("off")} label="On" inverted />`}
      ${names.on && html`<${CheckField} ...${to("on")} label="On" fallback=${true} />`}
      <${CheckField} ...${to("constant")} label="Constant: always in the prompt" />
      <${CheckField} ...${to("selective")} label="Use the secondary keys" />
      ${names.regex && html`<${CheckField} ...${to("regex")} label="Keys are regular expressions" />`}
    </div>
    <div class="grid">
      <${NumberField} ...${to("order")} label="Order" fallback=${100} />
      ${
        names.position &&
        html`<${ChoiceField} ...${to("position")} label="Position" options=${POSITIONS} fallback=${position} />`
      }
      ${names.depth && html`<${NumberField} ...${to("depth")} label="Depth" least=${0} fallback=${4} />`}
      ${
        names.role &&
        html`<${ChoiceField} ...${to("role")} label="Role" options=${[[null, "system (not set)"], ...ROLES]} />`
      }
      ${names.outlet && position === 7 && html`<${TextField} ...${to("outlet")} label="Outlet" />`}
    </div>
    ${
      names.probability &&
      html`<details>
          <summary>Probability and timed effects</summary>
          <div class="grid">
            <${NumberField} ...${to("probability")} label="Probability (%)" least=${0} most=${100} fallback=${100} />
            <${NumberField} ...${to("sticky")} label="Sticky (messages)" least=${0} nullable />
            <${NumberField} ...${to("cooldown")} label="Cooldown (messages)" least=${0} nullable />
            <${NumberField} ...${to("delay")} label="Delay (messages)" least=${0} nullable />
          </div>
          <div class="checks"><${CheckField} ...${to("rolled")} label="Use the probability" fallback=${true} /></div>
        </details>
        <details>
          <summary>Inclusion group</summary>
          <div class="grid">
            <${TextField} ...${to("group")} label="Group" />
            <${NumberField} ...${to("weight")} label="Group weight" least=${0} fallback=${100} />
            <${ChoiceField} ...${to("scoring")} label="Group scoring: most keys win" options=${MAYBE} />
          </div>
          <div class="checks"><${CheckField} ...${to("wins")} label="Prioritize: order decides, not chance" /></div>
        </details>
        <details>
          <summary>Scanning and recursion</summary>
          <div class="grid">
            <${NumberField} ...${to("scan")} label="Scan depth" least=${0} nullable />
            <${ChoiceField} ...${to("casing")} label="Case-sensitive" options=${MAYBE} />
            <${ChoiceField} ...${to("whole")} label="Match whole words" options=${MAYBE} />
          </div>
          <div class="checks">
            <${CheckField} ...${to("notByOthers")} label="Non-recursable: other entries do not activate it" />
            <${CheckField} ...${to("callsNone")} label="Prevent further recursion: it activates no other entries" />
            <${CheckField} ...${to("onlyByOthers")} label="Delay until recursion: only other entries activate it" />
          </div>
        </details>`
    }
    <div class="row">
      <button
        type="button"
        class="quiet danger"
        onClick=${() => edit([{ document, op: "remove", path: pointer }], null, `${name}: removed`)}
      >
        Remove this entry
      </button>
    </div>
  </div>`;
}

/**
 * A new entry as its program would make it.
 * @param {Document} document
 * @param {string} base
 * @param {Names} names
 * @param {{pointer: string, entry: Json}[]} entries
 */
function addition(document, base, names, entries) {
  const list = base + names.list;
  const there = at(document.data, list);
  const number =
    entries.reduce((most, { entry }) => Math.max(most, Number(entry?.uid ?? entry?.id ?? -1)), entries.length - 1) + 1;
  /** @type {Json} */
  let value = {
    key: "",
    secondkey: "",
    comment: "New entry",
    content: "",
    mode: "normal",
    alwaysActive: false,
    selective: false,
    insertorder: 100,
  };
  if (names === CARD_BOOK) {
    value = {
      id: number,
      keys: [],
      secondary_keys: [],
      comment: "New entry",
      content: "",
      constant: false,
      selective: true,
      insertion_order: 100,
      enabled: true,
      position: "before_char",
      extensions: {},
    };
  } else if (names === WORLD_INFO) {
    value = {
      uid: number,
      key: [],
      keysecondary: [],
      comment: "New entry",
      content: "",
      constant: false,
      selective: true,
      selectiveLogic: 0,
      order: 100,
      position: 0,
      disable: false,
      probability: 100,
      useProbability: true,
      depth: 4,
      group: "",
      groupWeight: 100,
      groupOverride: false,
      scanDepth: null,
      caseSensitive: null,
      matchWholeWords: null,
      useGroupScoring: null,
      role: null,
      sticky: 0,
      cooldown: 0,
      delay: 0,
      excludeRecursion: false,
      preventRecursion: false,
      delayUntilRecursion: false,
      displayIndex: number,
    };
  }
  const key = names === WORLD_INFO ? String(number) : Array.isArray(there) ? String(there.length) : "0";
  /** @type {import("../types").Edit[]} */
  const edits = [];
  if (there === undefined || there === null)
    edits.push({ document: document.id, op: "add", path: list, value: names === WORLD_INFO ? {} : [] });
  edits.push({ document: document.id, op: "add", path: `${list}/${names === WORLD_INFO ? key : "-"}`, value });
  return { edits, pointer: `${list}/${key}` };
}
