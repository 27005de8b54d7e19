import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { ModelTask, ModelTaskAnswer } from "../../../src/api/model-task.ts";
import type { SlotRequest } from "../../../src/api/status.ts";
import { isRecord } from "../../../src/lib/record.ts";
import { sharedSets, type TestSets } from "../../support/shared-sets.ts";
import { envelopeOf } from "../../support/envelope.ts";
import { startGateway, type TestGateway } from "../../support/gateway.ts";

export type Json = Readonly<Record<string, unknown>>;

export interface Refusal {
  /** Status and code: `404 slot.not_found`. */
  readonly is: string;
  readonly message: string;
  readonly details: Json | undefined;
}

export interface Site extends TestGateway {
  send(method: string, path: string, body?: unknown, init?: RequestInit): Promise<Response>;
  /** The object that a request which succeeds is answered with; by default a GET. */
  got(path: string, method?: string, body?: unknown): Promise<Json>;
  /** The error that a request gets. */
  refused(method: string, path: string, body?: unknown): Promise<Refusal>;
  /** What the operator is asked for a slot. */
  requests(slot: string): Promise<readonly SlotRequest[]>;
  /** The text of a file of the configuration. */
  written(file: string): Promise<string>;
  declare(file: string, text: string): Promise<void>;
}

/** A gateway, and what a client of `/api` does with it. */
export async function site(options: Parameters<typeof startGateway>[0] = {}): Promise<Site> {
  const gateway = await startGateway(options);
  const { url, stateDir } = gateway;
  const fileOf = (file: string): string => join(stateDir, "config", file);
  const send: Site["send"] = async (method, path, body, init = {}) => {
    const json = { body: JSON.stringify(body), headers: { "content-type": "application/json" } };
    return await fetch(new URL(path, url), { method, ...(body !== undefined && json), ...init });
  };
  return {
    ...gateway,
    send,
    async got(path, method = "GET", body) {
      const response = await send(method, path, body);
      const found: unknown = await response.json();
      assert.ok(response.ok && isRecord(found), `${method} ${path}: ${JSON.stringify(found)}`);
      return found;
    },
    refused: async (method, path, body) => await refusalOf(await send(method, path, body)),
    async requests(slot) {
      await using shared = await sharedSets(stateDir);
      return shared.requests.list(slot);
    },
    written: (file) => readFile(fileOf(file), "utf8"),
    async declare(file, text) {
      await mkdir(dirname(fileOf(file)), { recursive: true });
      await writeFile(fileOf(file), text);
    },
  };
}

export async function refusalOf(response: Response): Promise<Refusal> {
  const { error } = await envelopeOf(response);
  return { is: `${response.status} ${error.code}`, message: error.message, details: error.details };
}

/** The objects in `data` of a list. */
export function rowsOf({ data }: Json): Json[] {
  assert.ok(Array.isArray(data) && data.every(isRecord), JSON.stringify(data));
  return data;
}

/** A DOUBLE of the operator: answers each task about the files of models at once. */
export async function answerTasks(
  stateDir: string,
  answerOf: (task: ModelTask) => Partial<ModelTaskAnswer> = () => ({}),
): Promise<{ readonly sets: TestSets; readonly seen: ModelTask[] } & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const sets = stack.use(await sharedSets(stateDir));
  const seen: ModelTask[] = [];
  const answer = (): void => {
    for (const task of sets.modelTasks.list()) {
      if (seen.some(({ id }) => id === task.id)) continue;
      seen.push(task);
      const answered = { schema: 1, answers: task.id, answeredAt: new Date().toISOString() } as const;
      void sets.modelAnswers
        .put({ ...answered, ...answerOf(task) })
        .then(() => sets.modelTasks.remove(task.id))
        .catch(() => undefined);
    }
  };
  stack.use(sets.modelTasks.watch(answer));
  // The tasks that were written before this operator began.
  answer();
  const owned = stack.move();
  return { sets, seen, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}
