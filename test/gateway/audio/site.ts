import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { ApiError } from "../../../src/api/errors.ts";
import { sendError, toApiError } from "../../../src/gateway/http/answer.ts";
import { transcriptionAnswers } from "../../../src/gateway/audio/transcription-answer.ts";
import { BufferBudget } from "../../../src/gateway/admission/budget.ts";
import { Charge } from "../../../src/gateway/admission/charge.ts";
import { openTranscription, type Transcription } from "../../../src/gateway/audio/transcription.ts";
import { ExchangeError, type ExchangeEvents } from "../../../src/lib/exchange.ts";
import { EnginePool } from "../../../src/lib/http1/client.ts";
import { exchangeFailure } from "../../../src/gateway/relay/engine-failure.ts";
import { passiveType } from "../../../src/gateway/relay/passive-type.ts";
import { tempDir } from "../../support/temp-dir.ts";
import { listen } from "../../support/listen.ts";

export interface AudioSite extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly requests: readonly IncomingMessage[];
  /** Every upload whose model became known. */
  readonly uploads: readonly Transcription[];
  /** Every failure, also those that no client was there to hear. */
  readonly failures: readonly ApiError[];
}

export interface AudioSiteOptions {
  readonly engine: { readonly host: string; readonly port: number };
  /** A directory of its own where absent. */
  readonly spoolDir?: string;
  readonly bodyLimitBytes?: number;
  readonly timeouts?: { readonly firstByteMs: number; readonly idleMs: number };
  readonly idleTimeoutMs?: number;
  /** Waited for before anything goes to the engine, as for a slot that is cold. */
  readonly hold?: () => Promise<void>;
}

const roomy = new BufferBudget(1e12);

/** The least gateway around the two halves of a transcription: what the dispatcher does, without slots. */
export async function startAudioSite(options: AudioSiteOptions): Promise<AudioSite> {
  const { engine, idleTimeoutMs, bodyLimitBytes = 1e8, timeouts = { firstByteMs: 60_000, idleMs: 60_000 } } = options;
  const dir = await tempDir();
  const requests: IncomingMessage[] = [];
  const uploads: Transcription[] = [];
  const failures: ApiError[] = [];

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    requests.push(request);
    const upload = await openTranscription(request, {
      bodyLimitBytes,
      spoolDir: options.spoolDir ?? dir.path,
      charge: new Charge(roomy),
      spooled: roomy,
      ...(idleTimeoutMs !== undefined && { idleTimeoutMs }),
    });
    uploads.push(upload);
    try {
      const { promise: failed, reject } = Promise.withResolvers<never>();
      upload.broken.addEventListener("abort", () => reject(upload.broken.reason));
      await Promise.race([relay(upload, response), failed]);
    } finally {
      await upload.discard();
    }
  };
  const relay = async (upload: Transcription, response: ServerResponse): Promise<void> => {
    await options.hold?.();
    await new Promise<void>((resolve, reject) => {
      const chunks: Buffer[] = [];
      const answers = transcriptionAnswers(upload.fields);
      let status = 0;
      let type = "";
      const events: ExchangeEvents = {
        onHead: (head) => {
          status = head.status;
          type = passiveType(head.contentType ?? "");
        },
        onData: (chunk) => chunks.push(chunk),
        onEnd: () => {
          const body = Buffer.concat(chunks);
          const refusal = status === 200 ? undefined : (answers.refusal?.(status, body) ?? new Error(`${status}`));
          if (refusal !== undefined) return reject(refusal);
          try {
            const answer = type.startsWith("application/json") ? answers.answer(body) : body;
            response.writeHead(200, { "content-type": answers.contentType ?? type }).end(answer);
            resolve();
          } catch (error) {
            reject(error);
          }
        },
        onError: (error) => reject(error instanceof ExchangeError ? exchangeFailure(error) : error),
      };
      const exchange = new EnginePool(engine).send(
        { method: "POST", path: "/inference", accept: "*/*", body: () => upload.forward("whisper-served") },
        { requestId: "test", timeouts },
        events,
      );
      response.once("close", () => exchange.abort());
    });
  };
  const server = createServer((request, response) => {
    handle(request, response).catch((error: unknown) => {
      const failure = toApiError(error);
      failures.push(failure);
      sendError(response, failure, "test");
    });
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    requests,
    uploads,
    failures,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await dir[Symbol.asyncDispose]();
    },
  };
}
