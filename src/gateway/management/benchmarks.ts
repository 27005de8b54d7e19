import { randomUUID } from "node:crypto";
import { ApiError } from "../../api/errors.ts";
import type { BenchmarkBody } from "../../api/management/benchmark-view.ts";
import type { SlotDetail } from "../../api/management/views.ts";
import { invalidRequest } from "../../api/problems.ts";
import { loadSecondsOf } from "./benchmark-views.ts";
import { slotNamed, viewOf, type ManagementContext } from "./context.ts";
import { slotDetail } from "./views.ts";

/** Asks the operator to keep the result. Throws ApiError where the measured engine does not run any more. */
export async function keepBenchmark(
  context: ManagementContext,
  name: string,
  { model, max_tokens: maxTokens, levels }: BenchmarkBody,
): Promise<SlotDetail> {
  const slot = slotNamed(context, name);
  const { status, spec, published } = slot;
  if (status === undefined || status.processes.length === 0) {
    throw new ApiError("slot.not_ready", {
      status: 409,
      message: `slot ${name} is not loaded: a result belongs to the engine that was measured`,
      details: { slot: name, state: context.traffic.stateOf(slot), reason: published?.plan.reason ?? "NotPublished" },
    });
  }
  const { ref } = status.model;
  if (typeof model === "string" && model !== ref)
    throw invalidRequest([{ path: ["model"], message: `is not what the slot holds, which is ${ref ?? "no model"}` }]);
  const loadSeconds = loadSecondsOf(status.lastLoad);
  const now = new Date().toISOString();
  await context.requests.put({
    schema: 1,
    slot: name,
    kind: "benchmark",
    token: randomUUID(),
    specHash: published?.specHash ?? "",
    requestedAt: now,
    benchmark: {
      measuredAt: now,
      ...(ref === undefined ? {} : { model: ref }),
      backend: status.backend ?? spec.backend,
      runtime: status.runtime ?? spec.runtime,
      ...(loadSeconds === null ? {} : { loadSeconds }),
      maxTokens,
      levels: levels.map(({ clients, requests, tokens_per_second: tokensPerSecond, ...level }) => ({
        clients,
        requests,
        ...(level.first_token_ms === null ? {} : { firstTokenMs: level.first_token_ms }),
        ...(level.slowest_first_token_ms === null ? {} : { slowestFirstTokenMs: level.slowest_first_token_ms }),
        ...(level.tokens_per_second_each === null ? {} : { tokensPerSecondEach: level.tokens_per_second_each }),
        tokensPerSecond,
      })),
    },
  });
  return slotDetail(slot, viewOf(context));
}
