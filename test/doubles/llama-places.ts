import { readFile, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { serve, type Served } from "../support/listen.ts";
import { json } from "./wire.ts";

/** How the double answers a call instead of doing what it is asked for. */
export type Fault = (response: ServerResponse, file: string) => Promise<void> | void;

/**
 * A DOUBLE, not an engine: the part of `llama-server` about the context of its places. A file holds the number of its
 * tokens, and is as long as these.
 */
export class LlamaPlaces implements AsyncDisposable {
  readonly port: number;
  readonly calls: string[] = [];
  /** Tokens by place; undefined: it works on a request. */
  readonly tokens: (number | undefined)[];
  saveFault: Fault | undefined;
  restoreFault: Fault | undefined;
  readonly #served: Served;
  readonly #directory: string;

  private constructor(served: Served, directory: string, tokens: number[]) {
    this.#served = served;
    this.port = served.port;
    this.#directory = directory;
    this.tokens = tokens;
    served.server.on("request", (request, response) => void this.#answer(request, response));
  }

  static async start(directory: string, tokens: number[]): Promise<LlamaPlaces> {
    return new LlamaPlaces(await serve(() => undefined), directory, tokens);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#served[Symbol.asyncDispose]();
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? "/", "http://double");
    const say = (status: number, body: unknown): void => json(response, status, body);
    if (request.headers.authorization !== "Bearer secret") {
      say(401, { error: { message: "Invalid API Key" } });
      return;
    }
    if (request.method === "GET") {
      const places = this.tokens.map((tokens, id) => ({
        id,
        is_processing: tokens === undefined,
        ...(tokens === undefined || tokens === 0 ? {} : { n_prompt_tokens: tokens }),
      }));
      say(200, places);
      return;
    }
    const id = Number(url.pathname.split("/")[2]);
    const action = url.searchParams.get("action") ?? "";
    const { filename = "" }: { filename?: string } = JSON.parse(await text(request));
    this.calls.push(`${action} ${id}`);
    const path = join(this.#directory, filename);
    const fault = action === "save" ? this.saveFault : action === "restore" ? this.restoreFault : undefined;
    if (fault !== undefined) {
      await fault(response, path);
      return;
    }
    if (action === "save") {
      const tokens = this.tokens[id] ?? 0;
      const content = `${tokens}`.padEnd(tokens * 10 + 40);
      await writeFile(path, content);
      say(200, { id_slot: id, filename, n_saved: tokens, n_written: content.length });
    } else if (action === "restore") {
      const content = await readFile(path, "utf8");
      const tokens = Number(content);
      this.tokens[id] = tokens;
      say(200, { id_slot: id, filename, n_restored: tokens, n_read: content.length });
    } else {
      this.tokens[id] = 0;
      say(200, { id_slot: id, n_erased: 0 });
    }
  }
}
