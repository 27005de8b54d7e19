import assert from "node:assert/strict";
import { it } from "node:test";
import { MessagesTranslation } from "../../../src/gateway/protocols/messages.ts";
import { RerankTranslation } from "../../../src/gateway/protocols/rerank.ts";
import { ResponsesTranslation } from "../../../src/gateway/protocols/responses.ts";
import { ScoreTranslation } from "../../../src/gateway/protocols/score.ts";
import {
  checkWhole,
  messageList,
  oneOrMoreTexts,
  responsesInput,
  type InputRule,
} from "../../../src/gateway/v1/body-kinds.ts";
import { encode, nothingKept, refusedAt, user } from "./bodies.ts";

const messages = (body: object): unknown =>
  new MessagesTranslation().request(encode({ model: "m", max_tokens: 1, messages: [user("a")], ...body }));
const responses = (body: object): unknown =>
  new ResponsesTranslation(nothingKept).request(encode({ model: "m", input: "a", ...body }));
const cold =
  (field: InputRule["field"], engineForm: InputRule["engineForm"] & object) =>
  (body: object): unknown =>
    checkWhole(encode(body), { field, kinds: [], isRequired: true, engineForm });
const content =
  (role: string) =>
  (wrong: unknown): object => ({ messages: [{ role, content: wrong }] });

/** Each list of a request that a client fills. */
const lists: readonly (readonly [where: string, act: (body: object) => unknown, body: (wrong: unknown) => object])[] = [
  ["messages.0", messages, (wrong) => ({ messages: wrong })],
  ["messages.0.content.0", messages, content("user")],
  ["messages.0.content.0", messages, content("assistant")],
  ["messages.0.content.0", messages, content("system")],
  ["tools.0", messages, (wrong) => ({ tools: wrong })],
  ["stop_sequences.0", messages, (wrong) => ({ stop_sequences: wrong })],
  ["input.0", responses, (wrong) => ({ input: wrong })],
  ["input.0.content.0", responses, (wrong) => ({ input: [user(wrong)] })],
  ["include.0", responses, (wrong) => ({ include: wrong })],
  ["tools.0", responses, (wrong) => ({ tools: wrong })],
  ["tools.0.tools.0", responses, (wrong) => ({ tools: [{ type: "namespace", name: "n", tools: wrong }] })],
  [
    "tool_choice.tools.0",
    responses,
    (wrong) => ({ tool_choice: { type: "allowed_tools", mode: "auto", tools: wrong } }),
  ],
  ["documents.0", (body) => new RerankTranslation().request(encode(body)), (documents) => ({ query: "a", documents })],
  ["text_2.0", (body) => new ScoreTranslation().request(encode(body)), (wrong) => ({ text_1: "a", text_2: wrong })],
  ["messages.0", cold("messages", messageList), (wrong) => ({ messages: wrong })],
  ["input.0", cold("input", responsesInput), (wrong) => ({ input: wrong })],
  ["input.0", cold("input", oneOrMoreTexts), (wrong) => ({ input: wrong })],
];

for (const [where, act, body] of lists)
  it(`a list of wrong items is refused at its first one, since a body may hold 100,000: ${where}`, () => {
    const { details } = refusedAt(where, () => act(body(Array(1000).fill(true))));
    assert.equal(details?.["more"], undefined);
  });
