import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import OpenAI from "openai";
import type { ResponseFunctionToolCall } from "openai/resources/responses/responses";
import { isRecord } from "../../src/lib/record.ts";
import type { ClientSlots } from "./clients.ts";
import { rejectionOf } from "./rejection.ts";
import { scriptedCall } from "./scripted-model.ts";

const parameters = {
  type: "object",
  properties: { city: { enum: ["here"] } },
  required: ["city"],
  additionalProperties: false,
};

/** OpenAI's client and its Responses, whichever engine makes them of a chat. */
export async function testResponses(t: TestContext, openai: OpenAI, slots: ClientSlots): Promise<void> {
  const asked = { model: slots.chat, input: "hello", max_output_tokens: 4, temperature: 0 };

  await t.test("openai: a response that its limit cuts, whole and streamed", async () => {
    const whole = await openai.responses.create({ ...asked, instructions: "be brief" });
    assert.deepEqual(
      [whole.object, whole.model, whole.status, whole.incomplete_details?.reason, whole.usage?.output_tokens],
      ["response", slots.chat, "incomplete", "max_output_tokens", 4],
    );
    assert.ok(whole.output_text.length > 0 && (whole.usage?.input_tokens ?? 0) > 0);
    const numbers: number[] = [];
    let text = "";
    const stream = openai.responses.stream({ ...asked, instructions: "be brief" });
    stream.on("event", ({ sequence_number: at }) => void numbers.push(at));
    stream.on("response.output_text.delta", ({ delta }) => void (text += delta));
    const streamed = await stream.finalResponse();
    assert.deepEqual(
      [text, streamed.output_text, streamed.status],
      [whole.output_text, whole.output_text, "incomplete"],
    );
    assert.equal(streamed.usage?.total_tokens, whole.usage?.total_tokens);
    assert.deepEqual(numbers, Array.from(numbers.keys()));
  });

  await t.test(
    "openai: a response that calls a function, and the next response, which has the function's result",
    async () => {
      const tools = [{ type: "function" as const, name: scriptedCall.name, parameters, strict: true }];
      const input = [{ role: "user" as const, content: "hello" }];
      const calling = { ...asked, model: slots.tools, max_output_tokens: 60, tools, parallel_tool_calls: false, input };
      const whole = await openai.responses.create(calling);
      for (const response of [whole, await openai.responses.stream(calling).finalResponse()]) {
        const call = callOf(response.output);
        assert.equal(response.status, "completed");
        assert.deepEqual([call.name, JSON.parse(call.arguments)], [scriptedCall.name, scriptedCall.arguments]);
      }
      const call = callOf(whole.output);
      const output = { type: "function_call_output" as const, call_id: call.call_id, output: "rain" };
      const next = await openai.responses.create({ ...calling, input: [...input, call, output] });
      assert.ok((next.usage?.input_tokens ?? 0) > (whole.usage?.input_tokens ?? 0), "the model was shown both");
    },
  );

  await t.test("openai: a response that keeps to a JSON schema", async () => {
    const schema = {
      type: "object",
      properties: { sky: { enum: ["blue", "grey"] } },
      required: ["sky"],
      additionalProperties: false,
    };
    const format = { type: "json_schema" as const, name: "sky", schema, strict: true };
    const keeping = { ...asked, model: slots.schema, max_output_tokens: 100, text: { format } };
    const { output_text: text } = await openai.responses.stream(keeping).finalResponse();
    const answer: unknown = JSON.parse(text);
    assert.ok(isRecord(answer) && (answer["sky"] === "blue" || answer["sky"] === "grey"));
  });

  await t.test("openai: a response that cannot be is refused as the client's mistake, by name", async () => {
    for (const [fields, said] of [
      [{ previous_response_id: "resp_1" }, /previous_response_id is not possible/],
      [{ background: true }, /background is not possible/],
      [{ tools: [{ type: "web_search" as const }], tool_choice: "required" as const }, /web_search cannot be called/],
    ] as const) {
      const body = { ...asked, ...fields, tools: "tools" in fields ? [...fields.tools] : [] };
      const refused = await rejectionOf(openai.responses.create(body), OpenAI.BadRequestError);
      assert.equal(refused.code, "dispatch.invalid_request");
      assert.match(refused.message, said);
    }
  });
}

function callOf(output: readonly { readonly type: string }[]): ResponseFunctionToolCall {
  const calls = output.filter((item): item is ResponseFunctionToolCall => item.type === "function_call");
  const [call, ...more] = calls;
  assert.ok(call !== undefined && more.length === 0);
  return call;
}
