import { randomInt } from "node:crypto";
import { ApiError } from "../../../api/errors.ts";
import { diskFailure } from "../../http/disk-failure.ts";
import type { ImageCache } from "./cache.ts";
import { runGraph } from "./comfyui.ts";
import type { ImageEngine } from "./engine-http.ts";
import { parseImageRequest, type ImageRequest } from "./request.ts";
import { fillGraph, workflowFor, type Graph, type ImageSlotNames, type Workflows } from "./workflows.ts";

/** A completely checked image request: only the engine can fail it now. */
export interface ImagePlan {
  readonly request: ImageRequest;
  readonly workflow: string;
  readonly checkpoint: string;
  readonly seed: number;
  readonly graph: Graph;
}

export interface GenerateOptions {
  readonly engine: ImageEngine;
  /** Aborted when the client has disconnected. */
  readonly signal: AbortSignal;
  readonly cache: ImageCache;
  /** The path that a proxy keeps before every other; empty: none. */
  readonly basePath: string;
  readonly ceilingMs?: number;
  readonly pollMs?: number;
  /** The engine has drawn with that model. */
  readonly onDrawn?: (model: string) => void;
}

/** The drawn images. */
export interface Drawn {
  /** Seconds since the epoch. */
  readonly created: number;
  readonly data: readonly ({ readonly url: string } | { readonly png: Buffer })[];
  readonly _svc: { readonly workflow: string; readonly checkpoint: string; readonly seed: number };
}

/** `randomInt` supports no wider range. */
const seedLimit = 2 ** 48 - 1;

/**
 * The part of a request that needs no engine: its fields, its workflow, its seed. Throws ApiError as
 * `parseImageRequest` and `workflowFor` do, so that a wrong request is refused before it loads or waits for the slot.
 */
export function planImage(body: Buffer, workflows: Workflows, slot: ImageSlotNames): ImagePlan {
  const request = parseImageRequest(body);
  const workflow = workflowFor(workflows, request.model, slot);
  const seed = request.seed ?? randomInt(seedLimit);
  const graph = fillGraph(workflow, request, seed);
  return { request, workflow: workflow.id, checkpoint: workflow.checkpoint, seed, graph };
}

/** Has the engine draw the plan. Rejects as `runGraph` does. */
export async function generate(plan: ImagePlan, options: GenerateOptions): Promise<Drawn> {
  const { request, workflow, checkpoint, seed, graph } = plan;
  const { engine, cache, basePath, onDrawn, ...run } = options;
  const images = await runGraph(engine, graph, run);
  onDrawn?.(workflow);
  if (images.length !== request.count) {
    throw new ApiError("dispatch.upstream_failed", {
      message: `the image engine made ${images.length} of ${request.count} images`,
    });
  }
  const data =
    request.responseFormat === "b64_json"
      ? images.map((png) => ({ png }))
      : // A path alone, as the specification has it.
        (await kept(cache, images)).map((name) => ({ url: `${basePath}/api/images/cache/${name}` }));
  return { created: Math.floor(Date.now() / 1000), data, _svc: { workflow, checkpoint, seed } };
}

async function kept(cache: ImageCache, images: readonly Buffer[]): Promise<readonly string[]> {
  return await cache.put(images).catch((error: unknown) => {
    throw diskFailure(error, "keep the images");
  });
}

/** Three bytes become four letters: pieces of this size need no padding between them. */
const pieceBytes = 49_152;

/**
 * The answer of `POST /v1/images/generations` as JSON, piece by piece: eight large images as one text would take
 * several times their size in memory.
 */
export function* answerText({ created, data, _svc }: Drawn): Generator<Buffer, void, undefined> {
  yield Buffer.from(`{"created":${created},"data":[`);
  for (const [index, item] of data.entries()) {
    if (index > 0) yield Buffer.from(",");
    if ("url" in item) {
      yield Buffer.from(JSON.stringify(item));
      continue;
    }
    yield Buffer.from('{"b64_json":"');
    for (let at = 0; at < item.png.length; at += pieceBytes)
      yield Buffer.from(item.png.toString("base64", at, at + pieceBytes), "latin1");
    yield Buffer.from('"}');
  }
  yield Buffer.from(`],"_svc":${JSON.stringify(_svc)}}`);
}
