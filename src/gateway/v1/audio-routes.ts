import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import type { BufferBudget } from "../slots/budget.ts";
import { speechAnswers, speechRequest, voicesAnswers } from "../media/audio/speech.ts";
import { readForm } from "../media/audio/transcription.ts";
import type { KnownSlot } from "../routing/index.ts";
import { plainErrors } from "../http/error-form.ts";
import type { AnswerFormat } from "../relay/answer-format.ts";
import { jsonRoute } from "./json-route.ts";
import type { UpstreamModel } from "../providers/catalog.ts";
import type { BackendRequest, V1Request, V1Route } from "./route.ts";
import { UploadRequest, type UploadPath } from "./upload-request.ts";

/** The places of waiting uploads. */
interface UploadPlaces {
  readonly spoolDir: string;
  readonly spooled: BufferBudget;
}

/** The routes for sound in and out. `stateDir` has room for waiting uploads, up to the limit of `spooled`. */
export function audioRoutes(stateDir: string, spooled: BufferBudget): readonly V1Route[] {
  const places = { spoolDir: join(stateDir, "spool"), spooled };
  return [
    jsonRoute({
      path: "/v1/audio/speech",
      summary: "A text spoken",
      hasStreams: false,
      gives: ["audio/mpeg", "audio/wav", "audio/opus", "audio/flac", "audio/pcm", "text/event-stream"],
      target: ({ isProvider }) => ({
        capability: "speech",
        enginePath: "/v1/audio/speech",
        accept: "*/*",
        endMark: speechEnd,
        // The accepted fields and defaults of a provider are its own.
        translation: { ...speechAnswers, request: (body) => (isProvider ? body : speechRequest(body)) },
      }),
    }),
    uploadRoute("/v1/audio/transcriptions", "What is said in a recording", places),
    uploadRoute("/v1/audio/translations", "What is said in a recording, in English, where the engine can", places),
    {
      method: "GET",
      path: "/v1/audio/voices",
      about: { summary: "The voices that speech can have", gives: "application/json" },
      aliasPaths: [],
      errors: plainErrors,
      read: (request) => Promise.resolve(new VoicesRequest(modelOf(request))),
    },
  ];
}

/** For providers that send speech as events. */
const speechEnd = /"speech\.audio\.done"/;

function uploadRoute(path: UploadPath, summary: string, places: UploadPlaces): V1Route {
  return {
    method: "POST",
    path,
    about: {
      summary,
      takes: "multipart/form-data",
      gives: ["application/json", "text/event-stream", "text/plain", "text/vtt", "application/x-subrip"],
    },
    aliasPaths: [],
    errors: plainErrors,
    read: async (request, limits) => new UploadRequest(path, await readForm(request, { ...limits, ...places })),
  };
}

const voicesFormat: AnswerFormat = { translation: voicesAnswers };

class VoicesRequest implements V1Request {
  readonly model: string;
  readonly isStream = false;
  readonly body = undefined;

  constructor(model: string) {
    this.model = model;
  }

  forSlot(slot: KnownSlot): BackendRequest {
    return voicesRequest(slot.status?.model.served ?? this.model, "");
  }

  /** A provider with several models may have voices for each. */
  forProvider({ providerModel }: UpstreamModel): BackendRequest {
    return voicesRequest(providerModel, `?model=${encodeURIComponent(providerModel)}`);
  }
}

function voicesRequest(served: string, query: string): BackendRequest {
  return {
    capability: "speech",
    format: voicesFormat,
    served,
    method: "GET",
    path: `/v1/audio/voices${query}`,
    accept: "application/json",
  };
}

/** `?model=`, else the slot for speech. */
function modelOf(request: IncomingMessage): string {
  const { url = "/" } = request;
  // Not parsed as a URL: in the absolute form a client may write an invalid host.
  const model = new URLSearchParams(url.slice(url.indexOf("?") + 1 || url.length)).get("model");
  return model === null || model === "" ? "tts" : model;
}
