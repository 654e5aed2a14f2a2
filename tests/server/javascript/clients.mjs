// Talks to a server with the JavaScript SDKs of OpenAI and Anthropic: node clients.mjs http://127.0.0.1:8080
// What the model says is in tests/server/test_javascript.py, in the order of these calls.
import assert from "node:assert";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";

const [, , url, upstream] = process.argv;
const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "anything", maxRetries: 0 });
const claude = new Anthropic({ baseURL: url, apiKey: "anything", maxRetries: 0 });
const messages = [{ role: "user", content: "Hello" }];
const schema = { type: "object", properties: { sides: { type: "integer" } } };

async function chat() {
  const whole = await openai.chat.completions.create({ model: "aria", messages });
  assert.equal(whole.choices[0].message.content, "Welcome.");
  let streamed = "";
  for await (const chunk of await openai.chat.completions.create({ model: "aria", messages, stream: true })) {
    streamed += chunk.choices[0]?.delta?.content ?? "";
  }
  assert.equal(streamed, "Welcome.");
  const two = await openai.chat.completions.create({ model: "aria", messages, n: 2 });
  assert.deepEqual(two.choices.map((choice) => choice.message.content), ["One.", "Two."]);
}

async function responses() {
  const first = await openai.responses.create({ model: "aria", input: "Hello" });
  assert.equal(first.output_text, "First.");
  const pieces = [];
  for await (const event of await openai.responses.create({
    model: "aria", input: "More", previous_response_id: first.id, stream: true,
  })) {
    if (event.type === "response.output_text.delta") pieces.push(event.delta);
  }
  assert.deepEqual(pieces, ["Wel", "come."]);
  const tools = [{ type: "function", name: "roll", parameters: schema, strict: false }];
  const rolling = await openai.responses.create({ model: "aria", input: "Roll", tools });
  const call = rolling.output.at(-1);
  assert.deepEqual([call.type, call.name, JSON.parse(call.arguments)], ["function_call", "roll", { sides: 6 }]);
  const result = { type: "function_call_output", call_id: call.call_id, output: "4" };
  const end = await openai.responses.create({ model: "aria", input: [result], tools, previous_response_id: rolling.id });
  assert.equal(end.output_text, "A four.");
}

async function others() {
  const text = await openai.completions.create({ model: "aria", prompt: "Once upon" });
  assert.equal(text.choices[0].text, "a time.");
  assert.equal((await openai.models.retrieve("aria")).id, "aria");
}

async function anthropic() {
  const whole = await claude.messages.create({ model: "aria", max_tokens: 50, messages });
  assert.deepEqual([whole.content[0].type, whole.content[0].text], ["text", "Welcome."]);
  const last = await claude.messages.stream({ model: "aria", max_tokens: 50, messages }).finalMessage();
  assert.equal(last.content[0].text, "Welcome.");
  const tools = [{ name: "roll", input_schema: schema }];
  const rolling = await claude.messages.create({ model: "aria", max_tokens: 50, messages, tools });
  const block = rolling.content.at(-1);
  assert.deepEqual([block.type, block.name, block.input], ["tool_use", "roll", { sides: 6 }]);
}

async function passedOn() {
  const embedded = await openai.embeddings.create({ model: "any", input: ["a"], encoding_format: "float" });
  assert.deepEqual(embedded.data[0].embedding, [0.5]);
  const moderated = await openai.moderations.create({ model: "mod", input: "a" });
  assert.equal(moderated.results[0].flagged, false);
}

for (const part of upstream ? [passedOn] : [chat, responses, others, anthropic]) await part();
console.log("ok");
