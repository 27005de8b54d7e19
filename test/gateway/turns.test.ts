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

const many = 12;
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

const numbered = Array.from({ length: many }, (_, nth) => `many${nth + 1}`);

describe("a slot that is busy with the many requests of a single client", { concurrency: true }, () => {
  const others: readonly (readonly [what: string, env: Headers, clients: Clients])[] = [
    ["another token", withAuth, async (gateway) => [await newToken(gateway), await newToken(gateway)]],
    [
      "another user of the proxy",
      withAuth,
      async () => [
        { headers: { "x-forwarded-email": "ada@example.org" } },
        { headers: { "x-forwarded-email": "bob@example.org" } },
      ],
    ],
    [
      "a user of the proxy who is called as a token is",
      withAuth,
      async (gateway) => [await newToken(gateway), { headers: { "x-forwarded-email": "agent" } }],
    ],
    ["another address, without authentication", {}, async () => [{}, { address: "127.0.0.2" }]],
  ];
  for (const [what, env, clients] of others) {
    it(`gives the next turn but one to ${what}`, async () => {
      const [next = "", ...rest] = numbered;
      assert.deepEqual((await order(env, clients)).words, ["first", next, "few", ...rest]);
    });
  }

  const same: readonly (readonly [what: string, env: Headers, clients: Clients])[] = [
    [
      "one token, from wherever it is used",
      withAuth,
      async (gateway) => {
        const token = await newToken(gateway);
        return [token, { ...token, address: "127.0.0.2" }];
      },
    ],
    [
      "one address without authentication, whatever it calls itself",
      {},
      async () => [
        {},
        {
          headers: {
            authorization: "Bearer svc_made.up",
            "x-forwarded-email": "made@up",
            "x-forwarded-for": "1.2.3.4",
          },
        },
      ],
    ],
  ];
  for (const [what, env, clients] of same) {
    it(`takes requests in their order for ${what}`, async () => {
      assert.deepEqual((await order(env, clients)).words, ["first", ...numbered, "few"]);
    });
  }

  it("gives the last place of a full queue to another token", async () => {
    const clients: Clients = async (gateway) => [await newToken(gateway), await newToken(gateway)];
    const { words, refused } = await order(withAuth, clients, many);
    const [next = "", ...rest] = numbered.slice(0, -1);
    assert.deepEqual(words, ["first", next, "few", ...rest]);
    assert.deepEqual(refused, [`many${many} 429`]);
  });
});
