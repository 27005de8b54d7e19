import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runProgram } from "./process.ts";

export interface WrkResult {
  readonly requests: number;
  readonly perSecond: number;
  readonly bytesPerAnswer: number;
  /** Answers that were no 2xx or 3xx, and failures of a socket. */
  readonly failures: number;
}

/** As many requests as `connections` can have answered one after the other (closed loop), for throughput only. */
export async function runWrk(options: {
  directory: string;
  port: number;
  body: string;
  connections: number;
  seconds: number;
  headers?: Readonly<Record<string, string>>;
}): Promise<WrkResult> {
  const script = join(options.directory, "chat.lua");
  await writeFile(
    script,
    `wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
${Object.entries(options.headers ?? {})
  .map(([name, value]) => `wrk.headers[${JSON.stringify(name)}] = ${JSON.stringify(value)}`)
  .join("\n")}
wrk.body = ${JSON.stringify(options.body)}
done = function(summary)
  local e = summary.errors
  io.write(string.format("RESULT %d %d %d %d\\n", summary.requests, summary.duration, summary.bytes,
    e.connect + e.read + e.write + e.status + e.timeout))
end
`,
  );
  const url = `http://127.0.0.1:${options.port}/v1/chat/completions`;
  const flags = ["-t1", `-c${options.connections}`, `-d${options.seconds}s`, "--timeout", "10s", "-s", script, url];
  const text = await runProgram(["wrk", ...flags]);
  const [, requests = 0, micros = 1, bytes = 0, failures = 0] = (/^RESULT .*$/m.exec(text)?.[0] ?? "")
    .split(" ")
    .map(Number);
  if (requests === 0) throw new Error(`wrk had no answer\n${text}`);
  return { requests, perSecond: requests / (micros / 1_000_000), bytesPerAnswer: bytes / requests, failures };
}
