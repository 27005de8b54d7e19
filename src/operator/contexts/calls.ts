import { EnginePool } from "../../engine-client/client.ts";
import { isRecord } from "../../lib/record.ts";
import { wholeAnswer } from "../../lib/whole-answer.ts";
import type { Observed } from "../../api/workload.ts";

/** The engine's report of 64 places is below this. */
const answerLimitBytes = 4 * 1024 ** 2;

/** One place of llama-server for a request and its context. */
export interface Place {
  readonly id: number;
  readonly isBusy: boolean;
  /** The tokens of the last request; undefined: none since the start. */
  readonly tokens?: number;
}

export interface Transferred {
  readonly tokens: number;
  readonly bytes: number;
}

/**
 * The part of llama-server's API about the context of its places (its README, "GET /slots" and "POST /slots/{id_slot}").
 * Every call rejects with the engine's own message, and at the latest when the signal is aborted.
 */
export class ContextCalls implements Disposable {
  readonly #pool: EnginePool;
  readonly #signal: AbortSignal;

  constructor({ host, port, bearer }: Pick<Observed, "host" | "port" | "bearer">, signal: AbortSignal) {
    this.#pool = new EnginePool({ host, port, ...(bearer === undefined ? {} : { bearer }) });
    this.#signal = signal;
  }

  /** The places without a request, the longest context first; all `count` of them where the engine does not list them. */
  async openPlaces(count: number): Promise<readonly Place[]> {
    const listed = (await this.#places()) ?? Array.from({ length: count }, (_, id) => ({ id, isBusy: false }));
    return listed
      .filter(({ isBusy }) => !isBusy)
      .toSorted((one: Place, other: Place) => (other.tokens ?? 0) - (one.tokens ?? 0));
  }

  /** Undefined where the engine does not list them. */
  async #places(): Promise<readonly Place[] | undefined> {
    const listed = await this.#call("GET", "/slots").catch((error: unknown) => {
      this.#signal.throwIfAborted();
      if (error instanceof Refused) return undefined;
      throw error;
    });
    if (!Array.isArray(listed)) return undefined;
    return listed.flatMap((each: unknown) => {
      const id = numberIn(each, "id");
      const tokens = numberIn(each, "n_prompt_tokens");
      const isBusy = isRecord(each) && each["is_processing"] === true;
      return id === undefined ? [] : [{ id, isBusy, ...(tokens === undefined ? {} : { tokens }) }];
    });
  }

  /** Writes the context of a place to that file; no tokens: it has none. */
  async save(place: number, file: string): Promise<Transferred> {
    return transferred(await this.#act(place, "save", { filename: file }), "n_saved", "n_written");
  }

  async restore(place: number, file: string): Promise<Transferred> {
    return transferred(await this.#act(place, "restore", { filename: file }), "n_restored", "n_read");
  }

  async erase(place: number): Promise<void> {
    await this.#act(place, "erase", {});
  }

  /** A connection must not stay open: an engine that stops waits for it. */
  [Symbol.dispose](): void {
    this.#pool.close();
  }

  async #act(place: number, action: string, body: unknown): Promise<unknown> {
    return await this.#call("POST", `/slots/${place}?action=${action}`, body);
  }

  async #call(method: "GET" | "POST", path: string, body?: unknown): Promise<unknown> {
    const payload = body === undefined ? {} : { body: [Buffer.from(JSON.stringify(body))] };
    const answer = await wholeAnswer(
      this.#pool,
      { method, path, accept: "application/json", ...payload },
      { signal: this.#signal, timeoutMs: 3_600_000, limitBytes: answerLimitBytes },
    );
    const text = answer.body.toString("utf8");
    if (answer.status !== 200) throw new Refused(messageIn(text) ?? `${path} answered ${answer.status}`);
    return JSON.parse(text);
  }
}

/** The engine's own refusal. */
class Refused extends Error {
  override readonly name = "Refused";
}

function transferred(answer: unknown, tokensKey: string, bytesKey: string): Transferred {
  const tokens = numberIn(answer, tokensKey);
  const bytes = numberIn(answer, bytesKey);
  if (tokens === undefined || bytes === undefined) throw new Error("the engine did not say how much it transferred");
  return { tokens, bytes };
}

function messageIn(text: string): string | undefined {
  try {
    const answer: unknown = JSON.parse(text);
    const error = isRecord(answer) ? answer["error"] : undefined;
    return isRecord(error) && typeof error["message"] === "string" ? error["message"].slice(0, 200) : undefined;
  } catch {
    return undefined;
  }
}

function numberIn(value: unknown, key: string): number | undefined {
  const found = isRecord(value) ? value[key] : undefined;
  return typeof found === "number" && Number.isSafeInteger(found) && found >= 0 ? found : undefined;
}
