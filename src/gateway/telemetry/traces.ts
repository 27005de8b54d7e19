import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
  type Attributes,
  type Span,
  type Tracer,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
  type ReadableSpan,
  type SpanExporter,
} from "@opentelemetry/sdk-trace";
import { setTimeout as delay } from "node:timers/promises";
import { errorMessage } from "../../lib/error-code.ts";
import type { PassedTrace } from "../../lib/exchange.ts";
import { steadyNow } from "../../lib/steady-clock.ts";
import { conventions, genAi, operationOf } from "./gen-ai.ts";
import type { EndedRequest } from "./request-record.ts";
import {
  passed,
  readTraceparent,
  readTracestate,
  withLines,
  type Headers,
  type RequestTrace,
} from "./trace-context.ts";

export interface TracesOptions {
  /** The base address of the receiver: spans go to `/v1/traces` below it. */
  readonly endpoint: string;
  /** The part of the requests whose client has not decided, from 0 to 1. */
  readonly part: number;
  readonly version: string;
  /** Tells this gateway from others, and from itself after a restart. */
  readonly instance: string;
  /** Called once for each row of failures. */
  readonly onFailing: (message: string) => void;
}

/** Milliseconds from a span to its sending. */
const everyMs = 2000;
/** Milliseconds that the end of the gateway waits for the last spans to be sent. */
const lastMs = 1000;
/** Milliseconds in which one sending is repeated. An ending process lives as long. */
const timeoutMs = 2000;

/**
 * The gateway's spans by OpenTelemetry's SDK: one for the request, and within it the hold, the queue and each call of an engine.
 * This module is loaded only where traces have a receiver.
 */
export class Traces implements AsyncDisposable {
  readonly #exporter: ReportedExporter;
  readonly #provider: TracerProvider;
  readonly #tracer: Tracer;

  constructor({ endpoint, part, version, instance, onFailing }: TracesOptions) {
    const url = `${endpoint.replace(/\/$/, "")}/v1/traces`;
    const exporter = new ReportedExporter(new OTLPTraceExporter({ url, timeoutMillis: timeoutMs }), (message) =>
      onFailing(`${url}: ${message}`),
    );
    this.#exporter = exporter;
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({
        "service.name": "berth-gateway",
        "service.version": version,
        "service.instance.id": instance,
        "berth.gen_ai.conventions": conventions,
      }),
      sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(part) }),
      spanProcessors: [
        new BatchSpanProcessor({ exporter, scheduledDelayMillis: everyMs, exportTimeoutMillis: timeoutMs }),
      ],
    });
    this.#tracer = this.#provider.getTracer("berth", version);
  }

  /** Begins the trace of a request that was admitted. */
  begin(headers: Headers): RequestTrace {
    const client = readTraceparent(headers["traceparent"]);
    const options = { kind: SpanKind.SERVER };
    if (client === undefined)
      return new OwnTrace(this.#tracer, this.#tracer.startSpan("request", options, ROOT_CONTEXT));
    const { traceId, spanId, flags } = client;
    if ((flags & TraceFlags.SAMPLED) === 0) return passed(client, headers);
    const parent = trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: flags, isRemote: true });
    const tracestate = readTracestate(headers["tracestate"]);
    return new OwnTrace(this.#tracer, this.#tracer.startSpan("request", options, parent), { flags, tracestate });
  }

  /** Sends the spans that wait, unless the receiver is gone or slow. */
  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.#provider.shutdown().catch(() => undefined);
    if (!this.#exporter.isFailing) await Promise.race([ended, delay(lastMs, undefined, { ref: false })]);
  }
}

/** The parts of its client's trace that a request passes on. */
interface Passed {
  readonly flags: number;
  readonly tracestate: string | undefined;
}

/** The trace's identifier is random, as its maker says: https://www.w3.org/TR/trace-context-2/#random-trace-id-flag */
const randomFlag = 2;

/** The spans of one request, in its client's trace or in a new one. */
class OwnTrace implements RequestTrace {
  readonly traceId: string;
  readonly isSampled: boolean;
  readonly #tracer: Tracer;
  readonly #server: Span;
  readonly #client: Passed;
  #engine: Span | undefined;
  #attemptEndedAt = 0;
  /** Earlier calls, which have failed. */
  readonly #failed: { readonly span: Span; readonly endedAt: number }[] = [];

  constructor(tracer: Tracer, server: Span, client: Passed = { flags: 0, tracestate: undefined }) {
    this.traceId = server.spanContext().traceId;
    this.isSampled = server.isRecording();
    this.#tracer = tracer;
    this.#server = server;
    this.#client = client;
  }

