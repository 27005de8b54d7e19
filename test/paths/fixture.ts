import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { RunningBerth } from "../support/berth.ts";
import { later } from "../support/later.ts";
import { until } from "../support/until.ts";

const program = fileURLToPath(new URL("../doubles/engine.ts", import.meta.url));

/** A manifest whose engine is the double, with these flags. */
export function manifest(flags: readonly string[] = [], more = ""): string {
  const command = [process.execPath, "--disable-warning=ExperimentalWarning", program, ...flags];
  return `engine = "custom"\ncapabilities = ["chat"]\ncommand = ${JSON.stringify(command)}\n${more}`;
}

export function writeSlot({ configDir }: { configDir: string }, name: string, text: string): Promise<void> {
  return writeFile(join(configDir, `slots/${name}.toml`), text);
}

function ask(url: string, model: string, isStreamed: boolean, headers: Record<string, string> = {}): Promise<Response> {
  return fetch(new URL("/v1/chat/completions", url), {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model, stream: isStreamed, max_tokens: 4, messages: [{ role: "user", content: "hello" }] }),
  });
}

/** Status, and the content or the error's code. */
export async function chat(
  { url }: Pick<RunningBerth, "url">,
  model: string,
  token?: string,
): Promise<readonly [status: number, text: string]> {
  const response = await ask(url, model, false, token === undefined ? {} : { authorization: `Bearer ${token}` });
  const text = await response.text();
  return [response.status, /"(?:content|code)":"([^"]*)"/.exec(text)?.[1] ?? text];
}

export interface OpenStream {
  /** The text that has come so far. */
  readonly text: () => string;
  /** Resolves with the contents of its chunks once it has ended whole; rejects where it was cut. */
  readonly ended: Promise<readonly string[]>;
}

/** Resolves once the first token is there. */
export async function openStream(berth: RunningBerth, model: string): Promise<OpenStream> {
  const response = await ask(berth.url, model, true);
  let text = "";
  const contents = (): string[] => [...text.matchAll(/"content":"([^"]+)"/g)].map(([, content = ""]) => content);
  const ended = later(
    (async () => {
      for await (const piece of response.body?.pipeThrough(new TextDecoderStream()) ?? []) text += piece;
      if (!text.trimEnd().endsWith("data: [DONE]")) throw new Error(`the stream was cut: ${text}`);
      return contents();
    })(),
  );
  await until("the first token is there", () => contents().length > 0);
  return { text: () => text, ended };
}

/** Lets the engine of a slot, a double that holds its answers, say the rest of them. */
export async function goOn(berth: RunningBerth, slot: string): Promise<void> {
  const { endpoint } = await berth.slot(slot);
  await (await fetch(new URL("/double/go", String(endpoint)), { method: "POST" })).text();
}

/** The process of a slot's engine; undefined: none is published. */
export async function pidOf(berth: RunningBerth, slot: string): Promise<number | undefined> {
  const { processes } = await berth.slot(slot);
  return processes?.[0]?.pid ?? undefined;
}
