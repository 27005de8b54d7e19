import { ApiError } from "../../api/errors.ts";
import type { ProviderRoute } from "../routing/route-request.ts";
import type { BufferBudget } from "../slots/budget.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import type { Upstreams } from "../providers/upstreams.ts";
import { BackendAnswer } from "./backend-answer.ts";
import type { Call } from "./call.ts";
import { relay } from "./relay.ts";

interface ProviderAnswerOptions {
  readonly upstreams: Upstreams;
  readonly budget: BufferBudget;
  readonly metrics: Pick<GatewayMetrics, "ofSlot" | "waited">;
}

/** Sends the request to a provider and relays the answer. The provider handles the wait for a place and retries. */
export async function answerFromProvider(
  call: Call,
  route: ProviderRoute,
  { upstreams, budget, metrics }: ProviderAnswerOptions,
): Promise<void> {
  const { backendRequest, model } = route;
  const provider = upstreams.get(model.upstream);
  if (provider === undefined) throw new ApiError("dispatch.upstream_unavailable", { message: "the upstream is gone" });
  const { method, path, accept, contentType, body, served } = backendRequest;
  // The provider counts the kept bytes of a complete body.
  if (Array.isArray(body)) call.bodyDone(false);
  using answer = new BackendAnswer({ to: call, served, slotMetrics: metrics.ofSlot(call.slot) });
  const exchange = provider.request(
    {
      method,
      path,
      accept,
      ...(contentType === undefined ? {} : { contentType }),
      body,
      model: model.providerModel,
      requestId: call.requestId,
      trace: call.trace,
      client: call.principal.client,
      answer: call.answer,
      onWaited: (waitMs) => {
        metrics.waited(call.slot, { waitMs, holdMs: 0 });
        call.noteWait(waitMs, 0);
      },
    },
    answer,
  );
  answer.start(exchange, () => exchange.attempt);
  using _ = call.hold(() => (exchange.isWaiting ? exchange.place : undefined));
  await answer.head;
  call.bodyDone(answer.exchange?.isSent === true);
  route.request.drop?.();
  backendRequest.drop?.();
  await relay(answer, route, call.answer, budget);
}
