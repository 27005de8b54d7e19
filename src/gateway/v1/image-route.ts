import { ApiError } from "../../api/errors.ts";
import type { ImageCache } from "../media/images/cache.ts";
import type { Drawings } from "../media/images/drawings.ts";
import { drawImages } from "../media/images/exchange.ts";
import { planImage, type ImagePlan } from "../media/images/images.ts";
import { imageCeilingMs } from "../media/images/comfyui.ts";
import type { Workflows } from "../media/images/workflows.ts";
import type { KnownSlot } from "../routing/index.ts";
import type { ScannedBody } from "../../lib/json-scan.ts";
import { plainErrors } from "../http/error-form.ts";
import type { AnswerFormat } from "../relay/answer-format.ts";
import type { FixedSlot } from "../routing/resolve.ts";
import type { UpstreamModel } from "../providers/catalog.ts";
import { readJsonBody } from "./json-route.ts";
import { readModel, withModel } from "./body-fields.ts";
import type { BackendRequest, V1Request, V1Route } from "./route.ts";

export interface ImagePlaces {
  readonly images: ImageCache;
  readonly drawings: Drawings;
  /** SVC_BASE_PATH. */
  readonly basePath: string;
}

/** `POST /v1/images/generations`: the slot `img`, except for the refs of an upstream with the capability `image`. */
export function imageRoute(places: ImagePlaces): V1Route {
  return {
    method: "POST",
    path: "/v1/images/generations",
    about: {
      summary: "Images drawn from a text",
      takes: "application/json",
      gives: "application/json",
      inputRule: { field: "prompt", kinds: ["text"], isRequired: true },
    },
    aliasPaths: [],
    errors: plainErrors,
    async read(request, limits) {
      return new ImageRequest(await readJsonBody(request, limits), places);
    },
  };
}

/** For a provider's stream of partial images; the last event holds a whole one. */
const providerFormat: AnswerFormat = {
  endMark: /"image_generation\.completed"/,
  eventLimitBytes: 16 * 1024 * 1024,
};

class ImageRequest implements V1Request {
  readonly body: Buffer;
  readonly model: string;
  readonly fixedSlot: FixedSlot;
  readonly isStream: boolean;
  readonly #scanned: ScannedBody;
  readonly #workflows: Workflows;
  readonly #places: ImagePlaces;

  constructor(body: Buffer, places: ImagePlaces) {
    this.body = body;
    const { scanned, model } = readModel(body);
    this.model = model;
    this.#scanned = scanned;
    this.isStream = scanned.isStream;
    this.#places = places;
    this.#workflows = places.drawings.workflows();
    // A curated name means the same everywhere.
    this.fixedSlot = { slot: "img", ...(this.#workflows.has(model) ? {} : { unless: "image" }) };
  }

  /** Unchanged: the fields and models of a provider are its own. */
  forProvider({ providerModel }: UpstreamModel): BackendRequest {
    return {
      ...imageRequest,
      accept: this.isStream ? "text/event-stream" : "application/json",
      body: withModel(this.body, this.#scanned, providerModel),
      served: providerModel,
      format: providerFormat,
    };
  }

  forSlot(slot: KnownSlot): BackendRequest {
    const held = slot.status?.model.ref ?? slot.spec.model.default;
    const names = [slot.name, ...(slot.status?.aliases ?? [])];
    let planned: ImagePlan | undefined;
    const plan = (): ImagePlan => (planned ??= planImage(this.body, this.#workflows, { names, held }));
    // A wrong request is refused before it loads the slot, or gets "not found".
    try {
      plan();
    } catch (error) {
      // The model of a disabled slot does not matter: the error says that the slot is disabled.
      const isNoWorkflow = error instanceof ApiError && error.code === "model.not_loaded";
      if (slot.spec.enabled || !isNoWorkflow) throw error;
    }
    return {
      ...imageRequest,
      accept: "application/json",
      format: {},
      served: this.model,
      exchange: ({ endpoint, timeouts, ...engine }, events) => {
        const ceilingMs = Math.min(imageCeilingMs, timeouts.firstByteMs || Infinity);
        const { images: cache, drawings, basePath } = this.#places;
        const onDrawn = (model: string): void => drawings.note(slot.name, endpoint, model);
        return drawImages(plan, { engine, cache, basePath, ceilingMs, onDrawn }, events);
      },
    };
  }
}

const imageRequest = {
  capability: "image",
  method: "POST",
  path: "/v1/images/generations",
} as const;
