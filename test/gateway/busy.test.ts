import assert from "node:assert/strict";
import { IncomingMessage, type ServerResponse } from "node:http";
import { Socket } from "node:net";
import { describe, it } from "node:test";
import { ApiError } from "../../src/api/errors.ts";
import type { TokenRecord } from "../../src/api/token.ts";
import { Gate } from "../../src/gateway/auth/gate.ts";
import { HostGuard } from "../../src/gateway/http/hosts.ts";
import { envelopeOf } from "../support/envelope.ts";
import { startGateway, type TestGateway } from "../support/gateway.ts";
import { restOf } from "../support/held-stream.ts";
import { json, sayHello, scriptedEngine, type Seen } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";
import { startGateway as startWithTokens } from "./auth/gateway.ts";

const chat = (word: string): object => ({ model: "primary", messages: [{ role: "user", content: word }] });

/** An engine that answers only when it is told to. */
function onDemand(): { script: (response: ServerResponse, seen: Seen) => void; answerNext(): void; open(): number } {
  const open: [ServerResponse, Seen][] = [];
  return {
    script: (response, seen) => void open.push([response, seen]),
    answerNext() {
      const next = open.shift();
      if (next !== undefined) sayHello(...next);
    },
    open: () => open.length,
  };
}

const queued = (gateway: TestGateway): Promise<number | undefined> =>
  gateway.metric('berth_requests_queued{slot="primary"}');

describe("a slot that is busy", () => {
  it("queues requests beyond its limit, refuses requests beyond the queue, serves in order, and tells a stream its place", async () => {
    const script = onDemand();
    await using engine = await scriptedEngine(script.script);
    const spec = { concurrency: { max: 1, queue: 2 } };
    await using gateway = await startGateway({
      slots: { primary: { port: engine.port, spec } },
      gateway: { commentTimes: { firstMs: 30, everyMs: 30 } },
    });
    const first = gateway.post("/v1/chat/completions", chat("one"));
    await until("the first is inside", () => script.open() === 1);
    const second = await gateway.post("/v1/chat/completions", { ...chat("two"), stream: true });
    const reader = second.body?.pipeThrough(new TextDecoderStream()).getReader();
    const place = String((await reader?.read())?.value);
    assert.match(place, /^: waiting slot=primary state=queued position=1 waited=\d+s\n\n/);
    const third = gateway.post("/v1/chat/completions", chat("three"));
    await until("the third waits", async () => (await queued(gateway)) === 2);
    const refused = await gateway.post("/v1/chat/completions", { ...chat("four"), stream: true });
    assert.equal(refused.status, 429);
    assert.match(refused.headers.get("retry-after") ?? "", /^[1-9]\d*$/);
    const { error } = await envelopeOf(refused);
    assert.deepEqual([error.code, error.type], ["slot.overloaded", "rate_limit_error"]);
    assert.deepEqual(error.details, { slot: "primary", in_flight: 1, queued: 2 });
    for (let count = 0; count < 3; count += 1) {
      await until("one is inside", () => script.open() === 1);
      script.answerNext();
    }
    assert.deepEqual([(await first).status, (await third).status], [200, 200]);
    assert.match(await restOf(reader), /\[DONE\]\n\n$/);
    const waits = 'berth_request_wait_seconds_count{slot="primary"}';
    assert.equal(await gateway.metric(waits), 2, "who went in at once did not wait");
    assert.ok(((await gateway.metric('berth_request_wait_seconds_sum{slot="primary"}')) ?? 0) > 0);
    const order = engine.seen.map(({ body }) => /one|two|three/.exec(body)?.[0]);
    assert.deepEqual(order, ["one", "two", "three"]);
  });

  it("serves by its second process while the first is not loaded, and the other way round", async () => {
    const rank = { model: "primary", query: "q", documents: ["d"] };
    const answer = { results: [{ index: 0, relevance_score: 1 }] };
    await using engine = await scriptedEngine((response) => json(response, answer));
    await using gateway = await startGateway({
      slots: { primary: { state: "ready", rerankPort: engine.port } },
      env: { SVC_HOLD_SECONDS: "0" },
    });
    assert.equal((await gateway.post("/v1/rerank", rank)).status, 200);
    const embedded = await gateway.post("/v1/embeddings", { model: "primary", input: "x" });
    assert.equal((await envelopeOf(embedded)).error.code, "slot.not_ready");
    await gateway.publish("primary", { port: engine.port, spec: { model: { default: "a", rerank: "b" } } });
    const { error } = await envelopeOf(await gateway.post("/v1/rerank", rank));
    assert.deepEqual([error.code, error.details?.["role"]], ["slot.not_ready", "rerank"]);
  });
});

