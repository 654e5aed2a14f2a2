/** JSON pointers and patches on values that are never changed in place. */

/** @typedef {import("./types").Edit} Edit */
/** @typedef {import("./types").Json} Json */

/** @param {string} pointer @returns {string[]} */
export const parts = (pointer) =>
  pointer === ""
    ? []
    : pointer
        .slice(1)
        .split("/")
        .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));

/** @param {string | number} part */
export const escape = (part) => String(part).replaceAll("~", "~0").replaceAll("/", "~1");

/** A random id. Browsers have crypto.randomUUID only for pages from HTTPS or from the machine itself. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const digits = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/(.{8})(.{4})(.{4})(.{4})(.{12})/, "$1-$2-$3-$4-$5");
}

/**
 * The value at a pointer, or undefined.
 * @param {Json} data
 * @param {string} pointer
 * @returns {Json}
 */
export function at(data, pointer) {
  let value = data;
  for (const part of parts(pointer)) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, part)) return undefined;
    value = value[part];
  }
  return value;
}

/**
 * @param {Json} data
 * @param {string[]} path
 * @param {(parent: Json, key: string) => Json} change gets a copy of the parent
 * @returns {Json}
 */
function changed(data, path, change) {
  const [key, ...rest] = path;
  const copy = Array.isArray(data) ? [...data] : { ...data };
  if (rest.length === 0) return change(copy, key);
  if (copy[key] === null || typeof copy[key] !== "object") throw new Error(`no such place: ${path.join("/")}`);
  copy[key] = changed(copy[key], rest, change);
  return copy;
}

/** @param {Json} parent @param {string} key @param {Json} value */
function put(parent, key, value) {
  if (Array.isArray(parent)) parent.splice(key === "-" ? parent.length : Number(key), 0, value);
  else Object.defineProperty(parent, key, { value, enumerable: true, configurable: true, writable: true });
  return parent;
}

/** @param {Json} parent @param {string} key */
function drop(parent, key) {
  if (Array.isArray(parent)) parent.splice(Number(key), 1);
  else delete parent[key];
  return parent;
}

/**
 * The data after an edit.
 * @param {Json} data
 * @param {Edit} edit
 * @returns {Json}
 */
export function apply(data, edit) {
  const path = parts(edit.path);
  if (path.length === 0) return edit.value;
  if (edit.op === "remove") return changed(data, path, drop);
  if (edit.op === "move") {
    const value = at(data, edit.from || "");
    const without = changed(data, parts(edit.from || ""), drop);
    return changed(without, path, (parent, key) => put(parent, key, value));
  }
  if (edit.op === "add") return changed(data, path, (parent, key) => put(parent, key, edit.value));
  return changed(data, path, (parent, key) => {
    if (Array.isArray(parent)) parent[Number(key)] = edit.value;
    else put(parent, key, edit.value);
    return parent;
  });
}

/**
 * Edits that set a value whether or not it is there, with the objects on the way to it.
 * @param {string} document
 * @param {Json} data
 * @param {string} pointer
 * @param {Json} value
 * @returns {Edit[]}
 */
export function setting(document, data, pointer, value) {
  const path = parts(pointer);
  /** @type {Edit[]} */
  const edits = [];
  for (let depth = 1; depth < path.length; depth++) {
    const place = "/" + path.slice(0, depth).map(escape).join("/");
    const there = at(data, place);
    if (there === undefined || there === null) {
      edits.push({ document, op: there === undefined ? "add" : "replace", path: place, value: {} });
    }
  }
  edits.push({ document, op: at(data, pointer) === undefined ? "add" : "replace", path: pointer, value });
  return edits;
}