  forAttempt(): PassedTrace {
    if (!this.isSampled) return this.#passed(this.#server);
    if (this.#engine !== undefined) this.#failed.push({ span: this.#engine, endedAt: this.#attemptEndedAt });
    this.#engine = this.#start("engine", SpanKind.CLIENT, undefined);
    return this.#passed(this.#engine);
  }

  attemptEnded(): void {
    this.#attemptEndedAt = Date.now();
  }

  ended(request: EndedRequest): void {
    if (!this.isSampled) return;
    const { path, slot, code, failure, endedAt, requestId, record } = request;
    const { engine, heldMs, queuedMs, waitEndedAt, requestedModel } = record;
    // Times are kept by the steady clock.
    const wallMs = endedAt - steadyNow();
    const operation = operationOf(path);
    const name = requestedModel === "" ? operation : `${operation} ${requestedModel}`;
    const error = failure?.code ?? (code === 499 ? "client_closed" : undefined);
    const asked: Attributes = {
      "berth.slot": slot,
      [genAi.operation]: operation,
      [genAi.provider]: slot.startsWith("upstream ") ? slot.slice("upstream ".length) : "berth",
      ...(requestedModel !== "" && { [genAi.requestModel]: requestedModel }),
    };
    const common: Attributes = {
      ...asked,
      ...(engine !== undefined && { [genAi.responseModel]: engine.model }),
      ...(engine?.tokensIn !== undefined && { [genAi.inputTokens]: engine.tokensIn }),
      ...(engine?.tokensOut !== undefined && { [genAi.outputTokens]: engine.tokensOut }),
      ...(error !== undefined && { [genAi.errorType]: error }),
    };
    const heldFrom = waitEndedAt - heldMs - queuedMs;
    if (heldMs > 0) this.#wait("berth.hold", slot, wallMs + heldFrom, wallMs + heldFrom + heldMs);
    if (queuedMs > 0) this.#wait("berth.queue", slot, wallMs + heldFrom + heldMs, wallMs + waitEndedAt);
    for (const { span, endedAt: failedAt } of this.#failed)
      span.updateName(name).setAttributes(asked).setStatus({ code: SpanStatusCode.ERROR }).end(failedAt);
    if (this.#engine !== undefined && engine !== undefined) {
      const { host, port } = engine.endpoint ?? {};
      this.#engine.updateName(name).setAttributes(common);
      if (host !== undefined) this.#engine.setAttributes({ "server.address": host, "server.port": port });
      if (failure !== undefined) this.#engine.setStatus({ code: SpanStatusCode.ERROR });
      this.#engine.end(time(wallMs + engine.startedAt + engine.ms));
    } else this.#engine?.end();
    const own = { ...common, "berth.request_id": requestId, "url.path": path, "http.response.status_code": code };
    this.#server.updateName(name).setAttributes(own);
    // A server did not fail where its client was at fault, and a client has failed with every error that it got:
    // https://opentelemetry.io/docs/specs/semconv/http/http-spans/#status
    const isOurs = failure !== undefined && (failure.status >= 500 || code < 400);
    if (isOurs) this.#server.setStatus({ code: SpanStatusCode.ERROR });
    this.#server.end();
  }

  #passed(span: Span): PassedTrace {
    const { traceId, spanId, traceFlags } = span.spanContext();
    const { flags, tracestate } = this.#client;
    return withLines(
      `00-${traceId}-${spanId}-0${(traceFlags & TraceFlags.SAMPLED) | (flags & randomFlag)}`,
      tracestate,
    );
  }

  #wait(name: string, slot: string, from: number, to: number): void {
    this.#start(name, SpanKind.INTERNAL, from).setAttribute("berth.slot", slot).end(time(to));
  }

  /** `from`: milliseconds of the wall clock; undefined: now. */
  #start(name: string, kind: SpanKind, from: number | undefined): Span {
    const context = trace.setSpan(ROOT_CONTEXT, this.#server);
    return this.#tracer.startSpan(name, { kind, ...(from !== undefined && { startTime: time(from) }) }, context);
  }
}

/** The SDK takes a small number for one of the process's own clock. */
function time(wallMs: number): [seconds: number, nanos: number] {
  const seconds = Math.floor(wallMs / 1000);
  return [seconds, Math.round((wallMs - seconds * 1000) * 1e6)];
}

/** Says once for each row of failures that spans are dropped. */
class ReportedExporter implements SpanExporter {
  readonly #inner: SpanExporter;
  readonly #onFailing: (message: string) => void;
  /** The last spans could not be sent. */
  isFailing = false;

  constructor(inner: SpanExporter, onFailing: (message: string) => void) {
    this.#inner = inner;
    this.#onFailing = onFailing;
  }

  export(spans: ReadableSpan[], done: Parameters<SpanExporter["export"]>[1]): void {
    this.#inner.export(spans, (result) => {
      if (result.error !== undefined && !this.isFailing) this.#onFailing(errorMessage(result.error));
      this.isFailing = result.error !== undefined;
      done(result);
    });
  }

  async shutdown(): Promise<void> {
    await this.#inner.shutdown();
  }
}
