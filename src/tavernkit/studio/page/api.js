/** Calls of the studio's JSON API. */

const BASE = "/api/studio";
const KEPT = "tavernkit-studio-token";

/** What the service said when it refused a call. */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {{message?: string, code?: string}} error
   */
  constructor(status, error) {
    super(error.message || `The service answered ${status}.`);
    this.status = status;
    this.code = error.code || "";
  }
}

/** Take the token out of the address, so that it is neither shared nor kept in the history. */
export function takeToken() {
  const found = /^#token=(.+)$/.exec(location.hash);
  if (!found) return;
  keepToken(decodeURIComponent(found[1]));
  history.replaceState(null, "", location.pathname);
}

/** @param {string} token */
export function keepToken(token) {
  sessionStorage.setItem(KEPT, token);
}

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<Response>}
 */
async function ask(method, path, body, signal) {
  /** @type {Record<string, string>} */
  const headers = { Authorization: `Bearer ${sessionStorage.getItem(KEPT) || ""}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await fetch(BASE + path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
    credentials: "omit",
    cache: "no-store",
  });
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new ApiError(response.status, answer.error || {});
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export const get = async (path, signal) => (await ask("GET", path, undefined, signal)).json();

/**
 * @param {string} path
 * @param {unknown} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export const post = async (path, body = {}, signal) => (await ask("POST", path, body, signal)).json();

/** @param {string} path @returns {Promise<any>} */
export const remove = async (path) => (await ask("DELETE", path)).json();

/**
 * Save what an address answers as a file.
 * @param {string} path
 * @param {string} name the name if the answer has none
 */
export async function download(path, name) {
  const response = await ask("GET", path);
  const named = /filename\*=UTF-8''([^;]+)/.exec(response.headers.get("content-disposition") || "");
  offer(await response.blob(), named ? decodeURIComponent(named[1]) : name);
}

/**
 * Offer bytes as a file.
 * @param {Blob} blob
 * @param {string} name
 */
export function offer(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/**
 * Read server-sent events of a call.
 * @param {string} path
 * @param {unknown} body
 * @param {(event: string, data: any) => void} hear
 * @param {AbortSignal} [signal]
 */
export async function stream(path, body, hear, signal) {
  const response = await ask("POST", path, body, signal);
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += decoder.decode(value, { stream: !done }).replaceAll("\r\n", "\n");
    const events = rest.split("\n\n");
    rest = events.pop() || "";
    for (const event of events) {
      const lines = event.split("\n");
      const name =
        lines
          .find((line) => line.startsWith("event:"))
          ?.slice(6)
          .trim() || "message";
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim());
      if (data.length) hear(name, JSON.parse(data.join("\n")));
    }
    if (done) return;
  }
}
