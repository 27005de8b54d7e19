import { Agent, request } from "node:http";
import type { WarmUp } from "../engines/engine.ts";
import { errorMessage } from "../lib/error-code.ts";

export type ProbeResult =
  | { readonly outcome: "healthy" }
  /** The engine answers, and says that it still loads. */
  | { readonly outcome: "loading"; readonly message: string }
  /** `status`: of the answer, where there was one. */
  | { readonly outcome: "failed"; readonly message: string; readonly status?: number };

export interface ProbeRequest {
  readonly port: number;
  readonly path: string;
  readonly timeoutMs: number;
  /** A POST of this JSON instead of a GET. */
  readonly body?: unknown;
  /** A POST of a form with one file. */
  readonly form?: Pick<Extract<WarmUp, { file: unknown }>, "fields" | "file">;
  /** What the engine wants of whoever asks it. */
  readonly bearer?: string | undefined;
  /** Ends the request; the result is then a failure. */
  readonly signal?: AbortSignal;
}

/** Asks an engine on loopback once. Never throws: whatever goes wrong is the result. */
export type Probe = (probe: ProbeRequest) => Promise<ProbeResult>;

/** More of an answer than this says nothing about health. */
const answerLimitBytes = 65_536;

export const httpProbe: Probe = async (probe) => {
  try {
    return await ask(probe);
  } catch (error) {
    // A manifest's path may hold what no request can carry: Node throws before it sends.
    return { outcome: "failed", message: `${probe.path}: ${errorMessage(error)}` };
  }
};

/** A probe must not keep a socket that a stopping engine would wait for. */
const closing = new Agent({ keepAlive: false });

async function ask({ port, path, timeoutMs, body, form, bearer, signal }: ProbeRequest): Promise<ProbeResult> {
  const { payload, type } = await encoded(body, form);
  return await new Promise((resolve) => {
    const outgoing = request(
      {
        host: "127.0.0.1",
        port,
        path,
        method: payload === undefined ? "GET" : "POST",
        agent: closing,
        ...(signal === undefined ? {} : { signal }),
        headers: {
          ...(payload === undefined ? {} : { "content-type": type, "content-length": payload.length }),
          ...(bearer === undefined ? {} : { authorization: `Bearer ${bearer}` }),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        let size = 0;
        response.on("data", (chunk: Buffer) => {
          size += chunk.length;
          if (size <= answerLimitBytes) chunks.push(chunk);
        });
        response.once("error", (error) => finish({ outcome: "failed", message: error.message }));
        response.once("end", () => {
          const status = response.statusCode ?? 0;
          if (status >= 200 && status < 300) finish({ outcome: "healthy" });
          else {
            const message = `${path} answered ${status}: ${oneLine(Buffer.concat(chunks).toString())}`;
            finish(status === 503 ? { outcome: "loading", message } : { outcome: "failed", message, status });
          }
        });
      },
    );
    const deadline = setTimeout(() => {
      finish({ outcome: "failed", message: `${path} did not answer within ${timeoutMs} ms` });
      outgoing.destroy();
    }, timeoutMs);
    function finish(result: ProbeResult): void {
      clearTimeout(deadline);
      resolve(result);
    }
    outgoing.on("error", (error) => finish({ outcome: "failed", message: `${path}: ${error.message}` }));
    outgoing.end(payload);
  });
}

async function encoded(
  body: unknown,
  form: ProbeRequest["form"],
): Promise<{ readonly payload: Buffer | undefined; readonly type: string }> {
  if (form !== undefined) {
    const data = new FormData();
    for (const [name, value] of Object.entries(form.fields)) data.set(name, value);
    const { field, name, type, base64 } = form.file;
    data.set(field, new Blob([Buffer.from(base64, "base64")], { type }), name);
    const request = new Response(data);
    return {
      payload: Buffer.from(await request.arrayBuffer()),
      type: request.headers.get("content-type") ?? "multipart/form-data",
    };
  }
  return { payload: body === undefined ? undefined : Buffer.from(JSON.stringify(body)), type: "application/json" };
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim().slice(0, 200);
}
