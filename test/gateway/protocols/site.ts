import assert from "node:assert/strict";
import { after, before } from "node:test";
import { startGateway, type SlotSketch } from "../../support/gateway.ts";
import { record } from "../../support/openai.ts";
import { json, sayHello, scriptedEngine, type Script } from "../../support/scripted-engine.ts";

/** An engine behind a gateway, as its slot primary: it speaks chat, or what the sketch says. The slot cold has none. */
export async function openSite(script?: Script, sketch: SlotSketch = {}) {
  await using stack = new AsyncDisposableStack();
  const engine = stack.use(await scriptedEngine(script));
  const slots = { primary: { port: engine.port, ...sketch }, cold: { state: "starting" } } as const;
  const gateway = stack.use(await startGateway({ slots }));
  const owned = stack.move();
  /** The path and the body of the last request that the engine got. */
  const asked = (): [path: string, body: Record<string, unknown>] => {
    const { path, body } = engine.seen.at(-1) ?? assert.fail("nothing was asked");
    return [path, JSON.parse(body)];
  };
  return { engine, gateway, asked, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** One request through the gateway: what the client got, and what the engine had got. */
export interface Exchanged {
  readonly status: number;
  readonly text: string;
  readonly leftOut: string | null;
  /** The body at the engine. */
  readonly sent: Record<string, unknown>;
  readonly sentText: string;
  /** The answer of one JSON object. */
  readonly answer: Record<string, unknown>;
  /** The place and the message of a refusal, or the code where it names no place. */
  readonly refusal: readonly [place: string, message: string];
}

/**
 * For the tests of a `describe`: one site for all, whose engine answers a request with an object as JSON, with a text as its
 * stream, or as JSON where that is written so, or with a greeting.
 */
export function exchanging(path: string, base: object = {}, sketch?: SlotSketch) {
  let site: Awaited<ReturnType<typeof openSite>> | undefined;
  before(async () => void (site = await openSite(undefined, sketch)));
  after(() => site?.[Symbol.asyncDispose]());
  return async (request: unknown, answer?: string | object, at = path): Promise<Exchanged> => {
    const { engine, gateway } = site ?? assert.fail("no site is open");
    engine.answer(
      answer === undefined
        ? sayHello
        : (response) => {
            if (typeof answer === "object") return json(response, answer);
            response.writeHead(200, {
              "content-type": answer.startsWith("{") ? "application/json" : "text/event-stream",
            });
            response.end(answer);
          },
    );
    const before = engine.seen.length;
    const isBody = typeof request === "object" && request !== null;
    const response = await gateway.post(at, isBody ? { ...base, ...request } : request);
    const text = await response.text();
    const parsed = (): Record<string, unknown> => record(JSON.parse(text));
    const sentText = (): string => (engine.seen[before] ?? assert.fail(`nothing was asked: ${text}`)).body;
    return {
      status: response.status,
      text,
      leftOut: response.headers.get("x-berth-left-out"),
      get sent() {
        return record(JSON.parse(sentText()));
      },
      get sentText() {
        return sentText();
      },
      get answer() {
        assert.equal(response.status, 200, text);
        return parsed();
      },
      get refusal() {
        const { code, message, details } = record(parsed()["error"]);
        const place: unknown = details === undefined ? undefined : record(details)["path"];
        return [Array.isArray(place) ? place.join(".") : String(code), String(message)] as const;
      },
    };
  };
}
