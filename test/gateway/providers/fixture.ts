import assert from "node:assert/strict";
import { ApiError } from "../../../src/api/errors.ts";
import { upstreamSpecSchema, type UpstreamSpec } from "../../../src/api/upstream.ts";
import { clientGone } from "../../../src/gateway/proxy/call.ts";
import { ProviderDispatch } from "../../../src/gateway/proxy/provider-dispatch.ts";
import type { Recipient, ServedClient } from "../../../src/gateway/proxy/recipient.ts";
import { send } from "../../../src/gateway/proxy/send.ts";
import type { ProviderOptions } from "../../../src/gateway/providers/provider-options.ts";
import { Provider } from "../../../src/gateway/providers/provider.ts";
import type { PreparedForProvider } from "../../../src/gateway/routing/prepare.ts";
import type { WaitReport } from "../../../src/gateway/slots/wait-report.ts";
import { RequestRecord } from "../../../src/gateway/telemetry/request-record.ts";
import type { RequestBody, ResponseHead } from "../../../src/lib/exchange.ts";
import { ValueSeries } from "../../../src/lib/metrics/families.ts";
import { HistogramSeries } from "../../../src/lib/metrics/histogram.ts";
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
  const provider = new Provider({
    name: "acme",
    spec: { ...specOf(spec), ...(timeoutSeconds !== undefined && { timeoutSeconds }) },
    env: { ACME_KEY: secretKey },
    now: () => clock.ms,
    onOutcome: (outcome) => outcomes.push(outcome),
    onRetry: () => outcomes.push("retry"),
    onProblem: (problem) => problems.push(problem),
    backoffMs: 1,
    ...options,
  });
  return { provider, outcomes, problems, clock, [Symbol.asyncDispose]: () => provider[Symbol.asyncDispose]() };
}

export interface Site extends OpenProvider {
  readonly double: ProviderDouble;
  ask(request?: Asked): Ask;
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

export interface Asked {
  readonly model?: string;
  readonly path?: string;
  readonly accept?: string;
  readonly body?: RequestBody;
  /** The client: clients take turns where `maxConcurrent` bounds them. */
  readonly client?: string;
  /** Whether the client has received the beginning of its stream. */
  readonly hasBegun?: boolean;
  /** The time limit of reading an error. */
  readonly errorMs?: number;
}

/** A request under way, with everything that has come of it. */
export interface Ask {
  readonly chunks: Buffer[];
  head: ResponseHead | undefined;
  failure: ApiError | undefined;
  /** How often it has ended: once is right, never where its client has left. */
  ends: number;
  readonly ended: Promise<void>;
  /** In the provider's queue; 0 when it does not wait. */
  readonly position: number;
  /** The client leaves. */
  leave(): void;
  /** The client reads no more until `resume`. */
  pause(): void;
  resume(): void;
}

export function ask(provider: Provider, asked: Asked = {}): Ask {
  const { model = "gpt-double", path = "/v1/chat/completions", accept = "application/json", errorMs } = asked;
  const { body = [Buffer.from('{"model":"gpt-double","messages":[]}')], client = "", hasBegun = false } = asked;
  const leaving = new AbortController();
  let report: (() => WaitReport) | undefined;
  let isPaused = false;
  let resumed = Promise.withResolvers<void>();
  const to: Recipient & ServedClient = {
    record: new RequestRecord(),
    client,
    hasBegun,
    waitsSince: undefined,
    get clients() {
      return [to];
    },
    signal: leaving.signal,
    requestId: "request-1",
    trace: undefined,
    arrive: () => assert.fail("a provider has no slot"),
    bodyDone: () => undefined,
    reportWait: (given) => {
      report = given;
      return { [Symbol.dispose]: () => (report = undefined) };
    },
    noteWait: () => undefined,
    noteFirstByte: () => undefined,
    noteFirstToken: () => undefined,
  };
  async function run(): Promise<void> {
    try {
      const sent = {
        method: "POST",
        path,
        accept,
        contentType: "application/json",
        body,
        served: model,
        format: {},
      } as const;
      const request = { model, isStream: false, body: undefined, forSlot: () => assert.fail("a provider has no slot") };
      const { name: upstream, spec } = provider.options;
      const prepared: PreparedForProvider = {
        request,
        model: { upstream, providerModel: model, spec },
        backendRequest: { ...sent, capability: "chat" },
      };
      using at = new ProviderDispatch({ waited: () => undefined }, { prepared, provider }, to);
      await at.enter();
      using answer = await send(at, to, { metrics: { ofSlot: () => slotMetrics }, ...(errorMs && { errorMs }) });
      assert.equal(found.head, undefined, "an answer begins once");
      found.head = await answer.head;
      if (isPaused) {
        answer.exchange?.pause();
        await resumed.promise;
        answer.exchange?.resume();
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      answer.read({ onData: (chunk) => void found.chunks.push(chunk), onEnd: resolve, onError: reject });
      await promise;
    } catch (error) {
      if (error === clientGone) return;
      assert.ok(error instanceof ApiError);
      found.failure = error;
    }
    found.ends += 1;
  }
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  const found: Ask = {
    chunks: [],
    head: undefined,
    failure: undefined,
    ends: 0,
    ended,
    get position() {
      return report?.().position ?? 0;
    },
    leave: () => leaving.abort(clientGone),
    pause: () => {
      isPaused = true;
      resumed = Promise.withResolvers();
    },
    resume: () => resumed.resolve(),
  };
  end(run());
  return found;
}

const slotMetrics = {
  tokensIn: new ValueSeries("", 0),
  tokensOut: new ValueSeries("", 0),
  betweenTokens: new HistogramSeries("", []),
};

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
