import assert from "node:assert/strict";
import type { ApiError } from "../../../src/api/errors.ts";
import { upstreamSpecSchema, type UpstreamSpec } from "../../../src/api/upstream.ts";
import { BufferBudget } from "../../../src/gateway/slots/budget.ts";
import type { ProviderCall } from "../../../src/gateway/providers/provider-call.ts";
import type { ProviderOptions, ProviderRequest } from "../../../src/gateway/providers/provider-options.ts";
import { Provider } from "../../../src/gateway/providers/provider.ts";
import type { ResponseHead } from "../../../src/lib/exchange.ts";
import { startProvider, type Fault, type ProviderDouble } from "../../doubles/provider.ts";

export const secretKey = "sk-live-0123456789abcdef";

export function specOf(spec: object): UpstreamSpec {
  return upstreamSpecSchema.parse({ models: [{ ref: "gpt-double" }], ...spec });
}

export interface OpenProvider extends AsyncDisposable {
  readonly provider: Provider;
  readonly outcomes: string[];
  readonly problems: string[];
  readonly clock: { ms: number };
  readonly budget: BufferBudget;
}

/**
 * A provider with a key in its environment, quick retries and a clock that a test moves. Its `timeoutSeconds` may be a
 * part of a second.
 */
export function openProvider(
  { timeoutSeconds, ...spec }: { readonly timeoutSeconds?: number; readonly [field: string]: unknown },
  options: Partial<ProviderOptions> = {},
): OpenProvider {
  const outcomes: string[] = [];
  const problems: string[] = [];
  const clock = { ms: 0 };
  const budget = new BufferBudget(3_000_000);
  const provider = new Provider({
    name: "acme",
    spec: { ...specOf(spec), ...(timeoutSeconds !== undefined && { timeoutSeconds }) },
    env: { ACME_KEY: secretKey },
    budget,
    now: () => clock.ms,
    onOutcome: (outcome) => outcomes.push(outcome),
    onRetry: () => outcomes.push("retry"),
    onProblem: (problem) => problems.push(problem),
    backoffMs: 1,
    ...options,
  });
  return { provider, outcomes, problems, clock, budget, [Symbol.asyncDispose]: () => provider[Symbol.asyncDispose]() };
}

export interface Site extends OpenProvider {
  readonly double: ProviderDouble;
  ask(request?: Partial<ProviderRequest>): Ask;
}

/** An open provider whose requests go to a double. */
export async function site(
  spec: Parameters<typeof openProvider>[0] = {},
  { double: behind, ...options }: Partial<ProviderOptions> & { double?: Parameters<typeof startProvider>[0] } = {},
): Promise<Site> {
  await using stack = new AsyncDisposableStack();
  const double = stack.use(await startProvider(behind));
  const open = stack.use(openProvider({ baseUrl: double.baseUrl, ...spec }, options));
  const owned = stack.move();
  return {
    ...open,
    double,
    ask: (request) => ask(open.provider, request),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** An answer of the double. */
export function status(code: number, headers: Record<string, string> = {}, body = "{}"): Fault {
  return { kind: "answer", status: code, headers, body };
}

export function times(count: number, fault: Fault): Fault[] {
  return Array.from({ length: count }, () => fault);
}

export const bearer = { auth: { type: "bearer", valueFrom: { env: "ACME_KEY" } } };

/** A request under way, with everything that has come of it. */
export interface Ask {
  readonly exchange: ProviderCall;
  readonly chunks: Buffer[];
  head: ResponseHead | undefined;
  failure: ApiError | undefined;
  /** How often it has ended: once is right. */
  ends: number;
  readonly ended: Promise<void>;
}

export function ask(provider: Provider, request: Partial<ProviderRequest> = {}): Ask {
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  const events = {
    onHead: (head: ResponseHead) => {
      assert.equal(found.head, undefined, "an answer begins once");
      found.head = head;
    },
    onData: (chunk: Buffer) => void found.chunks.push(chunk),
    onEnd: () => {
      found.ends += 1;
      resolve();
    },
    onError: (failure: ApiError) => {
      found.ends += 1;
      found.failure = failure;
      resolve();
    },
  };
  const exchange = provider.request(
    {
      model: "gpt-double",
      method: "POST",
      path: "/v1/chat/completions",
      body: [Buffer.from('{"model":"gpt-double","messages":[]}')],
      contentType: "application/json",
      accept: "application/json",
      requestId: "request-1",
      ...request,
    },
    events,
  );
  const found: Ask = { exchange, chunks: [], head: undefined, failure: undefined, ends: 0, ended };
  return found;
}

export function textOf({ chunks }: Ask): string {
  return Buffer.concat(chunks).toString();
}

/** The failure of a request that fails. */
export async function failureOf(asked: Ask): Promise<ApiError> {
  await asked.ended;
  assert.equal(asked.ends, 1);
  assert.equal(asked.head, undefined, "nothing was passed on");
  if (asked.failure === undefined) return assert.fail("it did not fail");
  return asked.failure;
}

/** The whole answer of a request that succeeds. */
export async function answerOf(asked: Ask): Promise<string> {
  await asked.ended;
  assert.equal(asked.failure, undefined);
  assert.equal(asked.ends, 1);
  return textOf(asked);
}
