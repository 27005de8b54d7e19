import { steadyNow } from "../../lib/steady-clock.ts";
import { OtlpExporter, type OtlpOptions } from "./otlp-exporter.ts";
import type { EndedRequest } from "./request-record.ts";
import { RequestSpans } from "./request-spans.ts";
import { ownTrace, type RequestTrace, type SpanIds } from "./trace-context.ts";
import { TraceSampler } from "./trace-sampler.ts";

/**
 * The gateway's spans, made when requests have ended: one for the request, and within it the hold, the queue and the engine's
 * call. This module is loaded only where traces have a receiver.
 */
export class Traces implements AsyncDisposable {
  readonly #exporter: OtlpExporter;
  readonly #sampler: TraceSampler;

  /** `part`: of requests whose client has not decided. */
  constructor(options: OtlpOptions & { readonly part: number }) {
    this.#exporter = new OtlpExporter(options);
    this.#sampler = new TraceSampler(options.part);
  }

  /** Begins the trace of a request that was admitted. */
  begin(headers: Parameters<typeof ownTrace>[0]): RequestTrace {
    return ownTrace(headers, this.#sampler);
  }

  ended(request: EndedRequest, ids: SpanIds): void {
    if (!this.#exporter.hasRoom) return;
    this.#exporter.add(new RequestSpans(request, ids, steadyNow()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#exporter[Symbol.asyncDispose]();
  }
}
