import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { ApiError } from "../../../api/errors.ts";
import { ExchangeError } from "../../../lib/exchange.ts";
import { unlessAborted } from "../../../lib/on-abort.ts";
import { exchangeFailure } from "../../relay/engine-failure.ts";
import { readAccepted, readHistory, readQueue, type OutputImage } from "./comfyui-answers.ts";
import { callEngine, type EngineAnswer, type ImageEngine } from "./engine-http.ts";
import type { Graph } from "./workflows.ts";

export interface RunOptions {
  /** Aborted when the client has disconnected: the prompt is then cancelled. */
  readonly signal: AbortSignal;
  /** The time limit of the whole run. */
  readonly ceilingMs?: number;
  readonly pollMs?: number;
}

/** No picture takes longer without a fault. */
export const imageCeilingMs = 600_000;

const callTimeoutMs = 30_000;
const cancelTimeoutMs = 5000;
const jsonLimitBytes = 16 * 1024 * 1024;
/** 2048×2048 pixels of three bytes are 12 MiB, before compression. */
const imageLimitBytes = 32 * 1024 * 1024;
/** After this many polls without a result, the queue is checked for the prompt. */
const pollsBetweenChecks = 4;

/**
 * Runs a graph on ComfyUI and returns its PNG files in order.
 *
 *   POST /prompt ──▶ GET /history/{id} … until it says success or error ──▶ GET /view, per image
 *                        │ client gone, or ceiling
 *                        └──▶ POST /queue {delete}, and POST /interrupt when it is ours that runs
 *
 * Rejects with ApiError (`dispatch.rejected`, `model.not_loaded`, `dispatch.upstream_*`), with the ExchangeError of
 * `POST /prompt`, or with the signal's reason; by then the engine has been told to stop, if it listens. Wire facts:
 * docs/images.md.
 */
export async function runGraph(engine: ImageEngine, graph: Graph, options: RunOptions): Promise<readonly Buffer[]> {
  const { signal, ceilingMs = imageCeilingMs, pollMs = 250 } = options;
  signal.throwIfAborted();
  const ceiling = new AbortController();
  const timer = setTimeout(() => ceiling.abort(tooSlow(ceilingMs)), ceilingMs);
  const either = AbortSignal.any([signal, ceiling.signal]);
  // Not aborted with the rest: a prompt without a known id could not be cancelled.
  const submitted = submit(engine, graph);
  try {
    const id = await unlessAborted(submitted, either);
    const outputs = await finished(engine, id, pollMs, either);
    const images: Buffer[] = [];
    for (const output of outputs) images.push(await view(engine, output, either));
    await forget(engine, id);
    return images;
  } catch (error) {
    const isCancelled = submitted.then((id) => cancel(engine, id), nothing);
    // An engine that has not answered the submission yet gets the cancellation once it does.
    await unlessAborted(isCancelled, AbortSignal.timeout(cancelTimeoutMs)).catch(nothing);
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

const nothing = (): void => undefined;

function tooSlow(ceilingMs: number): ApiError {
  return new ApiError("dispatch.upstream_timeout", {
    message: `the image engine did not finish within ${Math.round(ceilingMs / 1000)} s`,
  });
}

async function submit(engine: ImageEngine, graph: Graph): Promise<string> {
  const id = randomUUID();
  // Older versions choose their own id; the answer has the valid one.
  const body = { prompt: graph, prompt_id: id, client_id: id };
  return readAccepted(
    await callEngine(engine, {
      method: "POST",
      path: "/prompt",
      body,
      timeoutMs: callTimeoutMs,
      limitBytes: jsonLimitBytes,
    }),
  );
}

async function finished(
  engine: ImageEngine,
  id: string,
  pollMs: number,
  signal: AbortSignal,
): Promise<readonly OutputImage[]> {
  const get = async (path: string): Promise<EngineAnswer> => await follow(engine, path, jsonLimitBytes, signal);
  const history = async (): Promise<readonly OutputImage[] | undefined> =>
    readHistory(await get(`/history/${encodeURIComponent(id)}`), id);
  for (let polls = 1; ; polls += 1) {
    const outputs = await history();
    if (outputs !== undefined) return outputs;
    if (polls % pollsBetweenChecks === 0 && readQueue(await get("/queue"), id) === undefined) {
      // The engine may have finished the drawing between the two requests.
      const late = await history();
      if (late !== undefined) return late;
      throw new ApiError("dispatch.upstream_failed", { message: "the image engine lost the request: it restarted" });
    }
    await pause(pollMs, signal);
  }
}

/** A call about a prompt that the engine has accepted. */
async function follow(
  engine: ImageEngine,
  path: string,
  limitBytes: number,
  signal: AbortSignal,
): Promise<EngineAnswer> {
  try {
    return await callEngine(engine, { method: "GET", path, signal, timeoutMs: callTimeoutMs, limitBytes });
  } catch (error) {
    if (!(error instanceof ExchangeError)) throw error;
    // An ExchangeError would have the whole drawing sent again, although the engine has accepted it.
    if (error.phase === "timeout" || error.phase === "shortage") throw exchangeFailure(error);
    throw new ApiError("dispatch.upstream_failed", {
      message: "the image engine stopped while it worked",
      cause: error,
    });
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => signal.throwIfAborted());
}

const pngStart = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
const pngEnd = Buffer.from("IEND");

async function view(engine: ImageEngine, image: OutputImage, signal: AbortSignal): Promise<Buffer> {
  const path = `/view?${new URLSearchParams({ ...image }).toString()}`;
  const { status, body } = await follow(engine, path, imageLimitBytes, signal);
  // The last chunk of a whole PNG is IEND: four bytes of name, four of checksum.
  const isWhole = body.subarray(0, 8).equals(pngStart) && body.subarray(-8, -4).equals(pngEnd);
  if (status === 200 && isWhole) return body;
  throw new ApiError("dispatch.upstream_failed", {
    message:
      status === 200 ? "the image engine's file is no whole PNG" : `the image engine answered ${status} for its file`,
  });
}

/** Deletes a prompt from ComfyUI's history, which would keep it in memory. A failure is ignored: the images are complete. */
async function forget(engine: ImageEngine, id: string): Promise<void> {
  await post(engine, "/history", { delete: [id] });
}

/**
 * Removes the prompt from the queue, or interrupts it. Older versions interrupt the running prompt, whichever it is, so
 * that is done only for our own.
 */
async function cancel(engine: ImageEngine, id: string): Promise<void> {
  await post(engine, "/queue", { delete: [id] });
  const queue = await callEngine(engine, {
    method: "GET",
    path: "/queue",
    timeoutMs: cancelTimeoutMs,
    limitBytes: jsonLimitBytes,
  }).catch(() => undefined);
  if (queue !== undefined && readQueue(queue, id) === "running") await post(engine, "/interrupt", { prompt_id: id });
}

/** Best effort: an engine that does not answer any more has nothing left to stop. */
async function post(engine: ImageEngine, path: string, body: unknown): Promise<void> {
  await callEngine(engine, {
    method: "POST",
    path,
    body,
    timeoutMs: cancelTimeoutMs,
    limitBytes: jsonLimitBytes,
  }).catch(() => undefined);
}
