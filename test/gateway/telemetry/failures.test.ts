import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { sayHello, scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";

const chat = { model: "primary", messages: [{ role: "user", content: "hi" }] };
const quick = { gateway: { holdTimes: { firstCommentMs: 20, everyMs: 20 } } };

async function failures(gateway: TestGateway, error: string, labels: string): Promise<number | undefined> {
  return await gateway.metric(`berth_request_failures_total{slot="primary",error="${error}",${labels}}`);
}

describe("a failure is counted by its error code", () => {
  it("also where the client of a stream was told 200 while it waited", async () => {
    await using gateway = await startGateway({
      ...quick,
      slots: { primary: { state: "starting" } },
      env: { SVC_HOLD_SECONDS: "1" },
    });
    const response = await gateway.post("/v1/chat/completions", { ...chat, stream: true });
    assert.equal(response.status, 200);
    assert.match(await response.text(), /slot\.not_ready/);
    await until(
      "it is counted",
      async () => (await failures(gateway, "slot.not_ready", 'answer="none",reason="other"')) === 1,
    );
    const answered = 'berth_requests_total{route="/v1/chat/completions",slot="primary",code="200"}';
    assert.equal(await gateway.metric(answered), 1, "its HTTP status tells nothing");
  });

  it("with the reason of a slot that a person has taken away", async () => {
    const lentUntil = new Date(Date.now() + 60_000).toISOString();
    await using gateway = await startGateway({ slots: { primary: { status: { lentUntil } } } });
    assert.equal((await gateway.post("/v1/chat/completions", chat)).status, 503);
    await until(
      "it is counted",
      async () => (await failures(gateway, "slot.not_ready", 'answer="none",reason="Lent"')) === 1,
    );
  });
});

it("the first token of a stream that had to wait for its slot is counted apart", async () => {
  await using engine = await scriptedEngine(sayHello);
  await using gateway = await startGateway({ ...quick, slots: { primary: { state: "starting" } } });
  const asked = gateway.post("/v1/chat/completions", { ...chat, stream: true });
  await until("it is held", () => gateway.demand("primary")?.held === 1);
  await gateway.publish("primary", { port: engine.port });
  await (await asked).text();
  await (await gateway.post("/v1/chat/completions", { ...chat, stream: true })).text();
  const begun = async (start: string): Promise<number | undefined> =>
    await gateway.metric(
      `berth_time_to_first_token_seconds_count{route="/v1/chat/completions",slot="primary",start="${start}"}`,
    );
  await until("both are counted", async () => (await begun("warm")) === 1);
  assert.equal(await begun("cold"), 1);
});
