import { parseArgs } from "node:util";

/** The supported flags of llama-server; the same launch line starts either engine. */
export interface EngineArguments {
  readonly model: string;
  readonly alias: string;
  readonly host: string;
  readonly port: number;
  /** Per request; the flag gives the sum of all places, as with llama-server. */
  readonly contextSize: number | undefined;
  readonly threads: number;
  readonly parallel: number;
  readonly mode: "chat" | "embedding" | "reranking";
}

/** Throws an Error that names the flag. */
export function readArguments(argv: readonly string[]): EngineArguments {
  const { values } = parseArgs({
    args: [...argv],
    strict: true,
    options: {
      model: { type: "string", short: "m" },
      alias: { type: "string", short: "a" },
      host: { type: "string", default: "127.0.0.1" },
      port: { type: "string" },
      "ctx-size": { type: "string", short: "c" },
      threads: { type: "string", short: "t", default: "1" },
      parallel: { type: "string", default: "1" },
      "n-gpu-layers": { type: "string" },
      embedding: { type: "boolean", default: false },
      pooling: { type: "string" },
      reranking: { type: "boolean", default: false },
      jinja: { type: "boolean", default: false },
      metrics: { type: "boolean", default: false },
      "no-webui": { type: "boolean", default: false },
    },
  });
  if (values.model === undefined) throw new Error("--model is missing");
  const port = whole("--port", values.port, 1, 65_535);
  if (port === undefined) throw new Error("--port is missing");
  const parallel = whole("--parallel", values.parallel, 1, 256) ?? 1;
  const context = whole("--ctx-size", values["ctx-size"], 1, 4_294_967_296);
  return {
    model: values.model,
    alias: values.alias ?? values.model,
    host: values.host,
    port,
    contextSize: context === undefined ? undefined : Math.max(1, Math.floor(context / parallel)),
    threads: whole("--threads", values.threads, 1, 1024) ?? 1,
    parallel,
    mode: values.embedding ? "embedding" : values.reranking ? "reranking" : "chat",
  };
}

function whole(flag: string, text: string | undefined, min: number, max: number): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!Number.isInteger(value) || value < min || value > max)
    throw new Error(`${flag} takes a whole number from ${min} to ${max}`);
  return value;
}
