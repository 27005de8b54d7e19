import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { z } from "zod";
import { errorTable } from "../../../src/api/errors.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { envelopeIn } from "../../support/envelope.ts";
import { modelRecord, startGateway, type TestGateway } from "../../support/gateway.ts";
import { allowedBy, mutated } from "../../support/schema-arbitrary.ts";
import { fc, runs } from "../../support/fast-check.ts";
import { answerTasks, type Json } from "./fixture.ts";

/** What says itself that it is not there yet: one 501 in the document's words. */
const later = ["pullModel"];
/** Streams have no end: test/gateway/management/events.test.ts reads them. */
const streams = ["events"];

const operationSchema = z.object({
  operationId: z.string(),
  parameters: z.array(z.record(z.string(), z.unknown())).default([]),
  requestBody: z
    .object({
      content: z.object({ "application/json": z.object({ schema: z.record(z.string(), z.unknown()) }).optional() }),
    })
    .optional(),
});
type Operation = ReturnType<typeof operationsOf>[number];

function operationsOf(document: Json) {
  const paths = z.record(z.string(), z.record(z.string(), operationSchema)).parse(document["paths"]);
  return Object.entries(paths)
    .filter(([path]) => path.startsWith("/api/"))
    .flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { operationId: id, parameters, requestBody }]) => {
        const body = requestBody?.content["application/json"]?.schema;
        return { id, method: method.toUpperCase(), path, parameters, body };
      }),
    )
    .filter(({ id }) => !streams.includes(id));
}

function bodyOf({ id, body }: Operation, document: Json): fc.Arbitrary<unknown> | undefined {
  if (body === undefined) return undefined;
  const said = allowedBy(body, document);
  if (id === "createSlot" || id === "putSlot")
    return fc.tuple(said, fc.boolean()).map(([value, isHeld]) => withSlot(isRecord(value) ? value : {}, isHeld));
  if (id === "swapSlot") return fc.oneof(said, fc.constant({ model: "other" }));
  if (id === "assignModel") return fc.oneof(said, fc.constant({ slot: "coder" }));
  return said;
}

/** A manifest or a flat spec of a slot that is published; `isHeld`: such that another model may be asked of it. */
function withSlot(body: Json, isHeld: boolean): Json {
  const held = isHeld
    ? { enabled: true, model: { default: "other" }, engine: "llama", aliases: [], pinned: false }
    : {};
  if (!isRecord(body["spec"])) return { ...body, ...("name" in body ? { name: "coder" } : {}), ...held };
  return { ...body, metadata: {}, spec: { ...body["spec"], ...held } };
}

/** Of slots only those that are published: a new one would be waited for until an operator takes it up. */
const slotNames = fc.constantFrom("primary", "coder");
const otherNames = fc.constantFrom("other", "vendor/model:free", "acme");
const badNames = fc.oneof(
  fc.string({ minLength: 1, maxLength: 12 }),
  fc.constantFrom("..", "%", "a/b", "x".repeat(290), "__proto__"),
);

function asked(operation: Operation, document: Json) {
  const known = operation.path.startsWith("/api/slots") ? slotNames : otherNames;
  const names = fc.oneof({ weight: 5, arbitrary: known }, badNames);
  const query = operation.parameters.filter((each) => each["in"] === "query");
  const values = query.map((each) => {
    const allowed = allowedBy(isRecord(each["schema"]) ? each["schema"] : {}, document);
    return fc.option(fc.oneof({ weight: 4, arbitrary: allowed.map(String) }, fc.string({ maxLength: 5 })), {
      nil: undefined,
      freq: 1,
    });
  });
  const good = bodyOf(operation, document);
  const text = (value: unknown): string => JSON.stringify(value) ?? "";
  const broken = fc.constantFrom("", "{", "null", "[1]", '{"a":1,"a":2}', "\u0000");
  const bodies =
    good === undefined
      ? fc.constant(undefined)
      : fc.oneof({ weight: 5, arbitrary: good.map(text) }, { weight: 3, arbitrary: mutated(good).map(text) }, broken);
  return fc.tuple(names, fc.tuple(...values), bodies).map(([name, given, body]) => {
    const path = operation.path.replaceAll(/\{(\w+)\}/g, (_all, kind: string) =>
      kind === "ref" ? encodeURI(name) : encodeURIComponent(name),
    );
    const search = new URLSearchParams();
    for (const [index, value] of given.entries()) {
      const key = String(query[index]?.["name"]);
      // A log that is followed has no end.
      if (value !== undefined && key !== "follow") search.set(key, value);
    }
    // Nobody loads anything here: no test waits long for it.
    if (search.has("wait")) search.set("timeout", "1");
    return { url: search.size === 0 ? path : `${path}?${search.toString()}`, body };
  });
}

describe("any request to /api", () => {
  const stack = new AsyncDisposableStack();
  let gateway: TestGateway;
  let document: Json;
  before(async () => {
    gateway = await startGateway({
      slots: { primary: { port: 1 }, coder: {} },
      env: { SVC_API_EXEC: "1" },
      registry: { models: [modelRecord("other"), modelRecord("vendor/model:free")] },
    });
    stack.use(gateway);
    stack.use(await answerTasks(gateway.stateDir));
    const found: unknown = await (await fetch(`${gateway.url}/api/openapi.json`)).json();
    document = isRecord(found) ? found : {};
  });
  after(() => stack[Symbol.asyncDispose]());

  it("is answered in time as the document allows it, and never with an internal error", async () => {
    const done = new Set<string>();
    const operations = operationsOf(document);
    for (const operation of operations) {
      await fc.assert(
        fc.asyncProperty(asked(operation, document), async ({ url, body }) => {
          const response = await fetch(new URL(url, gateway.url), {
            method: operation.method,
            // Against an answer that never comes; two seconds of it are spent in waiting for an operator.
            signal: AbortSignal.timeout(180_000),
            ...(body === undefined ? {} : { headers: { "content-type": "application/json" }, body }),
          });
          const text = await response.text();
          // The gateway is strict: an answer that its schema does not allow is a 500.
          if (response.status < 400) {
            done.add(operation.id);
            return;
          }
          const { code } = envelopeIn(text).error;
          assert.ok(code in errorTable);
          // A new slot is written, and no operator is here to take it up.
          if (code === "slot.not_ready" && ["putSlot", "createSlot"].includes(operation.id)) return;
          if (response.status === 501) assert.ok(later.includes(operation.id), text);
          else assert.ok(response.status < 500, `${text}\n${gateway.log().slice(-2000)}`);
        }),
        { numRuns: runs(operation.body === undefined ? 5 : 15), includeErrorInReport: true },
      );
    }
    // The run reaches what it is about; which routes find their only way to do something is left to chance.
    assert.ok(done.size >= 20, `only ${[...done].join(", ")}`);
  });
});
