import assert from "node:assert/strict";
import { createServer, IncomingMessage, request as httpRequest } from "node:http";
import { Socket } from "node:net";
import { describe, it } from "node:test";
import { ApiError } from "../../../src/api/errors.ts";
import { BufferBudget, Charge } from "../../../src/gateway/slots/budget.ts";
import { readRequestBody } from "../../../src/gateway/http/body.ts";
import { listen } from "../../support/listen.ts";
import { until } from "../../support/until.ts";
import { later } from "../../support/later.ts";

/** Reads one body on a server of its own while `send` plays the client. */
async function read(
  send: (client: ReturnType<typeof httpRequest>) => void,
  limits: {
    limitBytes?: number;
    idleMs?: number;
    budget?: BufferBudget;
    /** Looks at the request once its body is there or refused. */
    after?: (request: IncomingMessage) => Promise<void>;
  } = {},
): Promise<Buffer> {
  const { limitBytes = 1000, idleMs, budget = new BufferBudget(1000), after } = limits;
  const charge = new Charge(budget);
  const server = createServer();
  const port = await listen(server);
  const asked = new Promise<IncomingMessage>((resolve) => server.once("request", resolve));
  const client = httpRequest({ host: "127.0.0.1", port, method: "POST" });
  client.on("error", () => undefined);
  send(client);
  try {
    const body = await readRequestBody(await asked, { bodyBytes: limitBytes, charge }, idleMs);
    if (budget.usedBytes > 0) assert.equal(budget.usedBytes, body.length);
    charge.end();
    return body;
  } finally {
    await after?.(await asked);
    assert.equal(budget.usedBytes, 0);
    client.destroy();
    server.closeAllConnections();
    server.close();
  }
}

const refusal = (code: string, status: number) => (error: unknown) =>
  error instanceof ApiError && error.code === code && error.status === status;

describe("readRequestBody", () => {
  it("gives the whole body, in however many pieces it comes, and counts it from its first piece until it is let go", async () => {
    const budget = new BufferBudget(1000);
    const body = await read(
      (client) => {
        client.write("one ");
        void until("it is counted", () => budget.usedBytes === 4).then(() => client.end("two"));
      },
      { budget },
    );
    assert.equal(body.toString(), "one two");
  });

  it("refuses no small body that arrives in one piece, and counts it", async () => {
    const body = await read((client) => void client.end("hello"), { budget: new BufferBudget(0) });
    assert.equal(body.toString(), "hello");
  });

  const refused: readonly (readonly [
    what: string,
    send: Parameters<typeof read>[0],
    limits: Parameters<typeof read>[1],
    code: string,
    status: number,
  ])[] = [
    [
      "that grows beyond the limit",
      (client) => void client.end("x".repeat(20)),
      { limitBytes: 10 },
      "dispatch.payload_too_large",
      413,
    ],
    ["whose sender stops", (client) => void client.write("half"), { idleMs: 20 }, "dispatch.invalid_request", 408],
    [
      "where too much has come of all",
      (client) => void client.write("x".repeat(20)),
      { budget: new BufferBudget(10) },
      "system.overloaded",
      503,
    ],
    [
      "whose sender leaves",
      (client) => void client.write("half", () => setImmediate(() => client.destroy())),
      {},
      "dispatch.invalid_request",
      400,
    ],
  ];
  for (const [what, send, limits, code, status] of refused)
    it(`refuses a body ${what}: ${status} ${code}`, () => assert.rejects(read(send, limits), refusal(code, status)));

  it("reads no more of a body after it was refused", async () => {
    let client: ReturnType<typeof httpRequest> | undefined;
    const body = read((each) => void (client = each).write("half"), {
      idleMs: 20,
      after: async (request) => {
        const seen = new Promise((resolve) => request.on("data", resolve));
        client?.write("more");
        await seen;
      },
    });
    await assert.rejects(body, refusal("dispatch.invalid_request", 408));
  });

  it("frees the counted bytes where the sender leaves with its last byte", async () => {
    const budget = new BufferBudget(1000);
    const request = new IncomingMessage(new Socket());
    const body = later(readRequestBody(request, { bodyBytes: 1000, charge: new Charge(budget) }));
    request.push(Buffer.from("all"));
    await until("it is counted", () => budget.usedBytes === 3);
    request.complete = true;
    request.destroy();
    await assert.rejects(body, refusal("dispatch.invalid_request", 400));
    assert.equal(budget.usedBytes, 0);
  });
});
