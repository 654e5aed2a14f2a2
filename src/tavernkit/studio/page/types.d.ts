// The shapes of the studio's JSON API, for the type checker only.

export type Json = any;

export interface Document {
  id: string;
  kind: string;
  name: string;
  format: string;
  file: string | null;
  writable: boolean;
  saved: boolean;
  revision: number;
  home?: string;
  book?: string | null;
  warnings?: string[];
  data?: Json;
}

export interface Active {
  card: string | null;
  preset: string | null;
  chat: string | null;
  persona: string | null;
  turn: string;
  books: string[];
  regex: string[];
  context_template: string | null;
  instruct: string | null;
  system_prompt: string | null;
}

export interface Workspace {
  revision: number;
  platform: string;
  can_undo: boolean;
  can_redo: boolean;
  undo: string | null;
  redo: string | null;
  documents: Document[];
  active: Active;
  families: { name: string; label: string; colour: string }[];
  dialects: string[];
  models: { id: string; label: string }[];
  model: string;
  cache_profiles: string[];
  generation_types: string[];
  folder: boolean;
  version: string;
}

export interface Edit {
  document: string;
  op: "replace" | "add" | "remove" | "move";
  path: string;
  value?: Json;
  from?: string;
}

export interface Block {
  id: string;
  position: number;
  role: string;
  name: string | null;
  family: string;
  source: string;
  reason: string;
  tokens: number;
  content: string;
}

export interface Part {
  kind: "same" | "added" | "removed";
  text: string;
}

export interface MessageChange {
  kind: "same" | "changed" | "added" | "removed";
  index: number | null;
  before: number | null;
  parts?: Part[];
}

export interface LoreRow {
  id: string;
  title: string;
  book: string;
  active: boolean;
  reason: string;
  keys: string[];
  document: string | null;
  pointer: string | null;
  near?: { key: string; word: string }[];
}

export interface Message {
  role: string;
  name: string | null;
  content: string;
  blocks: string[];
}

export interface Build {
  plan: string;
  revision: number;
  superseded: boolean;
  ms: number;
  kind: string;
  error: { message: string; code: string } | null;
  platform: string;
  speaker: string | null;
  blocks: Block[];
  messages: Message[];
  text: string | null;
  budget: { total: number; limit: number | null; response: number | null; note: string };
  shares: { family: string; tokens: number; blocks: number }[];
  left_out: { what: string; reason: string; tokens: number }[];
  warnings: string[];
  hints: string[];
  stop: string[];
  lore: { active: number; total: number; listed: number; rows: LoreRow[] };
  changes: { since: string | null; same: boolean; messages: MessageChange[] } | null;
}

export interface Span {
  start: number;
  end: number;
  kind: "verbatim" | "expanded" | "replaced" | "added" | "aligned";
  source: number | null;
  from: number;
  to: number;
  how: string;
}

export interface Source {
  document: string | null;
  pointer: string | null;
  kind: string;
  title: string;
  label: string;
  tokens: number;
}

export interface Cost {
  document: string | null;
  pointer: string | null;
  title: string;
  tokens: number;
}

export interface Sources {
  plan: string;
  exact: boolean;
  sources: Source[];
  blocks: { id: string; spans: Span[] }[];
  entries: Cost[];
  fields: Cost[];
}

export interface EditOut {
  revision: number;
  can_undo: boolean;
  can_redo: boolean;
  undo: string | null;
  redo: string | null;
  documents: Document[];
  applied: Edit[];
  active: Active;
  removed: string[];
  build: Build | null;
}

export interface Line {
  index: number;
  name: string;
  role: string;
  text: string;
  hidden: boolean;
  swipe: number;
  swipes: number;
  plan: string | null;
  reasoning: string;
}

export interface Talk {
  platform: string;
  model: string;
  busy: boolean;
  can_undo: boolean;
  group: { name: string }[] | null;
  chat: string;
  tools: string[];
  greeting: { chosen: number; choices: string[]; text: string | null } | null;
  lines: Line[];
}

export interface Change {
  pointer: string;
  kind: "changed" | "added" | "removed";
  before: Json;
  after: Json;
}

export interface Difference {
  document: string;
  changed: boolean;
  conflict: boolean;
  changes: Change[];
  unified: string[];
}

/** What the editor has open: a document, a place in it, and characters there. */
export interface Place {
  document: string;
  pointer: string;
  from?: number | null;
  to?: number | null;
  seen?: number;
}

export interface State {
  phase: "loading" | "locked" | "ready" | "failed";
  failure: string;
  workspace: Workspace;
  documents: Map<string, Document>;
  build: Build | null;
  sources: Sources | null;
  waiting: boolean;
  view: string;
  place: Place | null;
  notices: { id: number; text: string; bad: boolean }[];
}
