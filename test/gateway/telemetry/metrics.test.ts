import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { startGateway, type TestGateway } from "../../support/gateway.ts";
import { metricProblems } from "../../support/metric-lint.ts";
import { json, scriptedEngine } from "../../support/scripted-engine.ts";
import { until } from "../../support/until.ts";

const chat = (model: string): object => ({ model, messages: [{ role: "user", content: "hi" }] });

/**
 * Our own families, sorted. Left out is what was measured in seconds (how often is not), and the states that a slot is
 * not in; whether a slot still serves depends on the time.
 */
async function page(gateway: TestGateway): Promise<string> {
  const text = await (await fetch(`${gateway.url}/metrics`)).text();
  return text
    .split("\n")
    .filter(
      (line) => /^(# (HELP|TYPE) )?berth_/.test(line) && !/_seconds_(bucket|sum)\{|^berth_slot_state.* 0$/.test(line),
    )
    .map((line) => line.replace('state="serving"', 'state="idle"'))
    .toSorted()
    .join("\n");
}

const slots = ["coder", "embed", "img", "primary", "stt", "tts"];

describe("the gateway's metric page", () => {
  it("passes Prometheus' linter", async () => {
    await using gateway = await startGateway();
    const text = await (await fetch(`${gateway.url}/metrics`)).text();
    assert.match(text, /^nodejs_active_resources\{/m);
    assert.deepEqual(metricProblems(text), []);
  });

  it("has exactly these families and values after a few requests", async () => {
    await using engine = await scriptedEngine((response, { body }) =>
      body.includes("refuse")
        ? json(response, { error: "no" }, 400)
        : json(response, { model: "engine-model", usage: { prompt_tokens: 7, completion_tokens: 3 } }),
    );
    await using gateway = await startGateway({ slots: { primary: { port: engine.port }, coder: { state: "error" } } });
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

  it("is the same at both addresses, with its content type", async () => {
    await using gateway = await startGateway();
    for (const path of ["/metrics", "/api/metrics"]) {
      const response = await fetch(`${gateway.url}${path}`);
      assert.equal(response.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
      assert.match(await response.text(), /^# HELP process_/);
    }
  });
});

const failures = [
  ["embed", "slot.disabled", "none", 1],
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
    ([slot, error, answer, count]) =>
      `berth_request_failures_total{slot="${slot}",error="${error}",answer="${answer}",reason="other"} ${count}`,
  )
  .toSorted();

const expected = `
# HELP berth_auth_refusals_total Requests that authentication has refused, by error code
# HELP berth_condition 1 for each present condition of a slot, model, upstream or group. A person must act on these with status True: Stalled, NameConflict, Degraded, ModelUnknown
# HELP berth_engine_kv_cache_usage_ratio Tokens in the cache of an engine by tokens that fit in it; engines that tell their /slots, as llama-server does
# HELP berth_gateway_drain_left_seconds While the gateway stops with open requests: the time until they are ended; else absent
# HELP berth_gateway_draining 1 while the gateway stops: it finishes open requests and accepts no new ones
# HELP berth_operator_live 1 while the operator's heartbeat arrives, 0 when it is late or has never arrived
# HELP berth_request_duration_seconds From the request's header to the end of its answer
# HELP berth_request_failures_total Requests that Berth refused or could not finish, by error code; answer begun: the client has a part of it; reason Lent, Paused or Unloaded: a person has taken the slot away, else other
# HELP berth_request_hold_seconds The part of a request's wait in which its slot was not loaded, with any outcome
# HELP berth_request_wait_seconds How long requests waited for a slot to load, in its queue, or for one of a provider's maxConcurrent, with any outcome
# HELP berth_requests_held Requests that wait for a slot to load
# HELP berth_requests_in_flight Requests that an engine works on
# HELP berth_requests_queued Requests in the queue of a loaded slot
# HELP berth_requests_total Requests by route, slot and HTTP status, of which the first digit is the class (code=~'5..'); 499: the client disconnected
# HELP berth_shared_stream_joins_total Requests that were answered by the stream of another, identical request
# HELP berth_shared_stream_readers Clients of streams that began on a cold slot and may be shared
# HELP berth_slot_state 1 for the present state of a slot
# HELP berth_time_between_tokens_seconds Streams: the time between two tokens of an answer, as they arrive from the engine
# HELP berth_time_to_first_byte_seconds From the request's header to the first byte of its answer
# HELP berth_time_to_first_token_seconds Streams: from the request's header to the first token of its answer, with the wait for the slot; start cold: the slot was not loaded, else warm
# HELP berth_tokens_total Tokens of prompts (in) and answers (out) as engines count them; a stream's events count as they arrive, and its end adds what the engine has counted beyond them
# HELP berth_upstream_circuit 1 for the present state of a provider's circuit
# HELP berth_upstream_models Refs that a provider serves
# HELP berth_upstream_models_paused Models that a provider keeps failing for, left alone for a while
# HELP berth_upstream_request_duration_seconds From sending a request to a provider to the end of its answer
# HELP berth_upstream_requests_in_flight Requests that a provider works on
# HELP berth_upstream_requests_queued Requests that wait because of maxConcurrent
# HELP berth_upstream_requests_total Requests to providers, every try on its own, by HTTP status or by why there was none
# HELP berth_upstream_retries_total Requests to providers that were sent again
# TYPE berth_auth_refusals_total counter
# TYPE berth_condition gauge
# TYPE berth_engine_kv_cache_usage_ratio gauge
# TYPE berth_gateway_drain_left_seconds gauge
# TYPE berth_gateway_draining gauge
# TYPE berth_operator_live gauge
# TYPE berth_request_duration_seconds histogram
# TYPE berth_request_failures_total counter
# TYPE berth_request_hold_seconds histogram
# TYPE berth_request_wait_seconds histogram
# TYPE berth_requests_held gauge
# TYPE berth_requests_in_flight gauge
# TYPE berth_requests_queued gauge
# TYPE berth_requests_total counter
# TYPE berth_shared_stream_joins_total counter
# TYPE berth_shared_stream_readers gauge
# TYPE berth_slot_state gauge
# TYPE berth_time_between_tokens_seconds histogram
# TYPE berth_time_to_first_byte_seconds histogram
# TYPE berth_time_to_first_token_seconds histogram
# TYPE berth_tokens_total counter
# TYPE berth_upstream_circuit gauge
# TYPE berth_upstream_models gauge
# TYPE berth_upstream_models_paused gauge
# TYPE berth_upstream_request_duration_seconds histogram
# TYPE berth_upstream_requests_in_flight gauge
# TYPE berth_upstream_requests_queued gauge
# TYPE berth_upstream_requests_total counter
# TYPE berth_upstream_retries_total counter
berth_auth_refusals_total{code="auth.forbidden"} 0
berth_auth_refusals_total{code="auth.invalid"} 0
berth_auth_refusals_total{code="auth.required"} 0
berth_auth_refusals_total{code="auth.throttled"} 0
berth_condition{kind="Slot",name="coder",type="Available",status="False",reason="Exited"} 1
berth_condition{kind="Slot",name="embed",type="Available",status="False",reason="ScaledToZero"} 1
berth_condition{kind="Slot",name="img",type="Available",status="False",reason="ScaledToZero"} 1
berth_condition{kind="Slot",name="primary",type="Available",status="True",reason="Loaded"} 1
berth_condition{kind="Slot",name="stt",type="Available",status="False",reason="ScaledToZero"} 1
berth_condition{kind="Slot",name="tts",type="Available",status="False",reason="ScaledToZero"} 1
berth_gateway_draining 0
berth_operator_live 1
berth_request_duration_seconds_count{route="/v1/chat/completions",slot="none"} 4
berth_request_duration_seconds_count{route="/v1/chat/completions",slot="primary"} 3
berth_request_duration_seconds_count{route="/v1/embeddings",slot="embed"} 1
${failures.join("\n")}
${["coder", "embed", "img", "none", "primary", "stt", "tts"].map((slot) => `berth_requests_held{slot="${slot}"} 0`).join("\n")}
${slots.map((slot) => `berth_requests_in_flight{slot="${slot}"} 0`).join("\n")}
${slots.map((slot) => `berth_requests_queued{slot="${slot}"} 0`).join("\n")}
berth_requests_total{route="/v1/chat/completions",slot="none",code="400"} 1
berth_requests_total{route="/v1/chat/completions",slot="none",code="404"} 3
berth_requests_total{route="/v1/chat/completions",slot="primary",code="200"} 2
berth_requests_total{route="/v1/chat/completions",slot="primary",code="400"} 1
berth_requests_total{route="/v1/embeddings",slot="embed",code="503"} 1
berth_shared_stream_readers 0
berth_slot_state{slot="coder",state="error"} 1
berth_slot_state{slot="embed",state="offline"} 1
berth_slot_state{slot="img",state="offline"} 1
berth_slot_state{slot="primary",state="idle"} 1
berth_slot_state{slot="stt",state="offline"} 1
berth_slot_state{slot="tts",state="offline"} 1
berth_time_to_first_byte_seconds_count{route="/v1/chat/completions",slot="primary"} 3
berth_tokens_total{slot="primary",direction="in"} 14
berth_tokens_total{slot="primary",direction="out"} 6
`;
