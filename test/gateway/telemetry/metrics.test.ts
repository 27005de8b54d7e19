import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { gatewayMetrics, upstreamMetrics } from "../../../src/api/metrics/gateway.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { metricProblems } from "../../support/metric-lint.ts";
import { json, scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";

const chat = (model: string): object => ({ model, messages: [{ role: "user", content: "hi" }] });

/**
 * The samples of our own families, sorted. Left out is what was measured in seconds (how often is not), and the states
 * that a slot is not in; whether a slot still serves depends on the time.
 */
async function page(gateway: TestGateway): Promise<string> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  return text
    .split("\n")
    .filter((line) => line.startsWith("berth_") && !/_seconds_(bucket|sum)\{|^berth_slot_state.* 0$/.test(line))
    .map((line) => line.replace('state="serving"', 'state="idle"'))
    .toSorted()
    .join("\n");
}

const slots = ["coder", "embed", "img", "lent", "primary", "stt", "tts"];

describe("the gateway's metric page", () => {
  it("has each documented family, passes Prometheus' linter, and is the same at both addresses", async () => {
    await using gateway = await startGateway();
    // Engine pages are off.
    const documented = [...Object.values(gatewayMetrics), ...Object.values(upstreamMetrics)].filter(
      ({ name }) => !name.startsWith("berth_engine_page_"),
    );
    for (const path of ["/metrics", "/api/metrics"]) {
      const response = await fetch(`${gateway.url}${path}`);
      assert.equal(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
      const text = await response.text();
      assert.match(text, /^# HELP process_/);
      assert.match(text, /^nodejs_active_resources\{/m);
      assert.deepEqual(metricProblems(text), []);
      const families = [...text.matchAll(/^# TYPE (berth_.*)$/gm)].map(([, family = ""]) => family);
      assert.deepEqual(families.toSorted(), documented.map(({ name, type }) => `${name} ${type}`).toSorted());
    }
  });

  it("has exactly these values after a few requests", async () => {
    await using engine = await scriptedEngine((response, { body }) =>
      body.includes("refuse")
        ? json(response, { error: "no" }, 400)
        : json(response, { model: "engine-model", usage: { prompt_tokens: 7, completion_tokens: 3 } }),
    );
    const lentUntil = new Date(Date.now() + 600_000).toISOString();
    const slots = {
      primary: { port: engine.port },
      coder: { state: "error" },
      lent: { status: { lentUntil } },
    } as const;
    await using gateway = await startGateway({ slots });
    await (await gateway.post("/v1/chat/completions", chat("lent"))).text();
    for (const model of ["primary", "test-model", "nobody", "somebody", "x".repeat(500)])
      await (await gateway.post("/v1/chat/completions", chat(model))).text();
    await (await gateway.post("/v1/chat/completions", { ...chat("primary"), user: "refuse" })).text();
    await (await gateway.post("/v1/embeddings", { model: "embed", input: "x" })).text();
    await (await gateway.post("/v1/chat/completions", "{")).text();
    await (await gateway.post("/nowhere", "{")).text();
    await until("all are counted", async () => {
      const text = await page(gateway);
      return text.includes('code="503"} 1') && text.includes('slot="none",code="400"} 1');
    });
    assert.equal(await page(gateway), expected.trim());
  });

  it("keeps its size, whatever clients ask for", async () => {
    await using gateway = await startGateway({ env: { SVC_HOLD_SECONDS: "0" } });
    const ask = async (nth: number): Promise<void> => {
      for (const path of ["/v1/chat/completions", `/v1/nothing-${nth}`, `/v1/models/model-${nth}`]) {
        await (await gateway.post(path, chat(`model-${nth}`))).text();
        await (await gateway.post(path, chat(`primary:model-${nth}`))).text();
      }
    };
    const lines = async (): Promise<number> => (await page(gateway)).split("\n").length;
    await ask(0);
    await until("they are counted", async () => (await page(gateway)).includes('slot="none",code="404"} 2'));
    const before = await lines();
    for (let nth = 1; nth < 30; nth += 1) await ask(nth);
    await until("they are counted", async () => (await page(gateway)).includes('slot="none",code="404"} 60'));
    assert.equal(await lines(), before);
  });
});

const failures = [
  ["embed", "slot.disabled", "none", 1],
  ["lent", "slot.not_ready", "none", 1, "Lent"],
  ["none", "dispatch.invalid_request", "none", 1],
  ["none", "model.not_found", "none", 3],
  ["primary", "dispatch.rejected", "none", 1],
  ...slots.flatMap((slot) => [
    [slot, "dispatch.upstream_failed", "begun", 0],
    [slot, "dispatch.upstream_timeout", "begun", 0],
    [slot, "slot.overloaded", "none", 0],
  ]),
]
  .map(
    ([slot, error, answer, count, reason = "other"]) =>
      `berth_request_failures_total{slot="${slot}",error="${error}",answer="${answer}",reason="${reason}"} ${count}`,
  )
  .toSorted();

const expected = `
berth_auth_refusals_total{code="auth.forbidden"} 0
berth_auth_refusals_total{code="auth.invalid"} 0
berth_auth_refusals_total{code="auth.required"} 0
berth_auth_refusals_total{code="auth.throttled"} 0
berth_condition{kind="Slot",name="coder",type="Available",status="False",reason="Exited"} 1
berth_condition{kind="Slot",name="embed",type="Available",status="False",reason="ScaledToZero"} 1
berth_condition{kind="Slot",name="img",type="Available",status="False",reason="ScaledToZero"} 1
berth_condition{kind="Slot",name="lent",type="Available",status="False",reason="ScaledToZero"} 1
berth_condition{kind="Slot",name="primary",type="Available",status="True",reason="Loaded"} 1
berth_condition{kind="Slot",name="stt",type="Available",status="False",reason="ScaledToZero"} 1
berth_condition{kind="Slot",name="tts",type="Available",status="False",reason="ScaledToZero"} 1
berth_gateway_draining 0
berth_operator_live 1
berth_request_duration_seconds_count{route="/v1/chat/completions",slot="lent"} 1
berth_request_duration_seconds_count{route="/v1/chat/completions",slot="none"} 4
berth_request_duration_seconds_count{route="/v1/chat/completions",slot="primary"} 3
berth_request_duration_seconds_count{route="/v1/embeddings",slot="embed"} 1
${failures.join("\n")}
${[...slots, "none"]
  .toSorted()
  .map((slot) => `berth_requests_held{slot="${slot}"} 0`)
  .join("\n")}
${slots.map((slot) => `berth_requests_in_flight{slot="${slot}"} 0`).join("\n")}
${slots.map((slot) => `berth_requests_queued{slot="${slot}"} 0`).join("\n")}
berth_requests_total{route="/v1/chat/completions",slot="lent",code="503"} 1
berth_requests_total{route="/v1/chat/completions",slot="none",code="400"} 1
berth_requests_total{route="/v1/chat/completions",slot="none",code="404"} 3
berth_requests_total{route="/v1/chat/completions",slot="primary",code="200"} 2
berth_requests_total{route="/v1/chat/completions",slot="primary",code="400"} 1
berth_requests_total{route="/v1/embeddings",slot="embed",code="503"} 1
berth_shared_stream_readers 0
berth_slot_state{slot="coder",state="error"} 1
berth_slot_state{slot="embed",state="offline"} 1
berth_slot_state{slot="img",state="offline"} 1
berth_slot_state{slot="lent",state="offline"} 1
berth_slot_state{slot="primary",state="idle"} 1
berth_slot_state{slot="stt",state="offline"} 1
berth_slot_state{slot="tts",state="offline"} 1
berth_time_to_first_byte_seconds_count{route="/v1/chat/completions",slot="primary"} 3
berth_tokens_total{slot="primary",direction="in"} 14
berth_tokens_total{slot="primary",direction="out"} 6
`;
