import assert from "node:assert/strict";
import { request as httpRequest, type ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { json, scriptedEngine } from "../support/scripted-engine.ts";
import { until } from "../support/until.ts";
import { startGateway, type TestGateway } from "./auth/gateway.ts";

type Headers = Readonly<Record<string, string>>;

/** How a client shows who it is. */
interface Client {
  readonly headers?: Headers;
  /** Its own address. */
  readonly address?: string;
}

/** Two clients, of which the first has many requests. */
type Clients = (gateway: TestGateway) => Promise<readonly [many: Client, few: Client]>;

const many = 3;
const withAuth = { SVC_AUTH_ENABLED: "1" };

async function newToken(gateway: TestGateway): Promise<Client> {
  // The same label and scope each time: only the token itself tells its holder from others.
  const { token } = await gateway.tokens.create({ label: "agent", scope: "v1-only" });
  return { headers: { authorization: `Bearer ${token}` } };
}

/** A chat request that says `word`, sent as that client; gives the answer's status. */
async function say(gateway: TestGateway, { headers = {}, address = "127.0.0.1" }: Client, word: string) {
  return await new Promise<number>((resolve, reject) => {
    const options = { host: "127.0.0.1", localAddress: address, port: gateway.port, agent: false } as const;
    const path = "/v1/chat/completions";
    const request = httpRequest({ ...options, method: "POST", path, headers: { ...headers } }, (response) => {
      response.resume().once("end", () => resolve(response.statusCode ?? 0));
      response.once("error", reject);
    });
    request.once("error", reject);
    request.setHeader("content-type", "application/json");
    request.end(JSON.stringify({ model: "primary", messages: [{ role: "user", content: word }] }));
  });
}

/**
 * The words in the order in which a slot that takes one at a time answers them: `first` is with it when one client
 * sends `many` and then the other sends `few`.
 */
async function order(env: Headers, clients: Clients, queue = 64): Promise<{ words: string[]; refused: string[] }> {
  const inside: [word: string, response: ServerResponse][] = [];
  await using engine = await scriptedEngine(
    (response, { body }) => void inside.push([/"content":"(\w+)"/.exec(body)?.[1] ?? "", response]),
  );
  const spec = { concurrency: { max: 1, queue } };
  await using gateway = await startGateway(env, { primary: { port: engine.port, spec } });
  const [one, other] = await clients(gateway);
  const refused: string[] = [];
  const sent: Promise<void>[] = [];
  const queued = (): Promise<number | undefined> => gateway.metric('berth_requests_queued{slot="primary"}');
  const send = async (client: Client, word: string): Promise<void> => {
    sent.push(say(gateway, client, word).then((status) => void (status === 200 || refused.push(`${word} ${status}`))));
    await until(`${word} waits`, async () => inside.length + ((await queued()) ?? 0) + refused.length === sent.length);
  };
  await send(one, "first");
  for (let nth = 1; nth <= many; nth++) await send(one, `many${nth}`);
  await send(other, "few");
  const words: string[] = [];
  for (let left = sent.length - refused.length; left > 0; left--) {
    const [word, response] = await until("one is inside", () => inside.shift());
    words.push(word);
    json(response, { choices: [] });
  }
  await Promise.all(sent);
  return { words, refused };
}

const ada = { headers: { "x-forwarded-email": "ada@example.org" } };
const bob = { headers: { "x-forwarded-email": "bob@example.org" } };
const twoTokens: Clients = async (gateway) => [await newToken(gateway), await newToken(gateway)];
const posing = { authorization: "Bearer svc_made.up", "x-forwarded-email": "made@up", "x-forwarded-for": "1.2.3.4" };

describe("a slot that is busy with the many requests of a single client", { concurrency: true }, () => {
  const turns = ["first", "many1", "few", "many2", "many3"];
  const inOrder = ["first", "many1", "many2", "many3", "few"];
  const rows: readonly (readonly [what: string, words: readonly string[], env: Headers, clients: Clients])[] = [
    ["gives the next turn but one to another token", turns, withAuth, twoTokens],
    ["gives it to another user of the proxy", turns, withAuth, async () => [ada, bob]],
    [
      "gives it to a user of the proxy who is called as a token is",
      turns,
      withAuth,
      async (gateway) => [await newToken(gateway), { headers: { "x-forwarded-email": "agent" } }],
    ],
    ["gives it to another address, without authentication", turns, {}, async () => [{}, { address: "127.0.0.2" }]],
    [
      "takes requests in their order for one token, from wherever it is used",
      inOrder,
      withAuth,
      async (gateway) => {
        const token = await newToken(gateway);
        return [token, { ...token, address: "127.0.0.2" }];
      },
    ],
    [
      "takes them in their order for one address without authentication, whatever it calls itself",
      inOrder,
      {},
      async () => [{}, { headers: posing }],
    ],
  ];
  for (const [what, words, env, clients] of rows)
    it(what, async () => assert.deepEqual(await order(env, clients), { words, refused: [] }));

  it("gives the last place of a full queue to another token", async () => {
    const { words, refused } = await order(withAuth, twoTokens, many);
    assert.deepEqual(words, ["first", "many1", "few", "many2"]);
    assert.deepEqual(refused, ["many3 429"]);
  });
});