type Headers = Readonly<Record<string, string>>;

/** The client, for whose requests others wait no longer than for their own, as a gateway knows it. */
function clientOf(isEnabled: boolean, headers: Headers, peer = "127.0.0.1"): string {
  // All have the same label and scope: only the token itself tells its holder from others.
  const record = { schema: 1, label: "agent", scope: "v1-only", created_at: "2026-01-01T00:00:00.000Z" } as const;
  const verify = ({ id }: { readonly id: string }): TokenRecord => ({ ...record, id, sha256: "0".repeat(64) });
  const gate = new Gate({ guard: new HostGuard([]), isEnabled, verify, trustedProxies: ["127.0.0.1/32"] });
  const socket = new Socket();
  Object.defineProperty(socket, "remoteAddress", { value: peer });
  const request = new IncomingMessage(socket);
  Object.assign(request.headers, headers);
  const principal = gate.principalOf(request);
  if (principal instanceof ApiError) throw principal;
  return principal.client;
}

it("a client is a token, a user of the proxy, or an address without authentication, whatever it calls itself", () => {
  const token = (id: string): Headers => ({ authorization: `Bearer svc_${id}.${"s".repeat(43)}` });
  const user = (name: string): Headers => ({ "x-forwarded-email": name });
  const mine = token("aaaa2222");
  for (const [isSame, isEnabled, one, other, peer] of [
    [false, true, mine, token("bbbb2222")],
    [false, true, user("ada@example.org"), user("bob@example.org")],
    [false, true, mine, user("agent")],
    [false, false, {}, {}, "127.0.0.2"],
    [true, true, mine, mine, "127.0.0.2"],
    [true, true, user("ada@example.org"), user("ada@example.org")],
    [true, false, {}, { ...mine, ...user("made@up"), "x-forwarded-for": "1.2.3.4" }],
  ] as const)
    assert.equal(
      clientOf(isEnabled, one) === clientOf(isEnabled, other, peer),
      isSame,
      JSON.stringify([one, other, peer]),
    );
});

it("a slot that is busy with the requests of one token gives another token the next turn but one, and the last place of a full queue", async () => {
  const inside: [word: string, response: ServerResponse][] = [];
  await using engine = await scriptedEngine(
    (response, { body }) => void inside.push([/"content":"(\w+)"/.exec(body)?.[1] ?? "", response]),
  );
  const spec = { concurrency: { max: 1, queue: 3 } };
  await using gateway = await startWithTokens({ SVC_AUTH_ENABLED: "1" }, { primary: { port: engine.port, spec } });
  const [many, few] = [await gateway.token("v1-only"), await gateway.token("all")];
  const refused: string[] = [];
  const sent: Promise<void>[] = [];
  const queued = async (): Promise<number> => (await gateway.metric('berth_requests_queued{slot="primary"}')) ?? 0;
  for (const [token, word] of [...["first", "many1", "many2", "many3"].map((each) => [many, each]), [few, "few"]]) {
    const headers = { "content-type": "application/json", authorization: `Bearer ${token}` };
    const body = { model: "primary", messages: [{ role: "user", content: word }] };
    const answered = gateway.post("/v1/chat/completions", body, { headers });
    sent.push(answered.then(({ status }) => void (status === 200 || refused.push(`${word} ${status}`))));
    await until(`${word} waits`, async () => inside.length + (await queued()) + refused.length === sent.length);
  }
  const words: string[] = [];
  for (let left = sent.length - refused.length; left > 0; left--) {
    const [word, response] = await until("one is inside", () => inside.shift());
    words.push(word);
    json(response, { choices: [] });
  }
  await Promise.all(sent);
  assert.deepEqual([words, refused], [["first", "many1", "few", "many2"], ["many3 429"]]);
});
