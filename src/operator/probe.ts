import { request } from "node:http";

export type ProbeResult =
  | { readonly outcome: "healthy" }
  /** The engine answers, and says that it still loads. */
  | { readonly outcome: "loading"; readonly message: string }
  | { readonly outcome: "failed"; readonly message: string };

export interface ProbeRequest {
  readonly port: number;
  readonly path: string;
  readonly timeoutMs: number;
  /** A POST of this JSON instead of a GET. */
  readonly body?: unknown;
}

/** Asks an engine on loopback once. Never throws: whatever goes wrong is the result. */
export type Probe = (probe: ProbeRequest) => Promise<ProbeResult>;

/** More of an answer than this says nothing about health. */
const answerLimitBytes = 65_536;

export const httpProbe: Probe = ({ port, path, timeoutMs, body }) =>
  new Promise((resolve) => {
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const outgoing = request(
      {
        host: "127.0.0.1",
        port,
        path,
        method: payload === undefined ? "GET" : "POST",
        // A probe must not keep a socket that a stopping engine would wait for.
        agent: false,
        headers: payload === undefined ? {} : { "content-type": "application/json", "content-length": payload.length },
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
            finish({ outcome: status === 503 ? "loading" : "failed", message });
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

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim().slice(0, 200);
}
