// Talks to a server with the JavaScript SDKs of OpenAI and Anthropic: node clients.mjs http://127.0.0.1:8080
import assert from "node:assert";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const url = process.argv[2];
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "anything", maxRetries: 0 });
const claude = new Anthropic({ baseURL: url, apiKey: "anything", maxRetries: 0 });
const messages = [{ role: "user", content: "Hello" }];

const chat = await openai.chat.completions.create({ model: "aria", messages });
assert(chat.choices[0].message.content.length > 0);

let streamed = "";
for await (const chunk of await openai.chat.completions.create({ model: "aria", messages, stream: true })) {
  streamed += chunk.choices[0]?.delta?.content ?? "";
}
assert(streamed.length > 0);

const first = await openai.responses.create({ model: "aria", input: "Hello" });
assert(first.output_text.length > 0);
const second = await openai.responses.create({ model: "aria", input: "More", previous_response_id: first.id });
assert.equal(second.previous_response_id, first.id);

const text = await openai.completions.create({ model: "aria", prompt: "Once upon" });
assert(text.choices[0].text.length > 0);
assert.equal((await openai.models.retrieve("aria")).id, "aria");

const whole = await claude.messages.create({ model: "aria", max_tokens: 50, messages });
assert.equal(whole.content[0].type, "text");
const last = await claude.messages.stream({ model: "aria", max_tokens: 50, messages }).finalMessage();
assert(last.content[0].text.length > 0);

console.log("ok");
