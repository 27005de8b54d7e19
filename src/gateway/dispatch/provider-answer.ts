import type { BufferBudget } from "../slots/budget.ts";
import type { Sender } from "../relay/relay-options.ts";
import type { GatewayMetrics } from "../telemetry/metrics.ts";
import { countTokens, TokenTimes } from "./token-times.ts";
import { Relay } from "../relay/relay.ts";
import { ModelRename } from "../relay/rename.ts";
import type { ProviderRoute } from "../routing/route-request.ts";
import type { Provider } from "../providers/provider.ts";
import type { Call } from "./call.ts";

const nothing = (): void => undefined;

/** Sends the request to a provider and relays the answer. The provider handles the wait for a place and retries. */
export function answerFromProvider(
  call: Call,
  route: ProviderRoute,
  provider: Provider,
  { budget, metrics }: { readonly budget: BufferBudget; readonly metrics: Pick<GatewayMetrics, "ofSlot" | "waited"> },
): void {
  const { request, backendRequest, model } = route;
  const { method, path, accept, contentType, body, format, served } = backendRequest;
  // The provider counts the kept bytes of a complete body.
  if (Array.isArray(body)) call.onBodyDone(false);
  let tokens: TokenTimes | undefined;
  const sender: Sender = {
    onFirstByte: () => call.onFirstByte(),
    onBodyDone: (isUnused) => call.onBodyDone(isUnused),
    onByte: nothing,
    onTokens: (count) => {
      if (tokens === undefined) call.onFirstToken();
      tokens ??= new TokenTimes(metrics.ofSlot(call.slot));
      tokens.arrived(count);
    },
    onFailed: () => false,
    onSettled: (usage) => {
      const counts = { tokensIn: usage?.input, tokensOut: usage?.output ?? tokens?.count };
      countTokens(metrics.ofSlot(call.slot), counts, tokens?.count);
      const { attempt } = exchange;
      if (attempt !== undefined) call.onEngineDone({ ...attempt, model: served, ...counts });
      call.onSettled();
    },
  };
  const rename = new ModelRename(served, request.model);
  const relay = new Relay({
    sender,
    sink: call.answer,
    rename,
    format,
    body: undefined,
    isStream: request.isStream,
    budget,
  });
  call.work = { abandon: () => relay.abort() };
  const { requestId, principal } = call;
  const exchange = provider.request(
    {
      method,
      path,
      accept,
      ...(contentType === undefined ? {} : { contentType }),
      body,
      model: model.providerModel,
      requestId,
      trace: call.trace,
      client: principal.client,
      answer: call.answer,
      onWaited: (waitMs) => {
        metrics.waited(call.slot, { waitMs, holdMs: 0 });
        call.onWaited(waitMs, 0);
      },
    },
    relay,
  );
  relay.start(exchange);
  call.holdFor(exchange);
}
